# SPDX-License-Identifier: BSD-3-Clause
"""mean and sum over any axes, rounded once.

q = clamp(zp_out + R(sum(x - zp_in); M(s_in / (N * s_out)))), with N = 1 for a sum.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from fused_quant import numerics
from fused_quant.ops import reducing
from fused_quant.ops.common import (
    check_rank,
    check_ratio,
    check_wide_activations,
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
    Parser,
    Runtime,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten
# |x - zp| <= 255 keeps the sum within int32; so does |x| <= 32768, zp being 0.
_MAX_ELEMENTS = {torch.int8: 2**31 // 256 - 1, torch.int16: 65535}


def _count(site: Site) -> int:
    return math.prod(site.shapes["inp"][axis] for axis in reducing.axes_of(site))


def _divisor(site: Site) -> int:
    return 1 if site.spec.name == "sum" else _count(site)


def _multiplier(site: Site) -> numerics.Multiplier:
    return numerics.average_multiplier(
        site.block("inp").scale_value, _divisor(site), site.result.scale_value
    )


def _covers(site: Site) -> Reason | None:
    reason = reducing.check_axes(site) or check_wide_activations(site, ["inp"])
    if reason is not None:
        return reason
    limit = _MAX_ELEMENTS[site.dtypes["inp"]]
    if not 0 < _count(site) <= limit:
        return Reason(
            "overflow",
            f"elements of a {site.spec.name}",
            str(_count(site)),
            f"1 to {limit}",
        )
    ratio = site.block("inp").scale_value / (_divisor(site) * site.result.scale_value)
    return check_ratio(ratio, "input to output")


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    x = tensor(tensors, "inp")
    out = site.result
    return numerics.mean(
        x,
        site.block("inp").zero_point_value,
        reducing.axes_of(site),
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


def _aten_sum(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    x = tensor(tensors, "inp")
    return x.sum(attributes["dim"] or None, attributes["keepdim"])


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or _covers(site)


def _lower(site: Site, builder: Builder) -> None:
    reducing.lower(site, builder, "mean", _multiplier(site), accumulator_bytes=4)


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


_read_axes = parser(
    {"inp": "self"}, {"dim": lambda v: list(v or []), "keepdim": bool, "dtype": _NO_DTYPE}
)
_read_whole = parser({"inp": "self"}, {"dtype": _NO_DTYPE})


def _parse_whole(node: Node) -> Call | Reason:
    """All elements: no dimension is named."""
    call = _read_whole(node)
    return call if isinstance(call, Reason) else Call(call.operands, {"dim": [], "keepdim": False})


def _register(name: str, aten: Any, anchors: dict[Any, Parser], annotated: tuple[Any, ...]) -> None:
    register(
        OpSpec(
            name=name,
            fusion=Fusion(
                operands=(Operand("inp"),),
                attributes=("int[] dim", "bool keepdim"),
                anchors=anchors,
                aten=aten,
                reference=_reference,
                covers=_covers,
            ),
            annotation=Annotation(annotated),
            runtime=Runtime(_supported, _lower, Layout.FREE),
        )
    )


_register(
    "mean",
    _aten_mean,
    {
        _aten.mean.dim: _read_axes,
        _aten.mean.default: _parse_whole,
        _aten.adaptive_avg_pool2d.default: _parse_adaptive,
        _aten._adaptive_avg_pool2d.default: _parse_adaptive,
    },
    (_aten.mean.dim, _aten.mean.default),
)
_register(
    "sum",
    _aten_sum,
    {_aten.sum.dim_IntList: _read_axes, _aten.sum.default: _parse_whole},
    (_aten.sum.dim_IntList, _aten.sum.default),
)
