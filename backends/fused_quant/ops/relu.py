# SPDX-License-Identifier: BSD-3-Clause
"""relu, and hard_tanh for relu6, hardtanh and clamp, standing alone.

q = clamp(zp_out + R(x - zp_in; M(s_in / s_out)), lo, hi) with lo and hi the codes of the real
bounds on the output's grid. With equal parameters on both sides this is clamp(x, lo, hi).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from fused_quant import numerics
from fused_quant.ops import activation, rescaling
from fused_quant.ops.common import tensor
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

if TYPE_CHECKING:
    from fused_quant.lowering import Builder


def _range(attributes: Attributes) -> activation.Range:
    if "min_val" not in attributes:
        return (0.0, None)
    return (attributes["min_val"], attributes["max_val"])


def bounds(site: Site) -> tuple[int, int]:
    """Clamp bounds as output codes."""
    out = site.result
    low, high = _range(site.attributes)
    return numerics.activation_bounds(
        out.quant_min, out.quant_max, out.scale_value, out.zero_point_value, low, high
    )


def _parse_relu(node: Node) -> Call | Reason:
    return Call({"inp": node.args[0]}, {})  # type: ignore[dict-item]


def _parse_hard_tanh(node: Node) -> Call | Reason:
    limits = activation.real_range(node)
    if limits is None:
        return Reason("attribute", "clamp bounds", "tensors", "numbers")
    low = -math.inf if limits[0] is None else limits[0]
    high = math.inf if limits[1] is None else limits[1]
    return Call({"inp": node.args[0]}, {"min_val": low, "max_val": high})  # type: ignore[dict-item]


def _covers(site: Site) -> Reason | None:
    low, high = _range(site.attributes)
    if any(limit is not None and math.isnan(limit) for limit in (low, high)):
        return Reason("attribute", "clamp bounds", f"{low}, {high}", "numbers")
    return rescaling.covers(site)


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    return rescaling.reference(site, tensors, bounds(site))


def _lower(site: Site, builder: Builder) -> None:
    rescaling.lower(site, builder, bounds(site))


def _register(name: str, attributes: tuple[str, ...], targets: Any, parse: Any, aten: Any) -> None:
    register(
        OpSpec(
            name=name,
            fusion=Fusion(
                operands=(Operand("inp"),),
                attributes=attributes,
                anchors=dict.fromkeys(targets, parse),
                aten=aten,
                reference=_reference,
                covers=_covers,
            ),
            annotation=Annotation(targets),
            runtime=Runtime(rescaling.supported_with(_covers), _lower, Layout.ANY),
        )
    )


def _aten_relu(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return torch.relu(tensor(tensors, "inp"))


def _aten_hard_tanh(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return torch.clamp(tensor(tensors, "inp"), attributes["min_val"], attributes["max_val"])


_register("relu", (), activation.RELU, _parse_relu, _aten_relu)
_register(
    "hard_tanh",
    ("float min_val=-1.0", "float max_val=1.0"),
    activation.RELU6 + activation.HARDTANH + activation.CLAMP,
    _parse_hard_tanh,
    _aten_hard_tanh,
)
