# SPDX-License-Identifier: BSD-3-Clause
"""mean over any axes: q = clamp(zp_out + R(sum(x - zp_in); M(s_in / (N * s_out)))).

Rounded once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch.fx import Node

from fused_quant import numerics
from fused_quant.ops.common import (
    check_int8_activations,
    check_rank,
    check_ratio,
    pair,
    parser,
    tensor,
)
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    Call,
    Fusion,
    Layout,
    Operand,
    OpSpec,
    Runtime,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten
_MAX_ELEMENTS = 2**31 // 256  # |x - zp| <= 255 keeps the sum within int32


def _axes(site: Site) -> list[int]:
    rank = len(site.shapes["inp"])
    given = site.attributes["dim"]
    return sorted({axis % rank for axis in given}) if given else list(range(rank))


def _count(site: Site) -> int:
    return math.prod(site.shapes["inp"][axis] for axis in _axes(site))


def _multiplier(site: Site) -> numerics.Multiplier:
    return numerics.average_multiplier(
        site.block("inp").scale_value, _count(site), site.result.scale_value
    )


def _covers(site: Site) -> Reason | None:
    rank = len(site.shapes["inp"])
    if not rank or not all(-rank <= axis < rank for axis in site.attributes["dim"]):
        got = f"{rank} with dim={site.attributes['dim']}"
        return Reason("rank", "input rank", got, "1 or more, and dimensions of the input")
    reason = check_int8_activations(site, ["inp"])
    if reason is not None:
        return reason
    if not 0 < _count(site) < _MAX_ELEMENTS:
        return Reason("overflow", "elements of a mean", str(_count(site)), f"1 to {_MAX_ELEMENTS}")
    ratio = site.block("inp").scale_value / (_count(site) * site.result.scale_value)
    return check_ratio(ratio, "input to output")


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    x = tensor(tensors, "inp")
    out = site.result
    return numerics.mean(
        x,
        site.block("inp").zero_point_value,
        _axes(site),
        site.attributes["keepdim"],
        _multiplier(site),
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
        out.dtype,
    )


def _aten_mean(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    x = tensor(tensors, "inp")
    return x.mean(attributes["dim"] or None, attributes["keepdim"])


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or _covers(site)


def _inner_run(stored: list[int], axes: list[int]) -> int:
    """Elements of the innermost run of kept dimensions: the kernel sums that many at a time."""
    run = 1
    for position in reversed(range(len(stored))):
        if stored[position] == 1:
            continue
        if position in axes:
            break
        run *= stored[position]
    return run


def _lower(site: Site, builder: Builder) -> None:
    order = builder.order_of("inp")
    axes = _axes(site)
    if site.attributes["keepdim"]:
        out_order = order
    else:
        kept = [axis for axis in order if axis not in axes]
        out_order = tuple(sorted(kept).index(axis) for axis in kept)
    multiplier, out = _multiplier(site), site.result
    params = builder.schema.ReduceParamsT()
    params.axes = sorted(order.index(axis) for axis in axes)
    params.inputZeroPoint = site.block("inp").zero_point_value
    params.outputZeroPoint = out.zero_point_value
    params.multiplier, params.shift = multiplier.multiplier, multiplier.shift
    params.clampMin, params.clampMax = out.quant_min, out.quant_max
    inputs, outputs = [builder.operand("inp", order)], [builder.result(out_order)]
    stored = [site.shapes["inp"][axis] for axis in order]
    scratch = 4 * _inner_run(stored, params.axes)
    builder.emit("mean", inputs, outputs, params, scratch_bytes=scratch)


_NO_DTYPE = (None,)
_read_adaptive = parser({"inp": "self"}, {"output_size": lambda v: list(pair(v))})


def _parse_adaptive(node: Node) -> Call | Reason:
    """adaptive_avg_pool2d to one element: the same bits before and after decomposition."""
    call = _read_adaptive(node)
    if isinstance(call, Reason):
        return call
    if call.attributes["output_size"] != [1, 1]:
        return Reason("overload", "several windows: a pool")
    return Call(call.operands, {"dim": [-1, -2], "keepdim": True})


register(
    OpSpec(
        name="mean",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("int[] dim", "bool keepdim"),
            anchors={
                _aten.mean.dim: parser(
                    {"inp": "self"},
                    {"dim": lambda v: list(v or []), "keepdim": bool, "dtype": _NO_DTYPE},
                ),
                _aten.adaptive_avg_pool2d.default: _parse_adaptive,
                _aten._adaptive_avg_pool2d.default: _parse_adaptive,
            },
            aten=_aten_mean,
            reference=_reference,
            covers=_covers,
        ),
        annotation=Annotation((_aten.mean.dim,)),
        runtime=Runtime(_supported, _lower, Layout.FREE),
    )
)
