# SPDX-License-Identifier: BSD-3-Clause
"""constant_pad_nd: C(zo + R(x - zi; M(si / so))) inside, the code of `value` around it.

The code of the value is C(zo + RNE(f32(value) * f32(1 / so))). Negative amounts crop, as in ATen.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch.fx import Node

from fused_quant import graph, numerics
from fused_quant.ops import rescaling
from fused_quant.ops.common import check_int8_activations, number, tensor
from fused_quant.ops.padding import is_taken_in
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    Call,
    Fusion,
    Operand,
    OpSpec,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason

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
    return check_int8_activations(site, ["inp"]) or rescaling.check(site, "inp")


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    out = site.result
    bounds = (out.quant_min, out.quant_max)
    code = numerics.quantize_bound(
        float(site.attributes["value"]), out.scale_value, out.zero_point_value
    )
    code = min(max(code, out.quant_min), out.quant_max)
    inner = rescaling.reference(site, tensors, bounds)
    return F.pad(inner, site.attributes["pad"], value=code)


def _aten_pad(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return F.pad(tensor(tensors, "inp"), attributes["pad"], value=attributes["value"])


def _stands_alone(node: Node) -> bool:
    return not is_taken_in(node)


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
    )
)
