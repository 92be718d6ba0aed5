# SPDX-License-Identifier: BSD-3-Clause
"""Attention as products and a softmax: softmax(query @ key^T * scale) @ value.

A mask that says which scores count puts minus infinity in the place of the others, in front of the
softmax, which takes it in when it is fused. A mask of finite numbers is added to the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from fused_quant import graph
from fused_quant.passes.constant_cone import constant_value

_OPERANDS = ("query", "key", "value")
Mask = Callable[[Tensor], Tensor]  # of the scores


def network(bound: dict[str, Any]) -> tuple[list[Node], Callable[..., tuple[Tensor, ...]]] | None:
    """Of a call of scaled_dot_product_attention without dropout and grouped heads.

    A mask must be known ahead of time; any other call stays whole, and in float.
    """
    if bound["enable_gqa"] or bound["dropout_p"]:
        return None
    mask = _mask(bound)
    if mask is None:
        return None
    scale = bound["scale"] or 1 / math.sqrt(graph.shape_of(bound["query"])[-1])

    def attend(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        scores = mask(query @ key.transpose(-2, -1) * scale)
        return (torch.softmax(scores, -1) @ value,)

    return [bound[name] for name in _OPERANDS], attend


def _mask(bound: dict[str, Any]) -> Mask | None:
    """What is done to the scores; None if it is not known ahead of time."""
    if bound["is_causal"]:
        sizes = graph.shape_of(bound["query"])[-2], graph.shape_of(bound["key"])[-2]
        return _hiding(torch.ones(sizes, dtype=torch.bool).triu(1))
    node = bound["attn_mask"]
    if node is None:
        return lambda scores: scores
    value = constant_value(node.graph.owning_module, node)
    if value is None:
        return None
    if value.dtype == torch.bool:
        return _hiding(~value)
    lowest = torch.finfo(value.dtype).min
    hidden = value <= lowest  # minus infinity, and the number that stands for it
    finite = value.masked_fill(hidden, 0)
    if not bool(finite.isfinite().all()):
        return None
    if not bool(finite.any()):
        return _hiding(hidden)
    if not bool(hidden.any()):
        return lambda scores: scores + finite
    return lambda scores: (scores + finite).masked_fill(hidden, -torch.inf)


def _hiding(hidden: Tensor) -> Mask:
    return lambda scores: scores.masked_fill(hidden, -torch.inf)
