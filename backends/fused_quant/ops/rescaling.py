# SPDX-License-Identifier: BSD-3-Clause
"""What requantize and the stand-alone clamps share.

q = clamp(zp_out + R(x - zp_in; M(s_in / s_out))).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from fused_quant import numerics
from fused_quant.ops.common import (
    CODE_BOUNDS,
    check_int8_activations,
    check_rank,
    check_ratio,
    tensor,
)
from fused_quant.ops.spec import Site, Tensors
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder


def covers(site: Site) -> Reason | None:
    """A reason why the integer contract does not define this rescaling."""
    reason = check_int8_activations(site, ["inp"], unsigned=True, wide=True)
    return reason or check_ratio(_ratio(site), "input to output")


def supported_with(
    check: Callable[[Site], Reason | None],
) -> Callable[[Site, Target], Reason | None]:
    """A runtime check out of a coverage check."""

    def supported(site: Site, target: Target) -> Reason | None:
        return check_rank(site, target) or check(site)

    return supported


def _ratio(site: Site, name: str = "inp") -> float:
    return site.block(name).scale_value / site.result.scale_value


def multiplier(site: Site, name: str = "inp") -> numerics.Multiplier:
    """Of an operand's grid to the output's."""
    return numerics.multiplier_from_ratio(_ratio(site, name))


def check(site: Site, name: str) -> Reason | None:
    """A reason why the codes of an operand cannot be brought to the output's grid."""
    return check_ratio(_ratio(site, name), f"{name} to output")


def reference(
    site: Site, tensors: Tensors, bounds: tuple[int, int], name: str = "inp"
) -> torch.Tensor:
    """The contract on codes of one operand, clamped to `bounds`."""
    x = tensor(tensors, name)
    out = site.result
    centred = x.to(torch.int64) - site.block(name).zero_point_value
    return numerics.requantize(
        centred, multiplier(site, name), out.zero_point_value, *bounds, out.dtype
    )


def lower(site: Site, builder: Builder, bounds: tuple[int, int]) -> None:
    """Emit one `requantize` step."""
    order = builder.common_order()
    emit(site, builder, bounds, builder.operand("inp", order), builder.result(order))


def lower_ratio(
    site: Site,
    builder: Builder,
    bounds: tuple[int, int],
    ratio: float,
    offset: int | None = None,
) -> None:
    """Emit one `requantize` step whose factor is `ratio`; it adds `offset`, or the zero point."""
    order = builder.common_order()
    found = numerics.multiplier_from_ratio(ratio)
    tensors = (builder.operand("inp", order), builder.result(order))
    emit(site, builder, bounds, *tensors, found, offset)


def emit(
    site: Site,
    builder: Builder,
    bounds: tuple[int, int],
    source: int,
    target: int,
    factor: numerics.Multiplier | None = None,
    offset: int | None = None,
) -> None:
    """Emit the step between two stored tensors, the first on the input's grid."""
    found = factor or multiplier(site)
    params = builder.schema.ElementwiseParamsT()
    params.inputZeroPoint = [site.block("inp").zero_point_value]
    params.multiplier, params.shift = [found.multiplier], [found.shift]
    params.negate = [False]
    params.outputZeroPoint = site.result.zero_point_value if offset is None else offset
    params.clampMin, params.clampMax = bounds
    builder.emit("requantize", [source], [target], params)


def lower_pair(site: Site, builder: Builder, opcode: str, operands: tuple[str, str]) -> None:
    """Emit a step that brings both operands to the output's grid; shapes broadcast."""
    params, out = builder.schema.ElementwiseParamsT(), site.result
    multipliers = [multiplier(site, name) for name in operands]
    params.inputZeroPoint = [site.block(name).zero_point_value for name in operands]
    params.multiplier = [m.multiplier for m in multipliers]
    params.shift = [m.shift for m in multipliers]
    params.outputZeroPoint = out.zero_point_value
    params.clampMin, params.clampMax = out.quant_min, out.quant_max
    order = builder.common_order()
    inputs = [builder.broadcast_operand(name, order) for name in operands]
    builder.emit(opcode, inputs, [builder.result(order)], params)


def is_needed(site: Site) -> bool:
    """False if bringing any code of the input to the output's grid changes nothing."""
    before, after = site.block("inp"), site.result
    whole = (after.quant_min, after.quant_max) == CODE_BOUNDS[after.dtype]
    return not (whole and before.same_grid(after))
