# SPDX-License-Identifier: BSD-3-Clause
"""Arithmetic with a number back to the `.Scalar` overloads.

The number may be a Python one in a `.Tensor` call, or what lowering makes of it: a constant without
dimensions, copied or filled. A number in front turns sub into rsub.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.passes.restoring import is_dequantized, number_of, retarget

_aten = torch.ops.aten
# Spelling with tensors -> (with a number behind, with a number in front).
_SPELLINGS: dict[Any, tuple[Any, Any]] = {
    _aten.add.Tensor: (_aten.add.Scalar, _aten.add.Scalar),
    _aten.add_.Tensor: (_aten.add_.Scalar, None),
    _aten.sub.Tensor: (_aten.sub.Scalar, _aten.rsub.Scalar),
    _aten.sub_.Tensor: (_aten.sub_.Scalar, None),
    _aten.mul.Tensor: (_aten.mul.Scalar, _aten.mul.Scalar),
    _aten.mul_.Tensor: (_aten.mul_.Scalar, None),
    _aten.div.Tensor: (_aten.div.Scalar, None),
    _aten.div_.Tensor: (_aten.div_.Scalar, None),
}


def restore_scalars(gm: GraphModule, node: Node) -> None:
    """Rewrite one node in place, if its other operand is dequantized."""
    if graph.op_of(node) not in _SPELLINGS:
        return
    behind, in_front = _SPELLINGS[graph.op_of(node)]
    bound = graph.bind(node)
    alpha = bound.get("alpha")
    if is_dequantized(bound["self"]):
        target, x, number = behind, bound["self"], number_of(gm, bound["other"])
    elif is_dequantized(bound["other"]):
        target, x, number = in_front, bound["other"], number_of(gm, bound["self"])
        if target is _aten.add.Scalar and alpha != 1:
            return
    else:
        return
    if number is None or target is None:
        return
    value, nodes = number
    args = (x, value) if alpha is None else (x, value, alpha)
    retarget(gm, node, target, args, nodes)
