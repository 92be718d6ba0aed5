# SPDX-License-Identifier: BSD-3-Clause
"""No `fused_quant` operator may be left where no delegate takes it."""

from __future__ import annotations

from torch.fx import GraphModule

from fused_quant.passes.base import GraphPass
from fused_quant.passes.blocks import is_fused


class AssertNoFusedQuantOps(GraphPass):
    """Raises ValueError naming every `fused_quant` operator that a graph calls; changes nothing.

    Branches of control flow are looked at too, delegates are not: what is inside of one is the
    delegate's. ExecuTorch has no kernels for these operators, so a program that still calls
    one cannot be loaded.
    """

    def rewrite(self, gm: GraphModule) -> bool:
        """See the class."""
        left = [
            f"{node.name} ({node.target})"
            for module in gm.modules()
            if isinstance(module, GraphModule)
            for node in module.graph.nodes
            if is_fused(node)
        ]
        if left:
            raise ValueError(
                f"fused_quant operators outside of a delegate: {', '.join(left)}; "
                "fused_quant.passes.DecomposeFusedQuant turns them into operators that "
                "ExecuTorch has kernels for"
            )
        return False
