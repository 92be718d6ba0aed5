# SPDX-License-Identifier: BSD-3-Clause
"""pow with a number as exponent: T[q + 128] = clip(zo + RNE(((q - zi) * si) ** e / so)), float64.

A square in a graph is rewritten as a product first (passes/restore_square.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.fx import Node

from fused_quant import graph
from fused_quant.ops import rescaling, unary
from fused_quant.ops.common import number, parser, tensor
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    Fusion,
    Layout,
    Operand,
    OpSpec,
    Runtime,
    Site,
    Tensors,
)

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten
SQUARES = (_aten.pow.Tensor_Scalar, _aten.pow_.Scalar, _aten.square.default, _aten.square_.default)
_POWERS = SQUARES[:2]


def is_square(node: Node) -> bool:
    """True for x ** 2 and square(x)."""
    op = graph.op_of(node)
    return op in SQUARES and graph.bind(node).get("exponent", 2) == 2


def _aten_pow(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return torch.pow(tensor(tensors, "inp"), attributes["exponent"])


def _lower(site: Site, builder: Builder) -> None:
    unary.lower(site, builder)


register(
    OpSpec(
        name="pow",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("Scalar exponent",),
            anchors=dict.fromkeys(_POWERS, parser({"inp": "self"}, {"exponent": number})),
            aten=_aten_pow,
            reference=unary.reference,
            covers=unary.covers,
        ),
        annotation=Annotation(SQUARES, condition=is_square),
        runtime=Runtime(rescaling.supported_with(unary.covers), _lower, Layout.ANY),
    )
)
