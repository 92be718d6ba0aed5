# SPDX-License-Identifier: BSD-3-Clause
"""Fused operators back into dequantize, core ATen operators and quantize."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from executorch.exir.pass_base import ExportedProgramPassResult
from torch.export import ExportedProgram, default_decompositions
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from fused_quant import dialect, graph
from fused_quant.ops import registry
from fused_quant.ops.spec import Fusion
from fused_quant.passes.base import GraphPass
from fused_quant.passes.blocks import fused_spec, is_fused
from fused_quant.passes.edges import Edges, insert
from fused_quant.passes.program import relifted

Filter = Callable[[Node], bool]
_aten = torch.ops.aten
# Copies of values: in a graph without mutation they mean nothing.
_COPIES = (
    _aten.clone.default,
    _aten.alias.default,
    _aten.detach.default,
    _aten.lift_fresh_copy.default,
)


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
            if is_fused(node) and self.keep is not None and self.keep(node)
        }
        gm = graph.unlifted(exported_program)
        if not _decompose(gm, lambda node: not kept.isdisjoint(graph.origins(node))):
            return ExportedProgramPassResult(exported_program, False)
        return ExportedProgramPassResult(relifted(exported_program, gm), True)


def decompose_unclaimed(
    program: ExportedProgram, claimed: Callable[[Node], bool]
) -> ExportedProgram:
    """The program with every fused operator decomposed that is not `claimed`; a copy if any is.

    For a partitioner's `transform_for_pre_decomposition`: ExecuTorch has no kernels for fused
    operators that no delegate takes. claimed: a predicate on the program's own nodes.
    """
    result: ExportedProgram = DecomposeFusedQuant(claimed)(program).exported_program
    return result


def _decompose(gm: GraphModule, keep: Filter) -> bool:
    changed = moved = False
    for node in graph.calls(gm):
        if fused_spec(node) is not None and not keep(node):
            moved = _decompose_node(gm, node) or moved
            changed = True
    if moved:
        _refresh(gm)
    if changed:
        gm.graph.eliminate_dead_code()
    return changed


def _decompose_node(gm: GraphModule, node: Node) -> bool:
    """Replace one node; True if a result is laid out in memory in another way than before."""
    spec = fused_spec(node)
    assert spec is not None
    assert spec.fusion is not None
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
    out = blocks["out"]
    getitems = [user for user in node.users if graph.op_of(user) is graph.GETITEM]
    wants_others = any(user.args[1] != 0 for user in getitems)
    results = _inline(gm, node, spec.fusion, operands, attributes, wants_others)
    if out is not None:
        results[0] = edges.quantize(results[0], out)
    old = [node] if spec.fusion.results == 1 else getitems
    moved = False
    for user in old:
        index: Any = 0 if user is node else user.args[1]
        new = results[index]
        moved = moved or graph.val_of(user).stride() != graph.val_of(new).stride()
        user.replace_all_uses_with(new)
        gm.graph.erase_node(user)
    if node not in old:
        gm.graph.erase_node(node)
    return moved


@functools.cache
def _decompositions() -> dict[Any, Any]:
    table: dict[Any, Any] = dict(default_decompositions().items())
    return table


def _inline(
    gm: GraphModule,
    node: Node,
    fusion: Fusion,
    operands: dict[str, Node | None],
    attributes: dict[str, Any],
    wants_others: bool,
) -> list[Node]:
    """The operator in float as core ATen calls in front of `node`; its results."""
    sources = (*operands.values(), *attributes.values())
    inputs = list(dict.fromkeys(value for value in sources if isinstance(value, Node)))

    def function(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        known = dict(zip(inputs, values, strict=True))
        tensors = {
            name: None if value is None else known[value] for name, value in operands.items()
        }
        rest = {n: known[v] if isinstance(v, Node) else v for n, v in attributes.items()}
        result = fusion.aten(tensors, rest)
        others = fusion.others(tensors, rest) if fusion.others and wants_others else ()
        return (result, *others)

    mode = graph.fake_mode_of(gm)
    with contextlib.nullcontext() if mode is None else mode, torch.no_grad():
        values = [graph.val_of(value) for value in inputs]
        traced = make_fx(function, decomposition_table=_decompositions())(*values)
    traced.graph.eliminate_dead_code()
    return _copy_calls(gm, node, traced, inputs)


def _copy_calls(gm: GraphModule, node: Node, traced: GraphModule, inputs: list[Node]) -> list[Node]:
    """The calls of a traced graph, equal ones once, in front of `node`."""
    places = iter(inputs)
    mapping: dict[Node, Node] = {}
    seen: dict[Any, Node] = {}
    for source in traced.graph.nodes:
        if source.op == "placeholder":
            mapping[source] = next(places)
        elif source.op == "output":
            return [mapping[value] for value in source.args[0]]
        elif source.op != "call_function":
            raise ValueError(f"{node.name}: {node.target} makes a constant, supported: calls only")
        elif source.target in _COPIES and len(source.args) == 1 and not source.kwargs:
            mapping[source] = mapping[source.args[0]]
        else:
            args = torch.fx.map_arg(source.args, mapping.__getitem__)
            kwargs = torch.fx.map_arg(source.kwargs, mapping.__getitem__)
            key = (source.target, repr(args), repr(kwargs))
            if key not in seen:
                seen[key] = insert(gm, node, source.target, args, kwargs)
            mapping[source] = seen[key]
    raise ValueError(f"{node.name}: traced graph without an output")


def _refresh(gm: GraphModule) -> None:
    """Fake values anew, because a result has other strides now."""
    mode = graph.fake_mode_of(gm)
    for node in graph.calls(gm):
        if isinstance(node.target, torch._ops.OpOverload) or graph.op_of(node) is graph.GETITEM:
            with contextlib.nullcontext() if mode is None else mode:
                graph.refresh_val(node)
