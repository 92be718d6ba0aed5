# SPDX-License-Identifier: BSD-3-Clause
"""Every rewrite that puts back together what decomposition takes apart, in order."""

from __future__ import annotations

from collections.abc import Callable

from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.passes.restore_activations import restore_activations
from fused_quant.passes.restore_branches import restore_branches
from fused_quant.passes.restore_masks import restore_masks
from fused_quant.passes.restore_matmul import restore_matmul
from fused_quant.passes.restore_moves import restore_moves
from fused_quant.passes.restore_norms import restore_instance_norm, restore_rms_norm
from fused_quant.passes.restore_piecewise import restore_piecewise
from fused_quant.passes.restore_pools import restore_pools
from fused_quant.passes.restore_scalars import restore_scalars
from fused_quant.passes.restore_square import restore_square

_REWRITES = (
    restore_moves,
    restore_masks,
    restore_branches,
    restore_piecewise,
    restore_rms_norm,
    restore_instance_norm,
    restore_activations,
    restore_matmul,
    restore_square,
    restore_scalars,
    restore_pools,
)


def restore(gm: GraphModule, owned: Callable[[Node], bool] | None = None) -> None:
    """Rewrite in place, before dequantizes are copied per use. owned: a filter on nodes."""
    for rewrite in _REWRITES:
        for node in graph.calls(gm):
            if not node._erased and (owned is None or owned(node)):
                rewrite(gm, node)
