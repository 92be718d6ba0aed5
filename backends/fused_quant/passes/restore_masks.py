# SPDX-License-Identifier: BSD-3-Clause
"""The masking in front of a softmax, in the spelling that a fused softmax takes in."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops.masking import is_mask_taken_in, masked
from fused_quant.passes.constant_cone import constant_value
from fused_quant.passes.restoring import retarget

_FILL = torch.ops.aten.masked_fill.Scalar
_CHOOSE = torch.ops.aten.where.ScalarOther


def restore_masks(gm: GraphModule, node: Node) -> None:
    """Rewrite one masking in place, as masked_fill, or where with a mask of what counts.

    A mask known ahead of time becomes a constant of masked_fill: where(mask, scores, -inf) turns it
    over. A mask that the program computes from constants (a comparison, a slice) becomes its value.
    The number that is put in becomes minus infinity.
    """
    found = masked(node) if is_mask_taken_in(node) else None
    target = graph.op_of(node)
    if found is None or (target == _FILL and found.mask.op == "get_attr"):
        return
    parts = [n for n in node.all_input_nodes if n is not found.scores and n is not found.mask]
    absorbed: list[Node] = []
    value = constant_value(gm, found.mask, absorbed)
    if value is not None:
        hidden = value if found.hides else ~value
        mask = graph.add_constant(gm, node, hidden.contiguous(), "fused_quant_mask")
        arguments: tuple[Any, ...] = (found.scores, mask, -math.inf)
        retarget(gm, node, _FILL, arguments, [*parts, *absorbed[::-1]])
    elif not parts and target in (_FILL, _CHOOSE):
        return
    elif found.hides:
        retarget(gm, node, _FILL, (found.scores, found.mask, -math.inf), parts)
    else:
        retarget(gm, node, _CHOOSE, (found.mask, found.scores, -math.inf), parts)
