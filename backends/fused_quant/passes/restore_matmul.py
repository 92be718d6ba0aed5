# SPDX-License-Identifier: BSD-3-Clause
"""matmul and mm of two activations as bmm between reshapes, and expands that change nothing away.

Reshapes move no codes, so they pass quantize and dequantize; products of two matrices and batches
that must be broadcast become batches of equal size.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops.movement import EXPANDS
from fused_quant.passes.restoring import is_dequantized, retarget

_aten = torch.ops.aten
_PRODUCTS = (_aten.matmul.default, _aten.mm.default)


def restore_matmul(gm: GraphModule, node: Node) -> None:
    """Rewrite one node in place, if its operands are dequantized and of static sizes."""
    op = graph.op_of(node)
    if op in EXPANDS and is_dequantized(node.args[0]):
        source = graph.bind(node)["self"]
        static = graph.is_static(source) and graph.is_static(node)
        if static and graph.shape_of(source) == graph.shape_of(node):
            retarget(gm, node, _aten.alias.default, (source,), ())
    if op not in _PRODUCTS:
        return
    bound = graph.bind(node)
    a, b = bound["self"], bound["mat2" if op == _aten.mm.default else "other"]
    if not is_dequantized(a) or not is_dequantized(b) or not all(map(graph.is_static, (a, b))):
        return
    shape_a, shape_b = graph.shape_of(a), graph.shape_of(b)
    if len(shape_a) < 2 or len(shape_b) < 2:
        return
    batch = torch.broadcast_shapes(shape_a[:-2], shape_b[:-2])
    product = _aten.bmm.default
    if len(shape_b) == 2:  # the batch of `a` is only rows
        rows = math.prod(shape_a[:-1])
        a = _reshaped(gm, node, a, (1, rows, shape_a[-1]))
        b = _reshaped(gm, node, b, (1, *shape_b))
    elif math.prod(batch) > 1 and 1 in map(math.prod, (shape_a[:-2], shape_b[:-2])):
        if op == _aten.matmul.default and len(shape_a) == len(shape_b) == 3:
            return  # one matrix for all of a batch: bmm takes it as it is
        a = _reshaped(gm, node, a, (math.prod(shape_a[:-2]), *shape_a[-2:]))
        b = _reshaped(gm, node, b, (math.prod(shape_b[:-2]), *shape_b[-2:]))
        product = _aten.matmul.default
    else:
        count = math.prod(batch)
        a = _expanded(gm, node, a, (*batch, *shape_a[-2:]))
        b = _expanded(gm, node, b, (*batch, *shape_b[-2:]))
        a = _reshaped(gm, node, a, (count, *shape_a[-2:]))
        b = _reshaped(gm, node, b, (count, *shape_b[-2:]))
    made = graph.call(gm, node, product, (a, b), (node,))
    for key, value in node.meta.items():
        made.meta.setdefault(key, value)
    node.replace_all_uses_with(_reshaped(gm, node, made, graph.shape_of(node)))
    gm.graph.erase_node(node)


def _reshaped(gm: GraphModule, before: Node, x: Node, shape: tuple[int, ...]) -> Node:
    if graph.shape_of(x) == shape:
        return x
    arguments: tuple[Any, ...] = (x, list(shape))
    return graph.call(gm, before, _aten.reshape.default, arguments, (before,))


def _expanded(gm: GraphModule, before: Node, x: Node, shape: tuple[int, ...]) -> Node:
    if math.prod(graph.shape_of(x)) == math.prod(shape):  # at most ones in front
        return x
    arguments: tuple[Any, ...] = (x, list(shape))
    return graph.call(gm, before, _aten.expand_copy.default, arguments, (before,))
