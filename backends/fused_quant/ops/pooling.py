# SPDX-License-Identifier: BSD-3-Clause
"""What the pools share: window params and the rule for averages over n elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from fused_quant import numerics
from fused_quant.ops.common import check_rank, check_ratio, check_wide_activations, pair
from fused_quant.ops.spec import Attributes, Site
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder


def kernel(attributes: Attributes) -> tuple[int, int]:
    """kernel_size as (height, width)."""
    return pair(attributes["kernel_size"])


def stride(attributes: Attributes) -> tuple[int, int]:
    """Stride as (height, width); an empty one means the kernel size."""
    given = attributes["stride"]
    return pair(given) if given else kernel(attributes)


def window(attributes: Attributes) -> tuple[tuple[int, int], ...]:
    """Kernel, stride and padding, each as (height, width)."""
    return kernel(attributes), stride(attributes), pair(attributes["padding"])


def check_image(site: Site) -> Reason | None:
    """A reason unless input and output are [N, C, H, W]."""
    if len(site.shapes["inp"]) != 4:
        return Reason("rank", "input rank", str(len(site.shapes["inp"])), "4: [N, C, H, W]")
    return None


def covers(site: Site) -> Reason | None:
    """A reason why the integer contract does not define this pool."""
    reason = check_wide_activations(site, ["inp"])
    if reason is not None:
        return reason
    return check_ratio(site.block("inp").scale_value / site.result.scale_value, "input to output")


def supported(site: Site, target: Target) -> Reason | None:
    """A reason why the runtime cannot run this pool."""
    return check_rank(site, target) or check_image(site) or covers(site)


def average(site: Site, total: torch.Tensor, divisor: torch.Tensor) -> torch.Tensor:
    """Total / divisor on the output's grid, by the rule for equal or differing parameters."""
    source, out = site.block("inp"), site.result
    return numerics.average(
        total,
        divisor,
        source.scale_value,
        source.zero_point_value,
        out.scale_value,
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
        out.dtype,
    )


def params(site: Site, builder: Builder) -> Any:
    """WindowParams with zero points and clamp filled in."""
    filled = builder.schema.WindowParamsT()
    filled.inputZeroPoint = site.block("inp").zero_point_value
    filled.outputZeroPoint = site.result.zero_point_value
    filled.clampMin, filled.clampMax = site.result.quant_min, site.result.quant_max
    filled.count, filled.multiplier, filled.shift = [], [], []
    return filled


def set_window(filled: Any, attributes: Attributes) -> None:
    """Geometry of a pool with explicit kernel, stride and padding."""
    filled.kernelH, filled.kernelW = kernel(attributes)
    filled.strideH, filled.strideW = stride(attributes)
    height, width = pair(attributes["padding"])
    filled.padTop, filled.padLeft, filled.padBottom, filled.padRight = height, width, height, width


def set_divisors(site: Site, filled: Any, divisors: Sequence[int]) -> None:
    """One multiplier per divisor that occurs, unless input and output parameters agree."""
    source, out = site.block("inp"), site.result
    if source.same_grid(out):
        return
    for n in sorted(set(divisors)):
        multiplier = numerics.average_multiplier(source.scale_value, n, out.scale_value)
        filled.count.append(n)
        filled.multiplier.append(multiplier.multiplier)
        filled.shift.append(multiplier.shift)


def emit(
    site: Site, builder: Builder, opcode: str, filled: Any, accumulator_bytes: int = 0
) -> None:
    """Emit a channels-last pool; accumulator_bytes: what the kernel keeps for each channel."""
    order = builder.CHANNELS_LAST
    scratch = accumulator_bytes * site.shapes["inp"][1]
    inputs, outputs = [builder.operand("inp", order)], [builder.result(order)]
    builder.emit(opcode, inputs, outputs, filled, scratch_bytes=scratch)
