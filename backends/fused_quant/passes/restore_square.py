# SPDX-License-Identifier: BSD-3-Clause
"""x ** 2 and square(x) as the product x * x, which has an integer formula of its own."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops.power import is_square
from fused_quant.passes.restoring import is_dequantized, retarget


def restore_square(gm: GraphModule, node: Node) -> None:
    """Rewrite one node in place, if its operand is dequantized."""
    if not is_square(node):
        return
    x = graph.bind(node)["self"]
    if is_dequantized(x):
        retarget(gm, node, torch.ops.aten.mul.Tensor, (x, x), ())
