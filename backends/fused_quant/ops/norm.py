# SPDX-License-Identifier: BSD-3-Clause
"""native_layer_norm in 32-bit integers (numerics_norm.layer_norm), and rms_norm in float.

weight and bias stay in float and have no blocks; they become integers ahead of time, so the integer
contract needs them to be constants. native_layer_norm returns (out, mean, rstd) as ATen does; mean
and rstd are never quantized.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from fused_quant import graph, numerics_norm
from fused_quant.ops.common import check_int8_activations, check_ratio, number, parser, tensor
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


def _constant(site: Site, name: str) -> torch.Tensor | None:
    value = site.attributes[name]
    return value.detach().reshape(-1) if isinstance(value, torch.Tensor) else None


def _covers(site: Site) -> Reason | None:
    reason = check_int8_activations(site, ["inp"])
    if reason is not None:
        return reason
    for name in ("weight", "bias"):
        value = site.attributes[name]
        if value is None:
            continue
        if not isinstance(value, torch.Tensor):
            return Reason("constant", name, "computed", "a constant")
        if not bool(torch.isfinite(value).all()):
            return Reason("constant", name, "not finite", "finite numbers")
    count, eps = _count(site), site.attributes["eps"]
    if not 0 < count <= numerics_norm.MAX_NORM_ELEMENTS:
        limit = f"1 to {numerics_norm.MAX_NORM_ELEMENTS}"
        return Reason("size", "elements of a layer norm", str(count), limit)
    if not (math.isfinite(eps) and eps >= 0):
        return Reason("attribute", "argument eps", repr(eps), "finite and not negative")
    _, s_acc = numerics_norm.accumulator_scale(count, _constant(site, "weight"))
    bias = _constant(site, "bias")
    if bias is not None and float(bias.abs().max()) > s_acc * numerics_norm.MAX_BETA:
        return Reason("range", "bias next to the weight", "beyond 2^30 steps", "a smaller bias")
    return check_ratio(s_acc / site.result.scale_value, "accumulator to output")


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    x, out = tensor(tensors, "inp"), site.result
    affine = numerics_norm.affine_parameters(
        _count(site),
        _constant(site, "weight"),
        _constant(site, "bias"),
        site.attributes["eps"],
        site.block("inp").scale_value,
        out.scale_value,
    )
    bounds = (out.quant_min, out.quant_max)
    kept = x.dim() - len(site.attributes["normalized_shape"])
    rows = x.reshape(*x.shape[:kept], _count(site))
    codes = numerics_norm.layer_norm(rows, affine, out.zero_point_value, *bounds, out.dtype)
    return codes.reshape(x.shape)


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


def _no_formula(site: Site) -> Reason | None:
    return Reason("formula", "no integer formula for rms_norm", "", "float")


def _unreachable(site: Site, tensors: Tensors) -> torch.Tensor:
    raise ValueError(f"{site.name}: {_no_formula(site)}")


register(
    OpSpec(
        name="rms_norm",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("int[] normalized_shape", "Tensor? weight", "float eps"),
            anchors={_aten.rms_norm.default: _parse_rms_norm},
            aten=_aten_rms_norm,
            reference=_unreachable,
            covers=_no_formula,
        ),
        annotation=Annotation((_aten.rms_norm.default,), activations=("input",)),
    )
)
