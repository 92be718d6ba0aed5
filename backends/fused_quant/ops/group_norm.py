# SPDX-License-Identifier: BSD-3-Clause
"""native_group_norm: the layer norm of each group of channels, with affine parameters per channel.

An instance norm is a group norm of as many groups as channels. weight and bias are constants in
float without blocks; it returns (out, mean, rstd) as ATen does; mean and rstd are never quantized.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from fused_quant import graph
from fused_quant.ops import normalizing
from fused_quant.ops.common import check_rank, number, parser, tensor
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


def _same(value: Any) -> Any:
    return value


def _ignored(value: Any) -> None:
    """Read an argument that chooses an implementation, not a result."""


_AFFINE = {"weight": _same, "bias": _same, "eps": number}
_read_native = parser(
    {"inp": "input"}, {**_AFFINE, "N": _same, "C": _same, "HxW": _same, "group": int}
)
_read_group = parser({"inp": "input"}, {**_AFFINE, "num_groups": int, "cudnn_enabled": _ignored})
_read_instance = parser(
    {"inp": "input"},
    {
        **_AFFINE,
        "running_mean": _ignored,
        "running_var": _ignored,
        "use_input_stats": (True,),
        "momentum": _ignored,
        "cudnn_enabled": _ignored,
    },
)


def _parse_native(node: Node) -> Call | Reason:
    call = _read_native(node)
    if isinstance(call, Call) and any(isinstance(call.attributes[n], Node) for n in ("N", "HxW")):
        return Reason("shape", "sizes of a group norm", "computed", "known ahead of time")
    return call


def _parse_whole(node: Node) -> Call | Reason:
    """group_norm and instance_norm, whose sizes are those of the input."""
    of_instances = graph.op_of(node) == _aten.instance_norm.default
    call = (_read_instance if of_instances else _read_group)(node)
    if isinstance(call, Reason):
        return call
    batch, channels, *sizes = graph.shape_of(node)
    affine = {name: call.attributes[name] for name in _AFFINE}
    groups = channels if of_instances else call.attributes["num_groups"]
    shape = {"N": batch, "C": channels, "HxW": math.prod(sizes), "group": groups}
    return Call(call.operands, {**affine, **shape})


def _count(site: Site) -> int:
    attributes = site.attributes
    return int(attributes["C"] // attributes["group"] * attributes["HxW"])


def _covers(site: Site) -> Reason | None:
    batch, channels, area, groups = (site.attributes[n] for n in ("N", "C", "HxW", "group"))
    shape = site.shapes["inp"]
    if tuple(shape[:2]) != (batch, channels) or math.prod(shape[2:]) != area or channels % groups:
        got = f"{tuple(shape)} with N={batch}, C={channels}, HxW={area}, group={groups}"
        return Reason("shape", "input shape", got, "[N, C, *], C a multiple of group")
    return normalizing.check_norm(site, _count(site))


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    x = tensor(tensors, "inp")
    groups, area, count = site.attributes["group"], site.attributes["HxW"], _count(site)
    affine = normalizing.affine(site, count)
    gamma, beta = (
        integers if site.attributes[name] is None else integers.repeat_interleave(area)
        for name, integers in (("weight", affine.gamma), ("bias", affine.beta))
    )
    gamma, beta = (
        values if values.numel() == count else values.reshape(groups, count)
        for values in (gamma, beta)
    )
    affine = dataclasses.replace(affine, gamma=gamma, beta=beta)
    rows = x.reshape(-1, groups, count)
    return normalizing.reference(site, rows, affine, True).reshape(x.shape)


def _native(tensors: Tensors, attributes: Attributes) -> tuple[torch.Tensor, ...]:
    x = tensor(tensors, "inp")
    weight, bias = (
        None if p is None else p.to(x.dtype) for p in (attributes["weight"], attributes["bias"])
    )
    sizes = (attributes[name] for name in ("N", "C", "HxW", "group"))
    contiguous = x.contiguous()
    results = _aten.native_group_norm.default(contiguous, weight, bias, *sizes, attributes["eps"])
    return tuple(results)


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or _covers(site)


def _lower(site: Site, builder: Builder) -> None:
    batch, channels, area, groups = (site.attributes[n] for n in ("N", "C", "HxW", "group"))
    multiplier = normalizing.affine(site, _count(site)).multiplier
    params = normalizing.params(site, builder, multiplier)
    order = builder.order_of("inp")
    if order == builder.CHANNELS_LAST:
        params.sizes = [batch, area, groups, channels // groups]
        params.axes, params.affineAxes = [1, 3], [2, 3]
    else:
        order = tuple(range(len(order)))
        params.sizes = [batch, groups, channels // groups, area]
        params.axes, params.affineAxes = [2, 3], [1, 2]
    count = _count(site)
    normalizing.emit_norm(site, builder, "layer_norm", count, order, [channels], [0], params)


register(
    OpSpec(
        name="native_group_norm",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=(
                "Tensor? weight",
                "Tensor? bias",
                "int N",
                "int C",
                "int HxW",
                "int group",
                "float eps",
            ),
            anchors={
                _aten.native_group_norm.default: _parse_native,
                _aten.group_norm.default: _parse_whole,
                _aten.instance_norm.default: _parse_whole,
            },
            aten=lambda tensors, attributes: _native(tensors, attributes)[0],
            reference=_reference,
            covers=_covers,
            results=3,
            others=lambda tensors, attributes: _native(tensors, attributes)[1:],
        ),
        annotation=Annotation(
            (
                _aten.native_group_norm.default,
                _aten.group_norm.default,
                _aten.instance_norm.default,
            ),
            activations=("input",),
        ),
        runtime=Runtime(_supported, _lower, Layout.FREE),
    )
)
