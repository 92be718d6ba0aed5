# SPDX-License-Identifier: BSD-3-Clause
"""Pools of other forms as the 2-d pools of [N, C, H, W] that they are.

1-d pools get a height of one, as decomposition does it; an image without a batch gets one of one;
an adaptive max pool whose windows are all alike is a max pool.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.passes.normalize_edges import value_of
from fused_quant.passes.restoring import is_dequantized

_aten = torch.ops.aten
_POOLS_1D = {
    _aten.max_pool1d.default: _aten.max_pool2d.default,
    _aten.avg_pool1d.default: _aten.avg_pool2d.default,
    _aten.adaptive_avg_pool1d.default: _aten.adaptive_avg_pool2d.default,
    _aten.adaptive_max_pool1d.default: _aten.adaptive_max_pool2d.default,
}
_POOLS_2D = (
    _aten.max_pool2d.default,
    _aten.max_pool2d_with_indices.default,
    _aten.avg_pool2d.default,
    _aten.adaptive_avg_pool2d.default,
    _aten._adaptive_avg_pool2d.default,
    _aten.adaptive_max_pool2d.default,
)
_FILLERS = {"kernel_size": 1, "stride": 1, "padding": 0, "dilation": 1, "output_size": 1}
_ROW, _BATCH = -2, 0  # where a dimension of size one is put in


def restore_pools(gm: GraphModule, node: Node) -> None:
    """Rewrite one node in place, if its operand is dequantized."""
    op = graph.op_of(node)
    if op not in _POOLS_1D and op not in _POOLS_2D:
        return
    value = value_of(node)
    source, *rest = graph.bind(node).items()
    x: Any = source[1]
    if value is None or not is_dequantized(x):
        return
    added = []
    if op in _POOLS_1D:
        op = _POOLS_1D[op]
        rest = [(name, _with_row(name, given)) for name, given in rest]
        added.append(_ROW)
    if graph.rank_of(x) + len(added) == 3:
        added.append(_BATCH)
    sizes = graph.val_of(x).shape[-1:] if _ROW in added else graph.val_of(x).shape[-2:]
    arguments = dict(rest)
    if op == _aten.adaptive_max_pool2d.default:
        height = 1 if _ROW in added else sizes[0]
        window = _equal_windows((height, sizes[-1]), arguments["output_size"])
        if window is None:
            return
        op, arguments = _aten.max_pool2d.default, window
    elif not added:
        return
    _replace(gm, node, value, op, list(arguments.values()), added)


def _replace(
    gm: GraphModule, node: Node, value: Node, op: Any, arguments: list[Any], added: list[int]
) -> None:
    x: Any = node.args[0]
    for dim in added:
        x = graph.call(gm, node, _aten.unsqueeze.default, (x, dim), (node,))
    result = graph.call(gm, node, op, (x, *arguments), (node,))
    if isinstance(graph.val_of(result), (tuple, list)):
        result = graph.call(gm, node, graph.GETITEM, (result, 0), (node,))
    for dim in reversed(added):
        result = graph.call(gm, node, _aten.squeeze.dims, (result, [dim]), (node,))
    value.replace_all_uses_with(result)
    for user in list(node.users):
        gm.graph.erase_node(user)
    gm.graph.erase_node(node)


def _with_row(name: str, value: Any) -> Any:
    """An argument of a 1-d pool as that of a 2-d pool with a height of one."""
    if name not in _FILLERS or value == []:
        return value
    width = value if isinstance(value, int) else value[0]
    return [_FILLERS[name], width]


def _equal_windows(sizes: tuple[Any, Any], output: Any) -> dict[str, list[int]] | None:
    """The max pool that an adaptive one is, if its windows are all of one size and distance.

    Window i of an axis is [floor(i * size / n), ceil((i + 1) * size / n)).
    """
    kernels, strides = [], []
    for size, n in zip(sizes, output, strict=True):
        if not isinstance(size, int) or n < 1:
            return None
        starts = [i * size // n for i in range(n)]
        lengths = {-(-(i + 1) * size // n) - starts[i] for i in range(n)}
        steps = {b - a for a, b in itertools.pairwise(starts)} or {1}
        if len(lengths) != 1 or len(steps) != 1 or steps == {0}:
            return None
        kernels.append(lengths.pop())
        strides.append(steps.pop())
    return {"kernel_size": kernels, "stride": strides}
