# SPDX-License-Identifier: BSD-3-Clause
"""Fused operators back into dequantize, core ATen operators and quantize."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from executorch.exir.pass_base import ExportedProgramPassResult
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from fused_quant import dialect, graph
from fused_quant.ops import registry
from fused_quant.passes.base import GraphPass
from fused_quant.passes.blocks import fused_spec, is_fused
from fused_quant.passes.edges import Edges
from fused_quant.passes.floats import FloatCall, FloatGraphs
from fused_quant.passes.program import relifted

Filter = Callable[[Node], bool]


class DecomposeFusedQuant(GraphPass):
    """Every `fused_quant` node becomes dequantize -> core ATen operators -> quantize.

    keep: nodes for which it is true stay as they are (None: no node does).

    Operands with a block are dequantized (`quantized_decomposed` per tensor or per channel, int32
    biases too; ordinary arithmetic in blocks), operands without one are float already. The out
    block's quant_min and quant_max, and so a fused activation, are those of the quantize. All
    operators of the result have kernels in ExecuTorch's portable and quantized libraries.

    Bound: each operator's result is within 1 code of what its fused form computes from the same
    operands in eager mode (one accumulates integers, the other rounds floats). Fusing
    the result again gives the same fused operators with the same bits, blocks and attributes.
    """

    def __init__(self, keep: Filter | None = None) -> None:
        self.keep = keep

    def rewrite(self, gm: GraphModule) -> bool:
        """See the class."""
        return _decompose(gm, lambda node: self.keep is not None and self.keep(node))

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """Apply the pass to a copy of a program; `keep` sees the program's own nodes."""
        registry.load()
        kept = {
            node.name
            for node in exported_program.graph.nodes
            if fused_spec(node) is not None and self.keep is not None and self.keep(node)
        }
        gm = graph.unlifted(exported_program)

        def keep(node: Node) -> bool:
            return not kept.isdisjoint(graph.origins(node))

        if not _decompose(gm, keep, exported_program):
            return ExportedProgramPassResult(exported_program, False)
        return ExportedProgramPassResult(relifted(exported_program, gm), True)


def decompose_unclaimed(
    program: ExportedProgram, claimed: Callable[[Node], bool]
) -> ExportedProgram:
    """The program with every fused operator decomposed that is not `claimed`; a copy if any is.

    For a partitioner's `transform_for_pre_decomposition`: ExecuTorch has no kernels for fused
    operators that no delegate takes. claimed: a predicate on the program's own nodes. Operators
    registered from outside the package stay: they have kernels of their own, or are decomposed by
    `DecomposeFusedQuant` before.
    """

    def keep(node: Node) -> bool:
        return claimed(node) or not is_fused(node)

    result: ExportedProgram = DecomposeFusedQuant(keep)(program).exported_program
    return result


def _decompose(gm: GraphModule, keep: Filter, like: ExportedProgram | None = None) -> bool:
    """Decompose what is not kept; `like` is the program that the graph was copied from."""
    nodes = [n for n in graph.calls(gm) if fused_spec(n) is not None and not keep(n)]
    if not nodes:
        return False
    calls = [_float_call(gm, node) for node in nodes]
    graphs = FloatGraphs(calls, like)
    moved = False
    for index, node in enumerate(nodes):
        moved = _replace(gm, node, graphs.write(gm, node, index)) or moved
    if moved:
        _refresh(gm)
    gm.graph.eliminate_dead_code()
    return True


def _float_call(gm: GraphModule, node: Node) -> FloatCall:
    """The operator of a fused node on dequantized operands, which are inserted in front of it."""
    spec = fused_spec(node)
    assert spec is not None
    bound = graph.bind(node)
    _, attributes = dialect.parse_arguments(spec, bound)
    blocks = dialect.blocks_of(gm, node)
    edges = Edges(gm, node)
    operands: dict[str, Node | None] = {}
    for name, codes in dialect.operands_of(spec, bound).items():
        params = blocks[name]
        if codes is None or params is None:
            operands[name] = codes
        else:
            operands[name] = edges.dequantize(codes, params)
    getitems = [user for user in node.users if graph.op_of(user) is graph.GETITEM]
    wants_others = any(user.args[1] != 0 for user in getitems)
    grids = dialect.grids_between(spec, blocks)
    return FloatCall(spec, operands, attributes, wants_others, grids)


def _replace(gm: GraphModule, node: Node, results: list[Node]) -> bool:
    """Quantize the first result and put results in the place of a fused node.

    True if a result is laid out in memory in another way than before.
    """
    out = dialect.blocks_of(gm, node)["out"]
    if out is not None:
        results = [Edges(gm, node).quantize(results[0], out), *results[1:]]
    is_tuple = isinstance(graph.val_of(node), (tuple, list))
    moved = False
    for old in list(node.users) if is_tuple else [node]:
        index: Any = old.args[1] if is_tuple else 0
        new = results[index]
        moved = moved or graph.val_of(old).stride() != graph.val_of(new).stride()
        old.replace_all_uses_with(new)
        gm.graph.erase_node(old)
    if is_tuple:
        gm.graph.erase_node(node)
    return moved


def _refresh(gm: GraphModule) -> None:
    """Fake values anew, because a result has other strides now."""
    mode = graph.fake_mode_of(gm)
    for node in graph.calls(gm):
        if isinstance(node.target, torch._ops.OpOverload) or graph.op_of(node) is graph.GETITEM:
            with contextlib.nullcontext() if mode is None else mode:
                graph.refresh_val(node)
