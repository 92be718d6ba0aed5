# SPDX-License-Identifier: BSD-3-Clause
"""Attention as products and a softmax: softmax(query @ key^T * scale) @ value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from fused_quant import graph

_OPERANDS = ("query", "key", "value")


def network(bound: dict[str, Any]) -> tuple[list[Node], Callable[..., tuple[Tensor, ...]]] | None:
    """Of a call of scaled_dot_product_attention without mask and dropout.

    With a mask the scores are unbounded below, which no grid of codes can hold: such a call stays
    whole, and in float.
    """
    if bound["attn_mask"] is not None or bound["is_causal"] or bound["enable_gqa"]:
        return None
    if bound["dropout_p"]:
        return None
    scale = bound["scale"] or 1 / math.sqrt(graph.shape_of(bound["query"])[-1])

    def attend(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        scores = query @ key.transpose(-2, -1) * scale
        return (torch.softmax(scores, -1) @ value,)

    return [bound[name] for name in _OPERANDS], attend
