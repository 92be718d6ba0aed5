# SPDX-License-Identifier: BSD-3-Clause
"""Dequantize -> quantize becomes one `fused_quant.requantize`."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops.boundary import params_of
from fused_quant.ops.movement import moves
from fused_quant.ops.requantize import REQUANTIZE
from fused_quant.passes.base import GraphPass
from fused_quant.passes.blocks import block_arguments, fusion_target, input_params
from fused_quant.qparams import QParams


class ReplaceDequantQuantWithRequantize(GraphPass):
    """Each per-tensor dequantize -> quantize pair becomes `fused_quant.requantize`.

    q = clamp(zp_out + R(x - zp_in; M(s_in / s_out))) in place of
    q = clamp(round(f32(s_in * (x - zp_in)) * f32(1 / s_out)) + zp_out): integers instead of floats,
    at most 1 code apart (at ties, which round up here and to even there). A pair of one grid whose
    bounds cannot change a code disappears. A dequantize with further users stays for them. Works on
    a GraphModule with constants as attributes and on an ExportedProgram; idempotent.
    """

    def rewrite(self, gm: GraphModule) -> bool:
        """See the class."""
        changed = requantize_pairs(gm)
        if changed:
            gm.graph.eliminate_dead_code()
        return changed


def requantize_pairs(gm: GraphModule) -> bool:
    """Dequantize -> quantize becomes requantize; nothing at all if it cannot change a code."""
    changed = False
    for node in graph.calls(gm):
        source = node.args[0] if node.args else None
        if graph.op_of(node) != graph.QUANTIZE or graph.op_of(source) != graph.DEQUANTIZE:
            continue
        assert isinstance(source, Node)
        changed = True
        before, after = input_params(source), params_of(node)
        codes = source.args[0]
        assert isinstance(codes, Node)
        if _is_identity(codes, before, after):
            node.replace_all_uses_with(codes)
            codes.meta[graph.ORIGIN] = tuple(
                dict.fromkeys((*graph.origins(codes), *graph.origins(source), *graph.origins(node)))
            )
            gm.graph.erase_node(node)
            continue
        arguments: list[Any] = [codes]
        arguments += block_arguments(gm, node, before)
        arguments += block_arguments(gm, node, after)
        target = fusion_target(REQUANTIZE)
        fused = graph.call(gm, node, target, tuple(arguments), (source, node))
        node.replace_all_uses_with(fused)
        gm.graph.erase_node(node)
    return changed


def _is_identity(codes: Node, before: QParams, after: QParams) -> bool:
    """Same grid, and bounds that no code of the source can exceed."""
    if not before.same_grid(after) or graph.val_of(codes).dtype != after.dtype:
        return False
    info = torch.iinfo(after.dtype)
    whole = after.quant_min <= info.min and after.quant_max >= info.max
    within = before.quant_min >= after.quant_min and before.quant_max <= after.quant_max
    return whole or (within and _is_clamped(codes))


def _is_clamped(codes: Node) -> bool:
    """True for codes that an operator made: only a caller may exceed the range it has declared."""
    while moves(codes) and isinstance(codes.args[0], Node):
        codes = codes.args[0]
    return codes.op == "call_function"
