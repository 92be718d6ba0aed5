# SPDX-License-Identifier: BSD-3-Clause
"""What the rewrites have in common that put an operator together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops.movement import moves

_aten = torch.ops.aten
_DEQUANTIZES = (graph.DEQUANTIZE, graph.DEQUANTIZE_CHANNEL)
CONSTANT_COPIES = (
    _aten.lift_fresh_copy.default,
    _aten.detach.default,
    _aten.detach_.default,
    _aten.clone.default,
    _aten.alias.default,
    _aten.alias_copy.default,
    _aten._to_copy.default,
    torch.ops.dim_order_ops._to_dim_order_copy.default,
    torch.ops.dim_order_ops._clone_dim_order.default,
)


def retarget(
    gm: GraphModule, node: Node, target: Any, args: tuple[Any, ...], absorbed: Sequence[Node]
) -> None:
    """Make `node` a call of another operator with the same result; it keeps its metadata.

    absorbed: nodes it takes the place of, users before what they use; those without a user left
    are erased.
    """
    node.target, node.args, node.kwargs = target, args, {}
    names = [name for other in (node, *absorbed) for name in graph.origins(other)]
    node.meta[graph.ORIGIN] = tuple(dict.fromkeys(names))
    for other in absorbed:
        if not other.users and other.op == "call_function":
            gm.graph.erase_node(other)


def same_value(a: Any, b: Any) -> bool:
    """True for one node, and for two dequantizes of the same codes with the same parameters."""
    if a is b:
        return isinstance(a, Node)
    if graph.op_of(a) not in _DEQUANTIZES or graph.op_of(a) != graph.op_of(b):
        return False
    return bool(a.args == b.args and a.kwargs == b.kwargs)


def number_of(gm: GraphModule, value: Any) -> tuple[float, tuple[Node, ...]] | None:
    """A number and the nodes that make it: a Python number, or a constant of one element.

    A constant has no dimensions, is real, and may be a filled tensor or a copy of one. None for
    anything else.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value), ()
    nodes: list[Node] = []
    while graph.op_of(value) in CONSTANT_COPIES:
        nodes.append(value)
        value = value.args[0]
    constant = graph.constant_of(gm, value)
    if constant is None and graph.op_of(value) in (
        _aten.full.default,
        _aten.scalar_tensor.default,
    ):
        bound = graph.bind(value)
        nodes.append(value)
        filled = bound.get("fill_value", bound.get("s"))
        if list(bound.get("size", [])) == [] and isinstance(filled, (int, float)):
            constant = torch.tensor(filled, dtype=graph.val_of(value).dtype)
    if constant is None or constant.dim() or constant.is_complex():
        return None
    for node in reversed(nodes):  # a copy may change the type
        constant = constant.to(graph.val_of(node).dtype)
    return float(constant), tuple(nodes)


def is_dequantized(node: Any) -> bool:
    """True for a dequantize, also behind operators that only move elements."""
    while isinstance(node, Node) and graph.op_of(node) not in _DEQUANTIZES:
        if not moves(node):
            return False
        node = node.args[0]
    return isinstance(node, Node)
