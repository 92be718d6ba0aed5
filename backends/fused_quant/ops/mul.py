# SPDX-License-Identifier: BSD-3-Clause
"""mul with broadcasting: q = clamp(zp_out + R((a - zp_a) * (b - zp_b); M(s_a * s_b / s_out)))."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.fx import Node

from fused_quant import graph, numerics
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

_OPERANDS = ("inp", "other")


def _parse(node: Node) -> Call | Reason:
    bound = graph.bind(node)
    if not isinstance(bound["other"], Node):
        return Reason("operand", "argument other", repr(bound["other"]), "a tensor")
    return Call({"inp": bound["self"], "other": bound["other"]}, {})


def _ratio(site: Site) -> float:
    s_a, s_b = (site.block(name).scale_value for name in _OPERANDS)
    return s_a * s_b / site.result.scale_value


def _covers(site: Site) -> Reason | None:
    return check_wide_activations(site, _OPERANDS) or check_ratio(_ratio(site), "s_a * s_b / s_out")


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or _covers(site)


def _aten_mul(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return tensor(tensors, "inp") * tensor(tensors, "other")


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    a, b = (
        tensor(tensors, name).to(torch.int64) - site.block(name).zero_point_value
        for name in _OPERANDS
    )
    out = site.result
    return numerics.requantize(
        a * b,
        numerics.multiplier_from_ratio(_ratio(site)),
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
        out.dtype,
    )


def _lower(site: Site, builder: Builder) -> None:
    multiplier, out = numerics.multiplier_from_ratio(_ratio(site)), site.result
    params = builder.schema.ElementwiseParamsT()
    params.inputZeroPoint = [site.block(name).zero_point_value for name in _OPERANDS]
    params.outputMultiplier, params.outputShift = multiplier.multiplier, multiplier.shift
    params.outputZeroPoint = out.zero_point_value
    params.clampMin, params.clampMax = out.quant_min, out.quant_max
    order = builder.common_order()
    inputs = [builder.broadcast_operand(name, order) for name in _OPERANDS]
    builder.emit("mul", inputs, [builder.result(order)], params)


_SPELLINGS = (torch.ops.aten.mul.Tensor, torch.ops.aten.mul_.Tensor)
register(
    OpSpec(
        name="mul",
        fusion=Fusion(
            operands=tuple(Operand(name) for name in _OPERANDS),
            attributes=(),
            anchors=dict.fromkeys(_SPELLINGS, _parse),
            aten=_aten_mul,
            reference=_reference,
            covers=_covers,
        ),
        annotation=Annotation(_SPELLINGS),
        runtime=Runtime(_supported, _lower, Layout.ANY),
    )
)
