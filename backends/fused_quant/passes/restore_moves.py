# SPDX-License-Identifier: BSD-3-Clause
"""Data movements in one form: pieces of a split as slices, stack as cat, indices as constants.

A split has several results, which nothing but a slice can stand for one by one. Indices that
decomposition computes (rolls, mirrored paddings, nearest upsampling in 1-d) depend on nothing and
become constants.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops import registry
from fused_quant.ops.movement import INDEXES, SPLITS
from fused_quant.passes.constant_cone import constant_value
from fused_quant.passes.restoring import is_dequantized, retarget

_aten = torch.ops.aten
_UNBINDS = (_aten.unbind.int, _aten.unbind_copy.int)
_NEAREST = (_aten.upsample_nearest1d.vec, _aten.upsample_nearest1d.default)
_CODES = (torch.int8, torch.uint8)


def restore_moves(gm: GraphModule, node: Node) -> None:
    """Rewrite one node in place, if it moves dequantized values or codes."""
    op = graph.op_of(node)
    if op in SPLITS:
        _slice(gm, node)
    elif op == _aten.stack.default:
        _join(gm, node)
    elif op in _NEAREST and is_dequantized(node.args[0]):
        _pick_nearest(gm, node)
    elif op in INDEXES and _is_quantized(node.args[0]):
        _fix_indices(gm, node)
    elif op is not None:
        spec = registry.spec_of(op)
        if op == _aten.embedding.default or (spec is not None and spec.name == "embedding"):
            _fix_indices(gm, node)


def _is_quantized(node: Any) -> bool:
    return is_dequantized(node) or graph.val_of(node).dtype in _CODES


def _slice(gm: GraphModule, split: Node) -> None:
    """Every getitem becomes a slice, or a selection of an unbind."""
    bound = graph.bind(split)
    source, dim = next(iter(bound.values())), bound["dim"]
    sizes = [piece.shape[dim] for piece in graph.val_of(split)] if not _unbinds(split) else []
    starts = [0, *itertools.accumulate(sizes)]
    for piece in list(split.users):
        if graph.op_of(piece) is not graph.GETITEM:
            continue
        index: Any = piece.args[1]
        if _unbinds(split):
            retarget(gm, piece, _aten.select.int, (source, dim, index), (split,))
        else:
            index %= len(sizes)
            bounds = (starts[index], starts[index + 1])
            retarget(gm, piece, _aten.slice.Tensor, (source, dim, *bounds), (split,))


def _unbinds(split: Node) -> bool:
    return graph.op_of(split) in _UNBINDS


def _join(gm: GraphModule, stack: Node) -> None:
    bound = graph.bind(stack)
    if not all(map(is_dequantized, bound["tensors"])):
        return
    dim = bound["dim"] % graph.rank_of(stack)
    rows = [
        graph.call(gm, stack, _aten.unsqueeze.default, (source, dim), (stack,))
        for source in bound["tensors"]
    ]
    retarget(gm, stack, _aten.cat.default, (rows, dim), ())


def _pick_nearest(gm: GraphModule, node: Node) -> None:
    source: Any = node.args[0]
    length = graph.shape_of(source)[2]
    numbers = torch.arange(length, dtype=torch.float64).reshape(1, 1, length)
    positions = graph.op_of(node)(numbers, *node.args[1:], **node.kwargs).flatten().to(torch.int64)
    index = graph.add_constant(gm, node, positions, "fused_quant_index")
    retarget(gm, node, _aten.index_select.default, (source, 2, index), ())


def _fix_indices(gm: GraphModule, node: Node) -> None:
    """Arguments behind the first that can be computed ahead of time become constants."""
    absorbed: list[Node] = []

    def fixed(argument: Node) -> Node:
        if argument is node.args[0] or argument.op == "get_attr":
            return argument
        found = constant_value(gm, argument, absorbed)
        if found is None or found.is_floating_point():
            return argument
        return graph.add_constant(gm, node, found.contiguous(), "fused_quant_index")

    args = torch.fx.map_arg(node.args, fixed)
    if args != node.args:
        retarget(gm, node, node.target, args, absorbed[::-1])
