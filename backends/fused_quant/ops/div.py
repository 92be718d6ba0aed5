# SPDX-License-Identifier: BSD-3-Clause
"""div of two tensors with broadcasting, by numerics_div.quotient.

q = C(zo + quotient((a - za), (b - zb); M(sa / (sb * so)))). With a rounding mode the real quotient
is an integer first: q = C(zo + R(quotient(..; M(sa / sb), mode); M(1 / so))).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.fx import Node

from fused_quant import graph, numerics, numerics_div
from fused_quant.ops.common import check_rank, check_ratio, check_wide_activations, tensor
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
_OPERANDS = ("inp", "other")
_FLOORED = (_aten.floor_divide.default, _aten.floor_divide_.Tensor)
_SPELLINGS = (
    *(_aten.div.Tensor, _aten.div_.Tensor, _aten.div.Tensor_mode, _aten.div_.Tensor_mode),
    *_FLOORED,
)


def _parse(node: Node) -> Call | Reason:
    bound = graph.bind(node)
    if not isinstance(bound["other"], Node):
        return Reason("operand", "argument other", repr(bound["other"]), "a tensor")
    mode = "floor" if graph.op_of(node) in _FLOORED else bound.get("rounding_mode")
    return Call({"inp": bound["self"], "other": bound["other"]}, {"rounding_mode": mode})


def _divisor_is_tensor(node: Node) -> bool:
    return len(node.args) > 1 and isinstance(node.args[1], Node)


def _ratios(site: Site) -> tuple[float, float]:
    """(of the quotient, of the output behind it); the latter is 1 without a rounding mode."""
    s_a, s_b = (site.block(name).scale_value for name in _OPERANDS)
    s_out = site.result.scale_value
    if site.attributes["rounding_mode"] is None:
        return s_a / (s_b * s_out), 1.0
    return s_a / s_b, 1.0 / s_out


def _covers(site: Site) -> Reason | None:
    reason = check_wide_activations(site, _OPERANDS)
    if reason is not None:
        return reason
    inner, outer = _ratios(site)
    return check_ratio(inner, "the quotient") or check_ratio(outer, "1 / s_out")


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or _covers(site)


def _aten_div(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    a, b, mode = tensor(tensors, "inp"), tensor(tensors, "other"), attributes["rounding_mode"]
    return torch.div(a, b) if mode is None else torch.div(a, b, rounding_mode=mode)


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    n, d = (
        tensor(tensors, name).to(torch.int64) - site.block(name).zero_point_value
        for name in _OPERANDS
    )
    out, mode = site.result, site.attributes["rounding_mode"]
    inner, outer = map(numerics.multiplier_from_ratio, _ratios(site))
    codes = numerics_div.quotient(n, d, inner, mode)
    if mode is not None:
        codes = numerics.rescale(codes, outer)
    codes = codes + out.zero_point_value
    return codes.clamp(out.quant_min, out.quant_max).to(out.dtype)


def _lower(site: Site, builder: Builder) -> None:
    inner, outer = map(numerics.multiplier_from_ratio, _ratios(site))
    out, roundings = site.result, builder.schema.Rounding
    params = builder.schema.ElementwiseParamsT()
    params.inputZeroPoint = [site.block(name).zero_point_value for name in _OPERANDS]
    params.multiplier, params.shift = [inner.multiplier], [inner.shift]
    params.outputMultiplier, params.outputShift = outer.multiplier, outer.shift
    params.outputZeroPoint = out.zero_point_value
    params.clampMin, params.clampMax = out.quant_min, out.quant_max
    mode = site.attributes["rounding_mode"]
    params.rounding = roundings.nearest if mode is None else getattr(roundings, mode)
    order = builder.common_order()
    inputs = [builder.broadcast_operand(name, order) for name in _OPERANDS]
    builder.emit("div", inputs, [builder.result(order)], params)


register(
    OpSpec(
        name="div",
        fusion=Fusion(
            operands=tuple(Operand(name) for name in _OPERANDS),
            attributes=("str? rounding_mode=None",),
            anchors=dict.fromkeys(_SPELLINGS, _parse),
            aten=_aten_div,
            reference=_reference,
            covers=_covers,
        ),
        annotation=Annotation(
            _SPELLINGS, activations=("self", "other"), condition=_divisor_is_tensor, unasked=False
        ),
        runtime=Runtime(_supported, _lower, Layout.ANY),
    )
)
