# SPDX-License-Identifier: BSD-3-Clause
"""The masking in front of a softmax, in the spelling that a fused softmax takes in."""

from __future__ import annotations

import math

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops.masking import is_mask_taken_in, masked
from fused_quant.passes.constant_cone import constant_value
from fused_quant.passes.restoring import retarget

_FILL = torch.ops.aten.masked_fill.Scalar


def restore_masks(gm: GraphModule, node: Node) -> None:
    """Rewrite one masking by a mask known ahead of time as masked_fill with a constant, in place.

    where(mask, scores, -inf) becomes the same with the mask turned over. A mask that the program
    computes from constants (a comparison, a slice) becomes its value.
    """
    found = masked(node) if is_mask_taken_in(node) else None
    if found is None or (graph.op_of(node) == _FILL and found.mask.op == "get_attr"):
        return
    absorbed: list[Node] = []
    value = constant_value(gm, found.mask, absorbed)
    if value is None:
        return
    hidden = value if found.hides else ~value
    mask = graph.add_constant(gm, node, hidden.contiguous(), "fused_quant_mask")
    parts = [n for n in node.all_input_nodes if n is not found.scores and n is not found.mask]
    retarget(gm, node, _FILL, (found.scores, mask, -math.inf), [*parts, *absorbed[::-1]])
