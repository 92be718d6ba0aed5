# SPDX-License-Identifier: BSD-3-Clause
"""Bring dequantize and quantize next to the operators they belong to.

Exact rewrites only: a dequantize is copied per use; an operator that moves data commutes with both;
an operator whose results are input values (max pooling) is exact on its input's own grid, so a
quantize/dequantize pair of that grid behind it changes nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops import activation, registry
from fused_quant.ops.movement import PERMUTES, moves, permutation
from fused_quant.ops.padding import zero_padding

DEQUANTIZES = (graph.DEQUANTIZE, graph.DEQUANTIZE_CHANNEL)
QUANTIZES = (graph.QUANTIZE,)
_LARGEST_SCALE = 2.0**110  # the largest distance of two codes, 2^16, is a finite float32


def normalize_edges(gm: GraphModule) -> None:
    """Rewrite in place until nothing changes."""
    changed = True
    while changed:
        copied = _copy_dequantize_per_use(gm)
        hoisted = _hoist_moves(gm)
        _fold_moves_of_constants(gm)
        sunk = _sink_moves(gm)
        swapped = _sink_padding(gm)
        _read_codes(gm)
        changed = copied or hoisted or sunk or swapped or _close_grid_islands(gm)
    gm.graph.eliminate_dead_code()


def _copy_dequantize_per_use(gm: GraphModule) -> bool:
    changed = False
    for node in graph.calls(gm):
        if graph.op_of(node) not in DEQUANTIZES or len(node.users) < 2:
            continue
        for user in list(node.users)[1:]:
            copy = graph.call(gm, node, node.target, node.args, (node,), node.kwargs)
            user.replace_input_with(node, copy)
            changed = True
    return changed


def _hoist_moves(gm: GraphModule) -> bool:
    """Dequantize -> move becomes move -> dequantize."""
    changed = False
    for node in graph.calls(gm):
        source = node.args[0] if node.args else None
        if not moves(node) or graph.op_of(source) not in DEQUANTIZES:
            continue
        assert isinstance(source, Node)
        rest = _dequantize_rest(source, node)
        if rest is None:
            continue
        codes: Any = source.args[0]
        moved = graph.call(gm, node, node.target, (codes, *node.args[1:]), (node,), node.kwargs)
        new = graph.call(gm, node, source.target, (moved, *rest), (source,), source.kwargs)
        node.replace_all_uses_with(new)
        gm.graph.erase_node(node)
        changed = True
    return changed


def _read_codes(gm: GraphModule) -> None:
    """An operator that knows only the order of its input's elements reads codes.

    Exact while no two codes become one number: the largest must be finite.
    """
    for node in graph.calls(gm):
        spec = registry.spec_of(graph.op_of(node))
        source = node.args[0] if node.args else None
        if spec is None or not spec.reads_codes or graph.op_of(source) != graph.DEQUANTIZE:
            continue
        assert isinstance(source, Node)
        codes, scale = source.args[0], source.args[1]
        if not isinstance(scale, float) or not 0 < scale < _LARGEST_SCALE:
            continue
        node.update_arg(0, codes)
        names = (*graph.origins(source), *graph.origins(node))
        node.meta[graph.ORIGIN] = tuple(dict.fromkeys(names))


def _fold_moves_of_constants(gm: GraphModule) -> None:
    """A move of a constant becomes the moved constant, so that a weight stays one."""
    for node in graph.calls(gm):
        source = node.args[0] if node.args else None
        value = graph.constant_of(gm, source)
        if value is None or not moves(node):
            continue
        assert isinstance(source, Node)
        arguments = _constants(gm, (node.args[1:], dict(node.kwargs)))
        if arguments is None:
            continue
        rest, named = arguments
        moved = graph.op_of(node)(value, *rest, **named).contiguous()
        constant = graph.add_constant(gm, node, moved, "fused_quant_codes")
        names = (*graph.origins(source), *graph.origins(node))
        constant.meta[graph.ORIGIN] = tuple(dict.fromkeys(names))
        node.replace_all_uses_with(constant)
        gm.graph.erase_node(node)


def _constants(gm: GraphModule, arguments: Any) -> Any:
    """Arguments with the values of constants in their places; None if one is computed."""
    found: list[torch.Tensor | None] = []

    def value(node: Node) -> torch.Tensor | None:
        found.append(graph.constant_of(gm, node))
        return found[-1]

    result = torch.fx.map_arg(arguments, value)
    return None if any(member is None for member in found) else result


def _dequantize_rest(dequantize: Node, move: Node) -> tuple[Any, ...] | None:
    """The arguments of `dequantize` after its codes, as they are behind `move`."""
    if graph.op_of(dequantize) == graph.DEQUANTIZE:
        return tuple(dequantize.args[1:])
    if graph.op_of(move) not in PERMUTES:
        return None
    scale, zero_point, axis, *others = dequantize.args[1:]
    return (scale, zero_point, permutation(move).index(int(axis)), *others)  # type: ignore[arg-type]


def _sink_moves(gm: GraphModule) -> bool:
    """Move -> quantize becomes quantize -> move, if the move has no other use.

    So does move -> clamping activation, which stands in front of a quantize.
    """
    changed = False
    for node in graph.calls(gm):
        if graph.op_of(node) not in QUANTIZES and activation.real_range(node) is None:
            continue
        move = node.args[0]
        if not isinstance(move, Node) or not moves(move) or len(move.users) != 1:
            continue
        source = move.args[0]
        if not isinstance(source, Node) or not _is_computed(source):
            continue
        if graph.op_of(source) in DEQUANTIZES:
            continue  # hoisted instead
        args = (source, *node.args[1:])
        quantized = graph.call(gm, node, node.target, args, (node,), node.kwargs)
        rest = move.args[1:]
        new = graph.call(gm, node, move.target, (quantized, *rest), (move,), move.kwargs)
        node.replace_all_uses_with(new)
        gm.graph.erase_node(node)
        gm.graph.erase_node(move)
        changed = True
    return changed


def _sink_padding(gm: GraphModule) -> bool:
    """Pad -> quantize -> dequantize becomes quantize -> dequantize -> pad, for zero padding.

    Exact: 0 has the code `zero_point` on every grid. Only in front of a convolution, which can then
    take the padding in; anywhere else the padding is an operator to be fused itself.
    """
    changed = False
    for node in graph.calls(gm):
        quantize = node.args[0] if node.args else None
        if graph.op_of(node) != graph.DEQUANTIZE or graph.op_of(quantize) != graph.QUANTIZE:
            continue
        assert isinstance(quantize, Node)
        pad = quantize.args[0]
        if not isinstance(pad, Node) or zero_padding(pad) is None or len(pad.users) != 1:
            continue
        if quantize.args[1:6] != node.args[1:6] or not all(map(_is_convolution, node.users)):
            continue
        codes = graph.call(gm, node, graph.QUANTIZE, (pad.args[0], *quantize.args[1:]), (quantize,))
        rest = node.args[1:]
        real = graph.call(gm, node, graph.DEQUANTIZE, (codes, *rest), (node,), node.kwargs)
        padded = graph.call(gm, node, pad.target, (real, *pad.args[1:]), (pad,), pad.kwargs)
        node.replace_all_uses_with(padded)
        gm.graph.erase_node(node)
        changed = True
    return changed


def _is_convolution(node: Node) -> bool:
    return any(spec.name.startswith("conv") for spec, _ in registry.anchors_of(graph.op_of(node)))


def _is_computed(node: Node) -> bool:
    return node.op in ("call_function", "placeholder") and graph.is_float_tensor(node)


def _keeps_grid(node: Node) -> bool:
    """True for operators that are exact on their input's grid: max pooling, and relu."""
    op = graph.op_of(node)
    if op in activation.RELU:
        return True
    return any(spec.fusion and spec.fusion.keeps_grid for spec, _ in registry.anchors_of(op))


def value_of(node: Node) -> Node | None:
    """The node that carries an operator's first result: itself, or its only used getitem."""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return node
    users = [user for user in node.users if user.users]  # a result that nobody takes
    if len(users) == 1 and graph.op_of(users[0]) is graph.GETITEM and users[0].args[1] == 0:
        return users[0]
    return None


def _close_grid_islands(gm: GraphModule) -> bool:
    """Dequantize -> op -> (not quantize): put quantize -> dequantize of the same grid behind op."""
    for node in graph.calls(gm):
        source = node.args[0] if node.args else None
        if not _keeps_grid(node) or graph.op_of(source) != graph.DEQUANTIZE:
            continue
        assert isinstance(source, Node)
        value = value_of(node)
        if value is None or not value.users:
            continue
        users = list(value.users)
        if any(graph.op_of(user) in QUANTIZES for user in users):
            continue
        params = source.args[1:6]
        with gm.graph.inserting_after(value):
            after = value.next
        codes = graph.call(gm, after, graph.QUANTIZE, (value, *params), (node,))
        new = graph.call(gm, after, graph.DEQUANTIZE, (codes, *params), (node,), source.kwargs)
        for user in users:
            user.replace_input_with(value, new)
        return True
    return False
