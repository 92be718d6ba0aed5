# SPDX-License-Identifier: BSD-3-Clause
"""Constants that a program makes: out of nothing (the first state of an LSTM), or out of others."""

from __future__ import annotations

import torch
from torch import nn
from torch.fx import GraphModule, Node

from fused_quant import graph

_aten = torch.ops.aten
_MAKERS = (_aten.full.default, _aten.zeros.default, _aten.ones.default)
_CUTS = (
    _aten.chunk.default,
    _aten.split.Tensor,
    _aten.split_with_sizes.default,
    _aten.unbind.int,
    _aten.slice.Tensor,
    _aten.select.int,
    _aten.narrow.default,
)
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


def cut_parameters(model: GraphModule) -> None:
    """Replace pieces of a parameter or buffer by parameters or buffers of their own, in place.

    Weights are quantized as a whole, and only if they are constants: nn.MultiheadAttention keeps
    those of its three projections in one parameter. A piece of what is written to stays a call.
    """
    for node in graph.calls(model):
        if graph.op_of(node) not in _CUTS or len(node.all_input_nodes) != 1:
            continue
        (source,) = node.all_input_nodes
        whole = graph.constant_of(model, source)
        if whole is None or not whole.is_floating_point() or _is_written(source):
            continue
        pieces = node.target(whole, *node.args[1:], **node.kwargs)  # type: ignore[operator]
        given = graph.fetch_attr(model, str(source.target))
        if isinstance(pieces, torch.Tensor):
            _become(model, node, pieces, given)
            continue
        for user in list(node.users):
            _become(model, user, pieces[user.args[1]], given)
        model.graph.erase_node(node)
    model.recompile()


def _become(model: GraphModule, node: Node, piece: torch.Tensor, whole: torch.Tensor) -> None:
    """Put a parameter of its own in the place of a node, or a buffer if `whole` is one."""
    value = piece.clone(memory_format=torch.contiguous_format)
    constant = graph.add_constant(model, node, value, "_cut")
    if isinstance(whole, nn.Parameter):
        name = str(constant.target)
        delattr(model, name)
        model.register_parameter(name, nn.Parameter(value, requires_grad=whole.requires_grad))
    node.replace_all_uses_with(constant)
    model.graph.erase_node(node)


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
