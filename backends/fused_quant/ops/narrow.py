# SPDX-License-Identifier: BSD-3-Clause
"""Weights of 4 bits, and weights with a scale per group of input channels.

Codes whose range is within [-8, 7] are packed two in a byte; the arithmetic is that of 8 bits. A
weight [out_c, in_c, ...] whose scale has the shape [out_c or 1, groups, 1, ...] has sums of its own
for each group: `numerics_group` has the formula. Groups run only with packed codes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import torch

from fused_quant import numerics_group
from fused_quant.lowered import StoredQParams
from fused_quant.numerics_group import GroupMultipliers
from fused_quant.ops.spec import Site
from fused_quant.reasons import Reason

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

LOW, HIGH = -8, 7


def group_size(site: Site) -> int:
    """Input channels that share a scale; 0 if a channel of the output has one scale for all."""
    block, shape = site.block("weight"), site.shapes["weight"]
    counts = tuple(block.scale.shape)
    if block.is_per_tensor or len(counts) != len(shape) or len(shape) < 2 or counts[1] == 1:
        return 0
    outer = counts[0] in (1, shape[0]) and all(count == 1 for count in counts[2:])
    return shape[1] // counts[1] if outer and shape[1] % counts[1] == 0 else 0


def is_packed(site: Site) -> bool:
    """True if the weight's quantization has 4 bits, its codes keep to them, and x has 8."""
    block, codes = site.block("weight"), site.constants.get("weight")
    if codes is None or site.dtypes["inp"] != torch.int8 or site.dtypes["weight"] != torch.int8:
        return False
    declared = block.quant_min >= LOW and block.quant_max <= HIGH
    return declared and int(codes.min()) >= LOW and int(codes.max()) <= HIGH


def check_groups(site: Site, can_pack: bool = True) -> Reason | None:
    """A reason why the runtime cannot run the site's groups. can_pack: the operator has kernels."""
    size = group_size(site)
    if not size or (can_pack and is_packed(site)):
        return None
    block = site.block("weight")
    if not can_pack:
        supported = "groups in linear, conv1d and conv2d"
    else:
        supported = "groups of codes in [-8, 7]"
    got = f"groups of {size}, codes in [{block.quant_min}, {block.quant_max}]"
    return Reason("granularity", "weight", got, supported)


def multipliers(site: Site) -> list[GroupMultipliers]:
    """Of each output channel, one per group."""
    s_x, s_out = site.block("inp").scale_value, site.result.scale_value
    scale = site.block("weight").scale.flatten(1)
    rows = scale.expand(site.shapes["weight"][0], -1).tolist()
    return [numerics_group.group_multipliers([(s_x * s_w) / s_out for s_w in r]) for r in rows]


def result(
    site: Site,
    x: torch.Tensor,
    bias: torch.Tensor | None,
    groups: int,
    accumulate: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """The integer result. x: channels in dimension 1; accumulate(x, weight): without bias."""
    size, weight = group_size(site), site.constants["weight"]
    parts = numerics_group.accumulators(x, weight, size, groups, accumulate)
    out = site.result
    zero_point, bounds = out.zero_point_value, (out.quant_min, out.quant_max)
    channels = multipliers(site)
    return numerics_group.requantize(parts, bias, channels, zero_point, *bounds, out.dtype)


def stored_weight_params(site: Site) -> StoredQParams:
    """The weight's parameters, of groups, for channels stored last."""
    block = site.block("weight")
    counts = tuple(block.scale.shape)
    zeros = (0,) * block.scale.numel()
    inner = (1, 1) if len(counts) > 2 else ()  # the kernel of an image, whatever that of the site
    shape = (counts[0], *inner, counts[1])
    bounds = (block.quant_min, block.quant_max)
    return StoredQParams(tuple(block.scales), zeros, *bounds, scale_shape=shape)


def bias_operand(site: Site, builder: Builder) -> int:
    """The folded bias of groups as a constant, at the scale s_out * 2^-shift."""
    channels, weight = multipliers(site), site.constants["weight"]
    zero_point = site.block("inp").zero_point_value
    folded: npt.NDArray[Any] = numerics_group.fold_bias(
        site.constants.get("bias"), weight, zero_point, group_size(site), channels
    ).numpy()
    s_out = site.result.scale_value
    limits = torch.iinfo(torch.int32)
    params = StoredQParams(
        tuple(float(torch.tensor(s_out * 2.0**-c.shift)) for c in channels),
        (0,) * len(channels),
        limits.min,
        limits.max,
        0 if len(channels) > 1 else -1,
    )
    return builder.constant("bias", folded, "s64", params)


def fill(site: Site, params: Any) -> None:
    """The multipliers of groups in DotParams."""
    channels = multipliers(site)
    params.multiplier = [m for channel in channels for m in channel.multipliers]
    params.shift = [channel.shift for channel in channels]
    params.groupSize = group_size(site)
