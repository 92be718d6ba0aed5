# SPDX-License-Identifier: BSD-3-Clause
"""Linear operators out of the products that decomposition makes of them.

    addmm(bias, x, w^T), mm(x, w^T)           -> linear(x, w, bias)
    bmm(x, view(expand(w^T))) [view, + bias]  -> linear(x, w, bias) [view]

The second form is that of an input of more than two dimensions whose rows are not next to each
other in memory. Only for a constant w: a product of two activations is a bmm.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops.movement import EXPANDS, PERMUTES, RESHAPES, moves, permutation
from fused_quant.passes.affine import is_affine

_aten = torch.ops.aten
_LINEAR = _aten.linear.default
_PRODUCTS = (_aten.addmm.default, _aten.mm.default)
_PASSED = (graph.DEQUANTIZE, graph.DEQUANTIZE_CHANNEL, graph.QUANTIZE)


def restore_linear(gm: GraphModule) -> None:
    """Rewrite in place. addmm with alpha or beta other than 1 stays as it is."""
    for node in graph.calls(gm):
        if graph.op_of(node) in _PRODUCTS:
            _restore_rows(gm, node)
        elif graph.op_of(node) == _aten.bmm.default:
            _restore_batch(gm, node)


def _restore_rows(gm: GraphModule, node: Node) -> None:
    bound = graph.bind(node)
    has_bias = "mat1" in bound
    transpose = bound["mat2"]
    if bound.get("alpha", 1) != 1 or bound.get("beta", 1) != 1 or not _is_transpose(transpose):
        return
    bias = bound["self"] if has_bias else None
    x = bound["mat1"] if has_bias else bound["self"]
    weight = transpose.args[0]
    if bias is not None and graph.val_of(bias).shape != graph.val_of(weight).shape[:1]:
        return
    if not _is_constant(weight):
        return
    new = graph.call(gm, node, _LINEAR, (x, weight, bias), (transpose, node))
    _replace(gm, node, new, [transpose, node])


def _restore_batch(gm: GraphModule, node: Node) -> None:
    """One matrix for every member of a batch; a constant added to the rows is the bias."""
    x, matrices = node.args
    repeated = _repeats(matrices)
    if repeated is None or not isinstance(x, Node):
        return
    transpose = repeated[-1]
    weight: Any = transpose.args[0]
    if not _is_constant(weight):
        return
    last, bias, behind = _bias_behind(node, graph.shape_of(weight)[0])
    absorbed = [*reversed(repeated), node, *behind]
    new = graph.call(gm, last, _LINEAR, (x, weight, bias), tuple(absorbed))
    if graph.shape_of(new) != graph.shape_of(last):
        shape = list(graph.shape_of(last))
        new = graph.call(gm, last, _aten.reshape.default, (new, shape), tuple(behind))
    _replace(gm, last, new, absorbed)


def _replace(gm: GraphModule, node: Node, new: Node, absorbed: list[Node]) -> None:
    """Put `new` in the place of `node`; erase what it absorbs, given in graph order."""
    node.replace_all_uses_with(new)
    for dead in reversed(absorbed):
        if not dead.users:
            gm.graph.erase_node(dead)


def _repeats(node: Any) -> list[Node] | None:
    """The nodes that repeat a transposed matrix over a batch, users first; None for another b."""
    found: list[Node] = []
    while not _is_transpose(node):
        if graph.op_of(node) not in (*EXPANDS, *RESHAPES) or not graph.is_static(node):
            return None
        found.append(node)
        source = node.args[0]
        if not graph.is_static(source) or graph.shape_of(source)[-2:] != graph.shape_of(node)[-2:]:
            return None  # the matrices are not those of the source
        node = source
    return [*found, node]


def _bias_behind(product: Node, outputs: int) -> tuple[Node, Node | None, list[Node]]:
    """The last node of product [-> reshape] -> add of a constant row, the row, and the nodes.

    The product itself, without a row, if something else follows.
    """
    value, nodes = product, []
    while len(value.users) == 1:
        (user,) = value.users
        if graph.op_of(user) in RESHAPES and graph.shape_of(user)[-1:] == (outputs,):
            nodes.append(user)
            value = user
            continue
        if graph.op_of(user) not in (_aten.add.Tensor, _aten.add_.Tensor):
            break
        bound = graph.bind(user)
        row = bound["other"] if bound["self"] is value else bound["self"]
        scaled = bound["alpha"] != 1
        if scaled or not _is_constant(row) or graph.shape_of(row) != (outputs,):
            break
        return user, row, [*nodes, user]
    return product, None, []


def _passes(node: Node) -> bool:
    return graph.op_of(node) in _PASSED or is_affine(node, quantize=False) or moves(node)


def _is_constant(node: object) -> bool:
    """True for a constant, quantized and dequantized or moved or not."""
    while isinstance(node, Node) and _passes(node):
        node = node.args[0]
    return isinstance(node, Node) and node.op == "get_attr"


def _is_transpose(node: object) -> bool:
    return (
        isinstance(node, Node)
        and graph.op_of(node) in PERMUTES
        and graph.rank_of(node) == 2
        and permutation(node) == (1, 0)
    )
