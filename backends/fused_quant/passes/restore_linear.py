# SPDX-License-Identifier: BSD-3-Clause
"""addmm(bias, x, w^T) and mm(x, w^T) back to linear(x, w, bias): decomposition's other spelling.

Only for a constant w: a product of two activations is a bmm.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops.movement import PERMUTES, moves, permutation

_aten = torch.ops.aten
_LINEAR = _aten.linear.default
_PASSED = (graph.DEQUANTIZE, graph.DEQUANTIZE_CHANNEL, graph.QUANTIZE)


def restore_linear(gm: GraphModule) -> None:
    """Rewrite in place. addmm with alpha or beta other than 1 stays as it is."""
    for node in graph.calls(gm):
        if graph.op_of(node) not in (_aten.addmm.default, _aten.mm.default):
            continue
        bound = graph.bind(node)
        has_bias = "mat1" in bound
        transpose = bound["mat2"]
        if bound.get("alpha", 1) != 1 or bound.get("beta", 1) != 1 or not _is_transpose(transpose):
            continue
        bias = bound["self"] if has_bias else None
        x = bound["mat1"] if has_bias else bound["self"]
        weight = transpose.args[0]
        if bias is not None and graph.val_of(bias).shape != graph.val_of(weight).shape[:1]:
            continue
        if not _is_constant(weight):
            continue
        new = graph.call(gm, node, _LINEAR, (x, weight, bias), (transpose, node))
        node.replace_all_uses_with(new)
        gm.graph.erase_node(node)
        if not transpose.users:
            gm.graph.erase_node(transpose)


def _is_constant(node: object) -> bool:
    """True for a constant, quantized and dequantized or moved or not."""
    while isinstance(node, Node) and (graph.op_of(node) in _PASSED or moves(node)):
        node = node.args[0]
    return isinstance(node, Node) and node.op == "get_attr"


def _is_transpose(node: object) -> bool:
    return (
        isinstance(node, Node)
        and graph.op_of(node) in PERMUTES
        and graph.rank_of(node) == 2
        and permutation(node) == (1, 0)
    )
