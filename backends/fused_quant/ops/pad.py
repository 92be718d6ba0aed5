# SPDX-License-Identifier: BSD-3-Clause
"""constant_pad_nd: C(zo + R(x - zi; M(si / so))) inside, the code of `value` around it.

The code of the value is C(zo + RNE(f32(value) * f32(1 / so))). Negative amounts crop, as in ATen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch.fx import Node

from fused_quant import graph, numerics
from fused_quant.ops import rescaling
from fused_quant.ops.common import check_rank, check_wide_activations, number, tensor
from fused_quant.ops.padding import is_taken_in
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


def _parse(node: Node) -> Call | Reason:
    bound = graph.bind(node)
    if bound.get("mode", "constant") != "constant":
        return Reason("attribute", "argument mode", repr(bound["mode"]), "'constant'")
    value = 0.0 if bound["value"] is None else number(bound["value"])
    return Call({"inp": bound["self"]}, {"pad": list(bound["pad"]), "value": value})


def _covers(site: Site) -> Reason | None:
    if math.isnan(site.attributes["value"]):
        return Reason("attribute", "argument value", "nan", "a number")
    return check_wide_activations(site, ["inp"]) or rescaling.check(site, "inp")


def _code(site: Site) -> int:
    """The code of the value, within the output's bounds."""
    out, value = site.result, float(site.attributes["value"])
    code = numerics.quantize_bound(value, out.scale_value, out.zero_point_value)
    return min(max(code, out.quant_min), out.quant_max)


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    inner = rescaling.reference(site, tensors, (site.result.quant_min, site.result.quant_max))
    return F.pad(inner, site.attributes["pad"], value=_code(site))


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or _covers(site)


def _lower(site: Site, builder: Builder) -> None:
    order, amounts, out = builder.common_order(), site.attributes["pad"], site.result
    rank, found = len(order), rescaling.multiplier(site)
    before = [0] * (rank - len(amounts) // 2) + list(amounts[::2])[::-1]  # the last one comes first
    params = builder.schema.PadParamsT()
    params.before = [before[axis] for axis in order]
    params.value = _code(site)
    params.inputZeroPoint = site.block("inp").zero_point_value
    params.multiplier, params.shift = found.multiplier, found.shift
    params.outputZeroPoint = out.zero_point_value
    params.clampMin, params.clampMax = out.quant_min, out.quant_max
    builder.emit("pad", [builder.operand("inp", order)], [builder.result(order)], params)


def _aten_pad(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return F.pad(tensor(tensors, "inp"), attributes["pad"], value=attributes["value"])


def _stands_alone(node: Node) -> bool:
    constant = graph.bind(node).get("mode", "constant") == "constant"
    return constant and not is_taken_in(node)


register(
    OpSpec(
        name="constant_pad_nd",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("int[] pad", "Scalar value=0"),
            anchors=dict.fromkeys((_aten.constant_pad_nd.default, _aten.pad.default), _parse),
            aten=_aten_pad,
            reference=_reference,
            covers=_covers,
        ),
        annotation=Annotation(
            (_aten.constant_pad_nd.default, _aten.pad.default), condition=_stands_alone
        ),
        runtime=Runtime(_supported, _lower, Layout.ANY),
    )
)
