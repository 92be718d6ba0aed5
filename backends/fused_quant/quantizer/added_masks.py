# SPDX-License-Identifier: BSD-3-Clause
"""Masks that are added to the scores of a softmax: 0 where a score counts, far below elsewhere.

No scale serves both the scores and such a mask. softmax(scores + mask) is therefore rewritten as
the softmax of scores with minus infinity where the mask is far below zero, if it is plain from how
the mask is made that it has no other values than these and 0. A row in which nothing counts is the
one difference: its results are 0, where torch's are NaN or those of the scores alone.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops.masking import CHOICES, FILLS, SOFTMAXES, is_far_below
from fused_quant.passes.constant_cone import constant_value
from fused_quant.passes.restoring import CONSTANT_COPIES, number_of

_aten = torch.ops.aten
_ADDS = (_aten.add.Tensor, _aten.add_.Tensor)
_MULS = (_aten.mul.Tensor, _aten.mul_.Tensor, _aten.mul.Scalar)
_ASSERT = _aten._assert_tensor_metadata.default
_RESHAPES = (_aten.view.default, _aten.reshape.default)
_MOVES = (
    *_RESHAPES,
    _aten.expand.default,
    _aten.unsqueeze.default,
    _aten.squeeze.dim,
    _aten.squeeze.default,
    _aten.slice.Tensor,
    _aten.select.int,
    _aten.transpose.int,
    _aten.permute.default,
    _aten.repeat.default,
)
_CASTS = (
    _aten.to.dtype,
    _aten.to.dtype_layout,
    _aten._to_copy.default,
    _aten.type_as.default,
    _aten.contiguous.default,
)
_COPIES = (*CONSTANT_COPIES, *_CASTS)
_FILLED = (
    _aten.zeros.default,
    _aten.zeros_like.default,
    _aten.new_zeros.default,
    _aten.full.default,
    _aten.full_like.default,
    _aten.new_full.default,
    _aten.scalar_tensor.default,
)


@dataclasses.dataclass(frozen=True)
class Mask:
    """A boolean node: True where a score does not count, or with `keeps` where it counts."""

    node: Node
    keeps: bool

    def on(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The scores with minus infinity where they do not count; mask: the node's value."""
        if self.keeps:
            return torch.where(mask, scores, -math.inf)
        return scores.masked_fill(mask, -math.inf)


def hide_instead_of_adding(model: GraphModule) -> None:
    """Rewrite every softmax(scores + mask), in place. Leaves what is not needed any more."""
    for node in graph.calls(model):
        if graph.op_of(node) not in SOFTMAXES:
            continue
        added = node.args[0]
        if graph.op_of(added) not in _ADDS or len(added.users) != 1:  # type: ignore[union-attr]
            continue
        _hide(model, added)  # type: ignore[arg-type]


def mask_of(gm: GraphModule, node: Node, before: Node) -> Mask | None:
    """What an added mask stands for, computed in front of `before`; None if it may be more."""
    found = _Reader(gm, before).added(node)
    return None if found is None else Mask(_unexpanded(found.node), found.keeps)


def _hide(model: GraphModule, added: Node) -> None:
    bound = graph.bind(added)
    pair = bound["self"], bound["other"]
    if bound["alpha"] != 1 or not all(isinstance(operand, Node) for operand in pair):
        return
    for scores, mask in (pair, pair[::-1]):
        if graph.shape_of(scores) != graph.shape_of(added):
            continue
        found = mask_of(model, mask, added)
        if found is None:
            continue
        if found.keeps:
            arguments = (_aten.where.ScalarOther, (found.node, scores, -math.inf))
        else:
            arguments = (_aten.masked_fill.Scalar, (scores, found.node, -math.inf))
        hidden = graph.call(model, added, *arguments, (added,))
        added.replace_all_uses_with(hidden)
        _erase(model, added)
        return


def _erase(model: GraphModule, node: Node) -> None:
    """The node and what only it needs; what writes in place would be kept otherwise."""
    asserts = [user for user in node.users if graph.op_of(user) == _ASSERT]
    if len(asserts) < len(node.users) or node.op != "call_function":
        return
    for user in asserts:
        model.graph.erase_node(user)
    sources = node.all_input_nodes
    model.graph.erase_node(node)
    for source in sources:
        _erase(model, source)


def _unexpanded(node: Node) -> Node:
    """Without repetitions: the mask is broadcast to the scores in any case."""
    while graph.op_of(node) == _aten.expand.default:
        node = node.args[0]  # type: ignore[assignment]
    return node


class _Reader:
    """Reads how masks are made; what it computes and does not use has no users and goes away."""

    def __init__(self, gm: GraphModule, before: Node) -> None:
        self._gm, self._before = gm, before
        self._call: Callable[..., Node] = functools.partial(graph.call, gm, before)

    def added(self, node: Any) -> Mask | None:
        """Of a node whose elements are all 0 or far below."""
        op = graph.op_of(node)
        if not isinstance(node, Node):
            return None
        value = constant_value(self._gm, node)
        if value is not None:
            return self._constant(value)
        bound = graph.bind(node) if node.op == "call_function" else {}
        if op in FILLS:
            return self._filled(node, bound)
        if op in (*CHOICES, _aten.where.Scalar):
            return self._chosen(node, bound)
        if op in _MULS:
            return self._scaled(node, bound)
        if op in _ADDS and bound["alpha"] == 1:
            return self._either(node, self.added(bound["self"]), self.added(bound["other"]))
        if op in _MOVES or op in _COPIES:
            found = self.added(node.args[0])
            if found is None or op in _COPIES:
                return found
            return Mask(self._moved(node, found.node), found.keeps)
        return None

    def _moved(self, node: Node, mask: Node) -> Node:
        """The mask as `node` moves what it reads; a shape it had before is taken from there."""
        if graph.op_of(node) in _RESHAPES:
            source = mask
            while graph.op_of(source) in _RESHAPES:
                source = source.args[0]  # type: ignore[assignment]
            if graph.shape_of(source) == graph.shape_of(node):
                return source
        return self._call(graph.op_of(node), (mask, *node.args[1:]), (node,), node.kwargs)

    def _constant(self, value: torch.Tensor) -> Mask | None:
        if not value.is_floating_point():
            return None
        hidden = value.new_tensor([is_far_below(v) for v in value.flatten().tolist()]).bool()
        if bool(value.flatten()[~hidden].any()):
            return None
        mask = hidden.reshape(value.shape)
        constant = graph.add_constant(self._gm, self._before, mask, "_mask")
        return Mask(constant, False)

    def _filled(self, node: Node, bound: dict[str, Any]) -> Mask | None:
        source, mask = bound["self"], bound["mask"]
        if not self._is_far_below(bound["value"]):
            return None
        if self._is_zero(source):
            return Mask(mask, False)
        if self._is_nonzero_of(mask, source):
            return self._ones(node, source) or Mask(mask, False)
        return self._either(node, self.added(source), Mask(mask, False))

    def _chosen(self, node: Node, bound: dict[str, Any]) -> Mask | None:
        condition, first, second = bound["condition"], bound["self"], bound["other"]
        if self._is_far_below(first):
            rest = None if self._is_zero(second) else self.added(second)
            hidden = Mask(condition, False)
            return hidden if self._is_zero(second) else self._either(node, rest, hidden)
        if self._is_far_below(second) and self._is_zero(first):
            return Mask(condition, True)
        return None

    def _scaled(self, node: Node, bound: dict[str, Any]) -> Mask | None:
        """(1 - m) * lowest, or m * lowest, of truth values or of zeros and ones."""
        for truth, factor in ((bound["self"], bound["other"]), (bound["other"], bound["self"])):
            if not self._is_far_below(factor) or not isinstance(truth, Node):
                continue
            if self._number(factor) == -math.inf:  # times 0 it is NaN
                return None
            return self._ones(node, truth)
        return None

    def _ones(self, node: Node, truth: Node) -> Mask | None:
        """Where a tensor of zeros and ones is 1: made of truth values, or 1 less such a tensor."""
        op = graph.op_of(truth)
        if op not in (_aten.rsub.Scalar, _aten.sub.Tensor):
            return self._truth(node, truth, keeps=False)
        bound = graph.bind(truth)
        one, source = bound["other"], bound["self"]
        if op == _aten.sub.Tensor:
            one, source = source, one
        plain = bound["alpha"] == 1 and self._number(one) == 1
        return self._truth(node, source, keeps=True) if plain else None

    def _truth(self, node: Node, source: Any, keeps: bool) -> Mask | None:
        """Of a float tensor made of truth values, or of integers, which are 0 and 1 in a mask."""
        while graph.op_of(source) in _COPIES:
            source = source.args[0]
        if not isinstance(source, Node):
            return None
        dtype = graph.val_of(source).dtype
        if dtype == torch.bool:
            return Mask(source, keeps)
        if dtype.is_floating_point or dtype.is_complex:
            return None
        return Mask(self._call(_aten.ne.Scalar, (source, 0), (node,)), keeps)

    def _either(self, node: Node, a: Mask | None, b: Mask | None) -> Mask | None:
        """Nothing counts that one of them leaves out."""
        if a is None or b is None:
            return None
        if a.keeps != b.keeps:
            a, b = (self._turned(node, mask) if mask.keeps else mask for mask in (a, b))
        op = _aten.logical_and.default if a.keeps else _aten.logical_or.default
        return Mask(self._call(op, (a.node, b.node), (node,)), a.keeps)

    def _turned(self, node: Node, mask: Mask) -> Mask:
        return Mask(self._call(_aten.logical_not.default, (mask.node,), (node,)), not mask.keeps)

    def _number(self, value: Any) -> float | None:
        found = number_of(self._gm, value)
        return None if found is None else found[0]

    def _is_far_below(self, value: Any) -> bool:
        number = self._number(value)
        return number is not None and is_far_below(number)

    def _is_zero(self, value: Any) -> bool:
        """True for the number, and for a tensor that is filled with it."""
        while graph.op_of(value) in _COPIES:
            value = value.args[0]
        if graph.op_of(value) in _FILLED:
            bound = graph.bind(value)
            return self._number(bound.get("fill_value", bound.get("s", 0.0))) == 0
        return self._number(value) == 0

    def _is_nonzero_of(self, mask: Any, source: Any) -> bool:
        """True for a mask that is the truth value of each element of `source`."""
        op = graph.op_of(mask)
        if op == _aten.ne.Scalar:
            return bool(mask.args[0] is source and mask.args[1] == 0)
        is_cast = op in _CASTS and graph.val_of(mask).dtype == torch.bool
        return bool(is_cast and mask.args[0] is source)
