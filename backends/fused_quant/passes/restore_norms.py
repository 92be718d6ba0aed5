# SPDX-License-Identifier: BSD-3-Clause
"""rms_norm and instance_norm out of the parts that decomposition makes of them.

rms_norm      = x * rsqrt(mean(x^2, last dimensions) + eps) * weight
instance_norm = view(batch norm of statistics of its own(view(x, [1, N * C, *])), [N, C, *])
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.passes.restoring import is_dequantized, number_of, retarget, same_value

_aten = torch.ops.aten
_PRODUCTS = (_aten.mul.Tensor, _aten.mul.Scalar)
_SUMS = (_aten.add.Tensor, _aten.add.Scalar)
_VIEWS = (_aten.view.default, _aten.view_copy.default, _aten.reshape.default)
_REPEATS = (_aten.repeat.default,)


def restore_rms_norm(gm: GraphModule, node: Node) -> None:
    """Rewrite one node in place, if it is the last part of an rms_norm of something dequantized."""
    found = _weighted(gm, node) or _plain(gm, node, None)
    if found is None:
        return
    x, dims, eps, weight, parts = found
    shape = list(graph.shape_of(x)[-len(dims) :])
    if sorted(dim % graph.rank_of(x) for dim in dims) != list(
        range(graph.rank_of(x) - len(dims), graph.rank_of(x))
    ):
        return
    if weight is not None and list(graph.val_of(weight).shape) != shape:
        return
    retarget(gm, node, _aten.rms_norm.default, (x, shape, weight, eps), parts)


_Found = tuple[Node, list[int], float, Any, list[Node]]


def _pairs(node: Any, targets: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    if graph.op_of(node) not in targets:
        return []
    bound = graph.bind(node)
    a, b = bound["self"], bound["other"]
    return [(a, b), (b, a)]


def _weighted(gm: GraphModule, node: Node) -> _Found | None:
    for inner, weight in _pairs(node, _PRODUCTS):
        if graph.constant_of(gm, weight) is None or not _single(inner):
            continue
        found = _plain(gm, inner, weight)
        if found is not None:
            return found
    return None


def _single(node: Any) -> bool:
    return isinstance(node, Node) and len(node.users) == 1


def _plain(gm: GraphModule, node: Any, weight: Any) -> _Found | None:
    """X * rsqrt(mean(x^2) + eps)."""
    for x, root in _pairs(node, _PRODUCTS):
        if graph.op_of(root) != _aten.rsqrt.default or not _single(root):
            continue
        if weight is None and _is_scaled_further(gm, node):
            continue
        for mean, other in _pairs(root.args[0], _SUMS):
            eps = number_of(gm, other)
            square = _mean_square(mean)
            if eps is None or square is None or not _single(root.args[0]):
                continue
            if not is_dequantized(x) or not same_value(x, square[1]):
                continue
            nodes: list[Node] = [node, root, root.args[0], *eps[1], mean, square[0]]
            return x, square[2], eps[0], weight, nodes
    return None


def _is_scaled_further(gm: GraphModule, node: Node) -> bool:
    """True for the inner product of a norm with a weight, which the outer one is rewritten with."""
    users = list(node.users)
    if len(users) != 1:
        return False
    factors = [b for a, b in _pairs(users[0], _PRODUCTS) if a is node]
    return any(graph.constant_of(gm, factor) is not None for factor in factors)


def _mean_square(node: Any) -> tuple[Node, Node, list[int]] | None:
    """(square, x, dims) of mean(x^2, dims, keepdim=True)."""
    if graph.op_of(node) != _aten.mean.dim or not _single(node):
        return None
    bound = graph.bind(node)
    square = bound["self"]
    if not bound["keepdim"] or not bound["dim"] or not _single(square):
        return None
    if graph.op_of(square) == _aten.pow.Tensor_Scalar and square.args[1] == 2:
        return square, square.args[0], list(bound["dim"])
    if graph.op_of(square) == _aten.mul.Tensor and same_value(square.args[0], square.args[1]):
        return square, square.args[0], list(bound["dim"])
    return None


def restore_instance_norm(gm: GraphModule, node: Node) -> None:
    """Rewrite one node in place, if it is the last view of a decomposed instance_norm."""
    if graph.op_of(node) not in _VIEWS:
        return
    value = node.args[0]
    if graph.op_of(value) is not graph.GETITEM or not _single(value):
        return
    assert isinstance(value, Node)
    norm: Any = value.args[0]
    if graph.op_of(norm) != _aten._native_batch_norm_legit.no_stats or value.args[1] != 0:
        return
    bound = graph.bind(norm)
    view = bound["input"]
    if graph.op_of(view) not in _VIEWS or not bound["training"] or len(norm.users) != 1:
        return
    x: Any = view.args[0]
    shape = graph.shape_of(x)
    joined = [1, shape[0] * shape[1], *shape[2:]] if len(shape) > 2 else []
    if list(graph.shape_of(view)) != joined or graph.shape_of(node) != shape:
        return
    if not is_dequantized(x):
        return
    absorbed = [value, norm, view]
    affine = []
    for name in ("weight", "bias"):
        given = bound[name]
        if graph.op_of(given) in _REPEATS and list(given.args[1]) == [shape[0]]:
            absorbed.append(given)
            given = given.args[0]
        if given is not None and tuple(graph.val_of(given).shape) != (shape[1],):
            return
        affine.append(given)
    sizes = (shape[0], shape[1], math.prod(shape[2:]), shape[1])
    like = (node, *absorbed)
    target = _aten.native_group_norm.default
    whole = graph.call(gm, node, target, (x, *affine, *sizes, bound["eps"]), like)
    result = graph.call(gm, node, graph.GETITEM, (whole, 0), like)
    node.replace_all_uses_with(result)
    for dead in like:
        if not dead.users:
            gm.graph.erase_node(dead)
