# SPDX-License-Identifier: BSD-3-Clause
"""Accumulators of convolutions of any rank, transposed ones among them.

    acc = b[o] + sum (x - zx) * w      a padded tap contributes real 0

Sums are taken in float64, exactly: every partial sum is an integer far below 2^53.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def canonical_weight(weight: Tensor, groups: int) -> Tensor:
    """The weight of a transposed convolution, [in_c, out_c / groups, ...], by output channel.

    Returns [out_c, in_c / groups, ...], the arrangement of an ordinary convolution's weight.
    """
    in_c, group_out, *kernel = weight.shape
    grouped = weight.reshape(groups, in_c // groups, group_out, *kernel).transpose(1, 2)
    return grouped.reshape(groups * group_out, in_c // groups, *kernel)


def accumulate(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    zx: int,
    stride: Sequence[int],
    sides: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """int64 [batch, out_c, ...]; w: [out_c, in_c / groups, ...] without zero point.

    sides: (begin, end) of the padding of every dimension, first dimension first.
    """
    amounts = [
        a for pair in reversed(list(zip(sides[::2], sides[1::2], strict=True))) for a in pair
    ]
    centred = functional.pad((x.to(torch.int64) - zx).to(torch.float64), amounts)
    none = [0] * len(stride)
    acc = torch.convolution(
        centred, w.to(torch.float64), None, stride, none, dilation, False, none, groups
    )
    return _with_bias(acc, bias)


def accumulate_transposed(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    zx: int,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """As `accumulate`, for w: [in_c, out_c / groups, ...]; where no tap reaches, only the bias."""
    centred = (x.to(torch.int64) - zx).to(torch.float64)
    acc = torch.convolution(
        centred, w.to(torch.float64), None, stride, padding, dilation, True, output_padding, groups
    )
    return _with_bias(acc, bias)


def _with_bias(acc: Tensor, bias: Tensor | None) -> Tensor:
    total = torch.round(acc).to(torch.int64)
    return (
        total if bias is None else total + bias.to(torch.int64).reshape(-1, *[1] * (acc.dim() - 2))
    )
