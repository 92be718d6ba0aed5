# SPDX-License-Identifier: BSD-3-Clause
"""Sums in groups with a multiplier each: weights whose scales change along the summed channels.

    r[c, g] = (s_x * s_w[c, g]) / s_o
    s[c]    = the shift of M(max over g of r[c, g]);  m[c, g] = RNE(r[c, g] * 2^s[c])
    q = C(z_o + R64(b[c] * max over g of m[c, g] + sum over g of acc[c, g] * m[c, g]; s[c]))

R64(v; s) = (v + 2^(s - 1)) >> s. acc[c, g] = sum over the group of (x - z_x) * w, b[c] the int32
bias at scale s_x * max over g of s_w[c, g]. With `numerics.accumulator_fits` the magnitudes of bias
and accumulators of a channel sum up to at most 2^31 - 1; multipliers are below 2^31: |v| < 2^62.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fused_quant import numerics


@dataclasses.dataclass(frozen=True)
class GroupMultipliers:
    """Multipliers of the groups of one output channel; 2^-shift * multiplier is the ratio."""

    multipliers: tuple[int, ...]
    shift: int


def group_multipliers(ratios: Sequence[float]) -> GroupMultipliers:
    """Of the ratios of one channel. ValueError as `multiplier_from_ratio` for the largest of them.

    Each multiplier is below 2^31 and within 1/2 of ratio * 2^shift.
    """
    shift = numerics.multiplier_from_ratio(max(ratios)).shift
    return GroupMultipliers(tuple(round(ratio * 2.0**shift) for ratio in ratios), shift)


def _matrix(channels: Sequence[GroupMultipliers]) -> Tensor:
    return torch.tensor([channel.multipliers for channel in channels], dtype=torch.int64)


def accumulators(
    x: Tensor,
    weight: Tensor,
    size: int,
    groups: int,
    accumulate: Callable[[Tensor, Tensor], Tensor],
) -> list[Tensor]:
    """One accumulator per group of `size` input channels, without bias.

    x: channels in dimension 1; weight: [out_c, in_c / groups, ...]. accumulate: the operator.
    """
    by_group = x.unflatten(1, (groups, -1))
    return [
        accumulate(part.flatten(1, 2), weight[:, first : first + size])
        for first in range(0, weight.shape[1], size)
        for part in (by_group[:, :, first : first + size],)
    ]


def requantize(
    acc: Sequence[Tensor],
    bias: Tensor | None,
    channels: Sequence[GroupMultipliers],
    zero_point: int,
    lo: int,
    hi: int,
    dtype: torch.dtype,
) -> Tensor:
    """The formula above, of accumulators with channels in dimension 1; bias: int32 [out_c]."""
    multipliers = _matrix(channels)
    shape = [1, -1, *[1] * (acc[0].dim() - 2)]
    total = torch.zeros_like(acc[0])
    if bias is not None:
        total = total + (bias.to(torch.int64) * multipliers.amax(1)).reshape(shape)
    for group, part in enumerate(acc):
        total = total + part * multipliers[:, group].reshape(shape)
    shift = torch.tensor([channel.shift for channel in channels], dtype=torch.int64).reshape(shape)
    rounded = (total + (torch.ones_like(shift) << (shift - 1))) >> shift
    return (rounded + zero_point).clamp(lo, hi).to(dtype)


def fold_bias(
    bias: Tensor | None, weight: Tensor, zx: int, size: int, channels: Sequence[GroupMultipliers]
) -> Tensor:
    """int64 [out_c]: b * max m - zx * sum over g of m[g] * sum(w[g]); |result| <= 2^62.

    weight: [out_c, in_c / groups, ...], its dimension 1 in groups of `size`.
    """
    multipliers = _matrix(channels)
    by_group = weight.to(torch.int64).unflatten(1, (-1, size)).flatten(2).sum(2)
    folded = -zx * (by_group * multipliers).sum(1)
    return folded if bias is None else folded + bias.to(torch.int64) * multipliers.amax(1)
