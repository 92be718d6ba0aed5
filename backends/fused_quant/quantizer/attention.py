# SPDX-License-Identifier: BSD-3-Clause
"""Attention as products and a softmax: softmax(query @ key^T * scale) @ value.

A mask that says which scores count puts minus infinity in the place of the others, in front of the
softmax, which takes it in when it is fused; it may be computed. A mask of finite numbers is added
to the scores, and has to be known ahead of time.
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
from fused_quant.quantizer.added_masks import Mask, mask_of

_OPERANDS = ("query", "key", "value")
Masking = Callable[..., Tensor]  # of the scores, and of the mask if it is computed


def network(node: Node) -> tuple[list[Node], Callable[..., tuple[Tensor, ...]]] | None:
    """Of a call of scaled_dot_product_attention without dropout.

    A mask is known ahead of time or says which scores count; any other call stays whole, and in
    float.
    """
    bound = graph.bind(node)
    if bound["dropout_p"]:
        return None
    found = _mask(node, bound)
    if found is None:
        return None
    masked, masks = found
    query, key = (graph.shape_of(bound[name]) for name in ("query", "key"))
    scale = bound["scale"] or 1 / math.sqrt(query[-1])
    heads = query[-3] // key[-3] if bound["enable_gqa"] else 1

    def attend(query: Tensor, key: Tensor, value: Tensor, *mask: Tensor) -> tuple[Tensor, ...]:
        if heads > 1:
            key, value = (x.repeat_interleave(heads, -3) for x in (key, value))
        scores = masked(query @ key.transpose(-2, -1) * scale, *mask)
        return (torch.softmax(scores, -1) @ value,)

    return [*(bound[name] for name in _OPERANDS), *masks], attend


def _mask(call: Node, bound: dict[str, Any]) -> tuple[Masking, list[Node]] | None:
    """What is done to the scores, with which node; None if it is not known ahead of time."""
    if bound["is_causal"]:
        sizes = graph.shape_of(bound["query"])[-2], graph.shape_of(bound["key"])[-2]
        return _hiding(torch.ones(sizes, dtype=torch.bool).triu(1)), []
    node = bound["attn_mask"]
    if node is None:
        return lambda scores: scores, []
    value = constant_value(node.graph.owning_module, node)
    if value is not None:
        known = _constant(value)
        return None if known is None else (known, [])
    if graph.val_of(node).dtype == torch.bool:
        return Mask(node, True).on, [node]
    found = mask_of(node.graph.owning_module, node, call)
    return None if found is None else (found.on, [found.node])


def _constant(value: Tensor) -> Masking | None:
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


def _hiding(hidden: Tensor) -> Masking:
    return lambda scores: scores.masked_fill(hidden, -torch.inf)
