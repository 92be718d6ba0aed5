# SPDX-License-Identifier: BSD-3-Clause
"""cat: each input requantized to the output's grid, C(zo + R(x - zi; M(si / so))), then joined.

Inputs on the output's own grid are copied. The operand is a list: `Tensor[] inp`, and each field of
its block but the dtype is a list as long (`Tensor?[] inp_scale`, ...); sites name the members
inp_0, inp_1, ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.fx import Node

from fused_quant import graph
from fused_quant.ops import rescaling
from fused_quant.ops.common import check_rank, check_wide_activations, tensor
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
_INPUTS = Operand("inp", many=True)
_SPELLINGS = (_aten.cat.default, _aten.concat.default, _aten.concatenate.default)
_STACK = (_aten.stack.default,)  # becomes a cat of views before it is fused


def _parse(node: Node) -> Call | Reason:
    bound = graph.bind(node)
    inputs = bound["tensors"]
    if not inputs or not all(isinstance(n, Node) for n in inputs):
        return Reason("operand", "argument tensors", repr(inputs), "tensors")
    if len({len(graph.shape_of(n)) for n in inputs}) > 1:
        return Reason("rank", "inputs of several ranks", repr(inputs), "one rank")
    if len({graph.val_of(n).dtype for n in inputs}) > 1:
        return Reason("dtype", "inputs of several types", repr(inputs), "one type")
    return Call({f"inp_{i}": n for i, n in enumerate(inputs)}, {"dim": bound["dim"]})


def _covers(site: Site) -> Reason | None:
    members = _INPUTS.members(site.shapes)
    if not members or len({len(site.shapes[name]) for name in members}) > 1:
        return Reason("rank", "inputs of several ranks", str(dict(site.shapes)), "one rank")
    reason = check_wide_activations(site, members)
    for name in members:
        reason = reason or rescaling.check(site, name)
    return reason


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    bounds = (site.result.quant_min, site.result.quant_max)
    parts = [rescaling.reference(site, tensors, bounds, n) for n in _INPUTS.members(tensors)]
    return torch.cat(parts, site.attributes["dim"])


def _aten_cat(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    parts = [tensor(tensors, name) for name in _INPUTS.members(tensors)]
    return torch.cat(parts, attributes["dim"])


def _supported(site: Site, target: Target) -> Reason | None:
    members, most = _INPUTS.members(site.shapes), target.bounds("cat").inputs
    if len(members) > most:
        return Reason("inputs", "number of inputs", str(len(members)), f"up to {most}")
    return check_rank(site, target) or _covers(site)


def _lower(site: Site, builder: Builder) -> None:
    members, out = _INPUTS.members(site.shapes), site.result
    multipliers = [rescaling.multiplier(site, name) for name in members]
    order = builder.common_order()
    params = builder.schema.CatParamsT()
    params.axis = order.index(site.attributes["dim"] % len(order))
    params.inputZeroPoint = [site.block(name).zero_point_value for name in members]
    params.multiplier = [m.multiplier for m in multipliers]
    params.shift = [m.shift for m in multipliers]
    params.outputZeroPoint = out.zero_point_value
    params.clampMin, params.clampMax = out.quant_min, out.quant_max
    inputs = [builder.operand(name, order) for name in members]
    builder.emit("cat", inputs, [builder.result(order)], params)


register(
    OpSpec(
        name="cat",
        fusion=Fusion(
            operands=(_INPUTS,),
            attributes=("int dim=0",),
            anchors=dict.fromkeys(_SPELLINGS, _parse),
            aten=_aten_cat,
            reference=_reference,
            covers=_covers,
        ),
        annotation=Annotation((*_SPELLINGS, *_STACK), activations=("tensors",)),
        runtime=Runtime(_supported, _lower, Layout.ANY),
    )
)
