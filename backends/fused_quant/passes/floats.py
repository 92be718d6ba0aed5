# SPDX-License-Identifier: BSD-3-Clause
"""The float computations of fused operators as graphs of ATen or edge operators.

All nodes of one graph are exported together, as one module whose parts share nothing, and each
part is then copied to where its node was: one trace instead of one per node.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, to_edge
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule, Node

from fused_quant import dialect, graph
from fused_quant.ops import registry
from fused_quant.ops.spec import OpSpec
from fused_quant.passes.edges import insert
from fused_quant.passes.restore_linear import restore_linear

_aten = torch.ops.aten
# Copies of values: in a graph without mutation they mean nothing.
_COPIES = (
    _aten.clone.default,
    _aten.alias.default,
    _aten.alias_copy.default,
    _aten.detach.default,
    _aten.lift_fresh_copy.default,
    torch.ops.dim_order_ops._clone_dim_order.default,
)


@dataclasses.dataclass(frozen=True)
class FloatCall:
    """One operator on float operands: nodes of the graph it will be written to, or None.

    attributes: as the spec's `aten` takes them; a tensor among them is a node. grids: of the
    tensors inside of a chain.
    """

    spec: OpSpec
    operands: dict[str, Node | None]
    attributes: dict[str, Any]
    wants_others: bool
    grids: Mapping[str, dialect.Grid]

    @property
    def inputs(self) -> list[Node]:
        """The nodes that are read, each once."""
        sources = (*self.operands.values(), *self.attributes.values())
        return list(dict.fromkeys(value for value in sources if isinstance(value, Node)))

    def run(self, values: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The results in float for the values of `inputs`; all of them if others are wanted."""
        fusion = self.spec.fusion
        assert fusion is not None
        known = dict(zip(self.inputs, values, strict=True))
        tensors = {n: None if value is None else known[value] for n, value in self.operands.items()}
        rest = {n: known[v] if isinstance(v, Node) else v for n, v in self.attributes.items()}
        result = dialect.in_float(self.spec, tensors, rest, self.grids)
        others = fusion.others(tensors, rest) if fusion.others and self.wants_others else ()
        return (result, *others)


class _Together(torch.nn.Module):
    """Several calls, each on inputs of its own."""

    def __init__(self, calls: Sequence[FloatCall]) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        remaining = iter(values)
        results: list[torch.Tensor] = []
        for call in self.calls:
            results += call.run([next(remaining) for _ in call.inputs])
        return tuple(results)


class FloatGraphs:
    """Writes float calls into a graph.

    like: the program that the graph was copied from. If it is an edge program, calls are what
    `to_edge` makes of them. Otherwise they are core ATen operators where fusion finds the operator
    again in them, else operators as `torch.export` spells them, for `to_edge` to decompose later.
    """

    def __init__(self, calls: Sequence[FloatCall], like: ExportedProgram | None) -> None:
        program = _exported(calls)
        if like is not None and like.dialect == "EDGE":
            skip = not getattr(like.verifier(), "use_dim_order", True)
            config = EdgeCompileConfig(_skip_dim_order=skip)
            programs = [to_edge(program, compile_config=config).exported_program()]
        else:
            programs = [program.run_decompositions(), program]
        self._sources = [_Source(p) for p in programs]
        self._spans: list[tuple[int, int, int, int]] = []
        first = start = 0
        for call in calls:
            inputs, results = len(call.inputs), 2 if call.wants_others else 1
            if call.wants_others:
                assert call.spec.fusion is not None
                results = call.spec.fusion.results
            self._spans.append((first, first + inputs, start, start + results))
            first, start = first + inputs, start + results
        self._calls = list(calls)

    def write(self, gm: GraphModule, before: Node, index: int) -> list[Node]:
        """Copy the calls of one FloatCall in front of `before`; its results."""
        call = self._calls[index]
        first, last, start, stop = self._spans[index]
        source = next(
            (s for s in self._sources[:-1] if s.contains(call.spec, start, stop)),
            self._sources[-1],
        )
        for place, node in zip(source.inputs[first:last], call.inputs, strict=True):
            source.mapping[place] = node
        return [source.write(gm, before, value) for value in source.results[start:stop]]


def _exported(calls: Sequence[FloatCall]) -> ExportedProgram:
    inputs = [node for call in calls for node in call.inputs]
    examples, dynamic = [], []
    for node in inputs:
        value = graph.val_of(node)
        sizes = [s if isinstance(s, int) else s.node.hint for s in value.shape]
        strides = [s if isinstance(s, int) else s.node.hint for s in value.stride()]
        with torch.utils._python_dispatch._disable_current_modes():
            examples.append(torch.empty_strided(sizes, strides, dtype=value.dtype))
        axes = {i: Dim.AUTO for i, s in enumerate(value.shape) if not isinstance(s, int)}
        dynamic.append(axes or None)
    with torch.no_grad():
        return torch.export.export(
            _Together(calls), tuple(examples), dynamic_shapes={"values": tuple(dynamic)}
        )


class _Source:
    """An exported graph that parts are copied from."""

    def __init__(self, program: ExportedProgram) -> None:
        gm = graph.unlifted(program)
        self.gm = gm
        self.inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
        self.results: list[Node] = list(_output(gm).args[0])  # type: ignore[arg-type]
        self.mapping: dict[Node, Node] = {}

    def contains(self, spec: OpSpec, start: int, stop: int) -> bool:
        """True if fusion will find the operator in what computes the results [start, stop)."""
        restored = copy.deepcopy(self.gm)
        restore_linear(restored)
        results: Any = _output(restored).args[0]
        waiting, seen = list(results[start:stop]), set()
        while waiting:
            node = waiting.pop()
            if any(found is spec for found, _ in registry.anchors_of(graph.op_of(node))):
                return True
            waiting += [n for n in node.all_input_nodes if n not in seen]
            seen.update(node.all_input_nodes)
        return False

    def write(self, gm: GraphModule, before: Node, wanted: Node) -> Node:
        """Copy what computes `wanted` in front of `before`; each node is copied once."""
        if wanted in self.mapping:
            return self.mapping[wanted]
        if wanted.op == "get_attr":
            value = graph.fetch_attr(self.gm, str(wanted.target))
            new = graph.add_constant(gm, before, value, "fused_quant_constant")
        else:
            for source in wanted.all_input_nodes:
                self.write(gm, before, source)
            if graph.op_of(wanted) in _COPIES and "memory_format" not in wanted.kwargs:
                new = self.mapping[wanted.all_input_nodes[0]]
            else:
                args = torch.fx.map_arg(wanted.args, self.mapping.__getitem__)
                kwargs = torch.fx.map_arg(wanted.kwargs, self.mapping.__getitem__)
                new = insert(gm, before, wanted.target, args, kwargs)
        self.mapping[wanted] = new
        return new


def _output(gm: GraphModule) -> Node:
    return next(node for node in gm.graph.nodes if node.op == "output")
