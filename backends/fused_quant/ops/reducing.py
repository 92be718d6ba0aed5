# SPDX-License-Identifier: BSD-3-Clause
"""What operators share that run over some dimensions: axes, orders and the step.

Attributes of a site: `dim`, a list that is empty for all dimensions, and `keepdim`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fused_quant import numerics
from fused_quant.layout import Order
from fused_quant.ops.spec import Site
from fused_quant.reasons import Reason

if TYPE_CHECKING:
    from fused_quant.lowering import Builder


def axes_of(site: Site) -> list[int]:
    """The dimensions that are reduced, ascending."""
    rank = len(site.shapes["inp"])
    given = site.attributes["dim"]
    return sorted({axis % rank for axis in given}) if given else list(range(rank))


def check_axes(site: Site) -> Reason | None:
    """A reason if a dimension is not one of the input's."""
    rank = len(site.shapes["inp"])
    if rank and all(-rank <= axis < rank for axis in site.attributes["dim"]):
        return None
    got = f"{rank} with dim={site.attributes['dim']}"
    return Reason("rank", "input rank", got, "1 or more, and dimensions of the input")


def result_order(order: Order, axes: list[int], keepdim: bool) -> Order:
    """The stored order of the result of an input stored in `order`: nothing changes places."""
    if keepdim:
        return order
    kept = [axis for axis in order if axis not in axes]
    return tuple(sorted(kept).index(axis) for axis in kept)


def params_of(site: Site, builder: Builder, multiplier: numerics.Multiplier, order: Order) -> Any:
    """ReduceParams of a quantized site whose input is stored in `order`."""
    out = site.result
    params = builder.schema.ReduceParamsT()
    params.axes = sorted(order.index(axis) for axis in axes_of(site))
    params.inputZeroPoint = site.block("inp").zero_point_value
    params.outputZeroPoint = out.zero_point_value
    params.multiplier, params.shift = multiplier.multiplier, multiplier.shift
    params.clampMin, params.clampMax = out.quant_min, out.quant_max
    return params


def lower(
    site: Site,
    builder: Builder,
    opcode: str,
    multiplier: numerics.Multiplier,
    accumulator_bytes: int = 0,
) -> None:
    """Emit the step; accumulator_bytes: what the kernel keeps for each of a run of sums."""
    order = builder.order_of("inp")
    params = params_of(site, builder, multiplier, order)
    out_order = result_order(order, axes_of(site), site.attributes["keepdim"])
    stored = [site.shapes["inp"][axis] for axis in order]
    scratch = accumulator_bytes * _inner_run(stored, params.axes)
    inputs, outputs = [builder.operand("inp", order)], [builder.result(out_order)]
    builder.emit(opcode, inputs, outputs, params, scratch_bytes=scratch)


def _inner_run(stored: list[int], axes: list[int]) -> int:
    """Elements of the innermost run of kept dimensions."""
    run = 1
    for position in reversed(range(len(stored))):
        if stored[position] == 1:
            continue
        if position in axes:
            break
        run *= stored[position]
    return run
