# SPDX-License-Identifier: BSD-3-Clause
"""native_layer_norm and rms_norm in integers (numerics_norm, of int16 numerics_wide_norm).

weight and bias stay in float and have no blocks; they become integers ahead of time, so the integer
contract needs them to be constants. native_layer_norm returns (out, mean, rstd) as ATen does; mean
and rstd are never quantized.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
_Results = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _same(value: Any) -> Any:
    return value


def _ignored(value: Any) -> None:
    """Read an argument that chooses an implementation, not a result."""


_READERS = {"normalized_shape": list, "weight": _same, "bias": _same, "eps": number}
_parse_native = parser({"inp": "input"}, _READERS)
_parse_whole = parser({"inp": "input"}, {**_READERS, "cudnn_enable": _ignored})


def _parse_layer_norm(node: Node) -> Call | Reason:
    call = _parse_whole(node)
    if isinstance(call, Reason):
        return call
    attributes = {n: v for n, v in call.attributes.items() if n != "cudnn_enable"}
    return Call(call.operands, attributes)


def _count(site: Site) -> int:
    return math.prod(site.attributes["normalized_shape"])


def _covers(site: Site) -> Reason | None:
    return normalizing.check_norm(site, _count(site))


def _rows(site: Site, x: torch.Tensor) -> torch.Tensor:
    kept = x.dim() - len(site.attributes["normalized_shape"])
    return x.reshape(*x.shape[:kept], _count(site))


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    x, affine = tensor(tensors, "inp"), normalizing.affine(site, _count(site))
    return normalizing.reference(site, _rows(site, x), affine, True).reshape(x.shape)


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or _covers(site)


def _lower(opcode: str) -> Callable[[Site, Builder], None]:
    def lower(site: Site, builder: Builder) -> None:
        order = builder.order_of("inp")
        shape = site.attributes["normalized_shape"]
        first = len(order) - len(shape)
        multiplier = normalizing.affine(site, _count(site)).multiplier
        params = normalizing.params(site, builder, multiplier)
        params.axes = [place for place, axis in enumerate(order) if axis >= first]
        params.affineAxes = params.axes
        perm = [axis - first for axis in order if axis >= first]
        normalizing.emit_norm(site, builder, opcode, _count(site), order, shape, perm, params)

    return lower


def _native(tensors: Tensors, attributes: Attributes) -> _Results:
    x = tensor(tensors, "inp")
    weight, bias = (
        None if p is None else p.to(x.dtype) for p in (attributes["weight"], attributes["bias"])
    )
    shape, eps = attributes["normalized_shape"], attributes["eps"]
    results: _Results = _aten.native_layer_norm.default(x, shape, weight, bias, eps)
    return results


def _aten_layer_norm(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return _native(tensors, attributes)[0]


def _statistics(tensors: Tensors, attributes: Attributes) -> tuple[torch.Tensor, ...]:
    return _native(tensors, attributes)[1:]


register(
    OpSpec(
        name="native_layer_norm",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("int[] normalized_shape", "Tensor? weight", "Tensor? bias", "float eps"),
            anchors={
                _aten.native_layer_norm.default: _parse_native,
                _aten.layer_norm.default: _parse_layer_norm,
            },
            aten=_aten_layer_norm,
            reference=_reference,
            covers=_covers,
            results=3,
            others=_statistics,
        ),
        annotation=Annotation(
            (_aten.native_layer_norm.default, _aten.layer_norm.default), activations=("input",)
        ),
        runtime=Runtime(_supported, _lower("layer_norm"), Layout.FREE),
    )
)

_read_rms = parser(
    {"inp": "input"}, {"normalized_shape": list, "weight": _same, "eps": lambda eps: eps}
)


def _parse_rms_norm(node: Node) -> Call | Reason:
    """Without an eps, ATen takes that of the input's dtype."""
    call = _read_rms(node)
    if isinstance(call, Reason) or call.attributes["eps"] is not None:
        return call
    eps = torch.finfo(graph.val_of(node).dtype).eps
    return Call(call.operands, {**call.attributes, "eps": eps})


def _aten_rms_norm(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    x, weight = tensor(tensors, "inp"), attributes["weight"]
    weight = None if weight is None else weight.to(x.dtype)
    return torch.rms_norm(x, attributes["normalized_shape"], weight, attributes["eps"])


def _reference_rms(site: Site, tensors: Tensors) -> torch.Tensor:
    x, affine = tensor(tensors, "inp"), normalizing.affine(site, _count(site))
    return normalizing.reference(site, _rows(site, x), affine, False).reshape(x.shape)


register(
    OpSpec(
        name="rms_norm",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("int[] normalized_shape", "Tensor? weight", "float eps"),
            anchors={_aten.rms_norm.default: _parse_rms_norm},
            aten=_aten_rms_norm,
            reference=_reference_rms,
            covers=_covers,
        ),
        annotation=Annotation((_aten.rms_norm.default,), activations=("input",)),
        runtime=Runtime(_supported, _lower("rms_norm"), Layout.FREE),
    )
)
