# SPDX-License-Identifier: BSD-3-Clause
"""Scores of which a mask leaves some out: minus infinity is put in their place before a softmax."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.fx import Node

from fused_quant import graph

_aten = torch.ops.aten
SOFTMAXES = (_aten.softmax.int, _aten._softmax.default)
FILLS = (
    _aten.masked_fill.Scalar,
    _aten.masked_fill_.Scalar,
    _aten.masked_fill.Tensor,
    _aten.masked_fill_.Tensor,
)
_FAR_BELOW = -1e4
CHOICES = (_aten.where.self, _aten.where.ScalarOther, _aten.where.ScalarSelf)
_COPIES = (_aten.lift_fresh_copy.default, _aten.detach.default, _aten.detach_.default)


@dataclasses.dataclass(frozen=True)
class Masked:
    """scores where `mask` differs from `hides`, minus infinity elsewhere."""

    scores: Node
    mask: Node
    hides: bool


def masked(node: Any) -> Masked | None:
    """What a node that puts minus infinity where a mask says so reads; None for any other node."""
    op = graph.op_of(node)
    if op in FILLS:
        bound = graph.bind(node)
        if not _is_left_out(bound["value"]):
            return None
        found = Masked(bound["self"], bound["mask"], True)
    elif op in CHOICES:
        bound = graph.bind(node)
        hides = _is_left_out(bound["self"])
        if hides == _is_left_out(bound["other"]):
            return None
        found = Masked(bound["other" if hides else "self"], bound["condition"], hides)
    else:
        return None
    if not isinstance(found.scores, Node) or not isinstance(found.mask, Node):
        return None
    same = graph.shape_of(found.scores) == graph.shape_of(node)
    return found if same and graph.val_of(found.mask).dtype == torch.bool else None


def is_mask_taken_in(node: Any) -> bool:
    """True for a masking that a softmax, its only user, takes in when it is fused."""
    if masked(node) is None or len(node.users) != 1:
        return False
    (user,) = node.users
    return graph.op_of(user) in SOFTMAXES and user.args[0] is node


def _is_left_out(value: Any) -> bool:
    """True for the number, and for a constant of one element or a filled tensor of it."""
    while graph.op_of(value) in _COPIES:
        value = value.args[0]
    if graph.op_of(value) in (_aten.full.default, _aten.scalar_tensor.default):
        bound = graph.bind(value)
        value = bound.get("fill_value", bound.get("s"))
    elif isinstance(value, Node):
        constant = graph.constant_of(value.graph.owning_module, value)  # type: ignore[arg-type]
        value = float(constant) if constant is not None and constant.numel() == 1 else None
    return isinstance(value, float) and is_far_below(value)


def is_far_below(value: float) -> bool:
    """True for minus infinity and for the numbers that are written in its place, -10,000 and below.

    exp(value - largest score) is 0 in float32 as well while the scores are within thousands of 0.
    """
    return value <= _FAR_BELOW
