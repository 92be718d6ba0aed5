# SPDX-License-Identifier: BSD-3-Clause
"""Tensors that a program makes out of nothing (the first state of an LSTM), as constants of it."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph

_aten = torch.ops.aten
_MAKERS = (_aten.full.default, _aten.zeros.default, _aten.ones.default)
_LARGEST = 2**20  # elements; a larger one would bloat the program


def keep_made_tensors(model: GraphModule) -> None:
    """Replace calls that fill a float tensor with one value by a constant, in place.

    Conversion quantizes a constant ahead of time; a call would be quantized at run time, from a
    float tensor in the middle of the network. A tensor that is written to, by itself or
    through a view, stays a call.
    """
    for node in graph.calls(model):
        if graph.op_of(node) in _MAKERS and _is_constant(node):
            value = node.target(*node.args, **node.kwargs)  # type: ignore[operator]
            node.replace_all_uses_with(graph.add_constant(model, node, value, "_made"))
            model.graph.erase_node(node)
    model.recompile()


def _is_constant(node: Node) -> bool:
    value = node.meta.get("val")
    if value is None or not graph.is_float_tensor(node) or value.device.type != "cpu":
        return False
    sizes = graph.shape_of(node)
    if not all(isinstance(size, int) for size in sizes) or value.numel() > _LARGEST:
        return False
    return not _is_written(node)


def _is_written(node: Node) -> bool:
    """True if a user writes to the tensor, or to a view of it."""
    for user in node.users:
        schema = getattr(graph.op_of(user), "_schema", None)
        if schema is None:
            continue
        is_view = any(result.alias_info is not None for result in schema.returns)
        if schema.is_mutable or (is_view and _is_written(user)):
            return True
    return False
