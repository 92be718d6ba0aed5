# SPDX-License-Identifier: BSD-3-Clause
"""`relifted`: a rewritten copy of a program's graph becomes a program again."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
from executorch.exir.passes.replace_aten_with_edge_pass import aten_to_edge, should_lower_to_edge
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node

from fused_quant import graph


def relifted(program: ExportedProgram, gm: GraphModule) -> ExportedProgram:
    """A program with the graph `gm`, which was made by `graph.unlifted(program)` and then changed.

    Constants that are still read keep their names and places; new ones become lifted tensors; the
    others are dropped. In an edge program operators become edge operators and views copies.
    """
    lifter = _Lifter(program, gm)
    new = lifter.build()
    result = ExportedProgram(
        root=new,
        graph=new.graph,
        graph_signature=lifter.signature(),
        state_dict={k: v for k, v in program.state_dict.items() if k not in lifter.dropped},
        range_constraints=copy.deepcopy(program.range_constraints),
        module_call_graph=copy.deepcopy(program.module_call_graph),
        example_inputs=program.example_inputs,
        constants={
            **{k: v for k, v in program.constants.items() if k not in lifter.dropped},
            **lifter.added,
        },
        verifiers=[program.verifier],
    )
    result.graph_module.meta.update(program.graph_module.meta)
    return result


class _Lifter:
    def __init__(self, program: ExportedProgram, gm: GraphModule) -> None:
        self.program, self.gm = program, gm
        self.edge = program.dialect == "EDGE"
        self.graph = Graph()
        self.root = torch.nn.Module()
        self.mapping: dict[Node, Node] = {}
        self.specs: list[InputSpec] = []
        self.added: dict[str, torch.Tensor] = {}
        self.dropped: set[str] = set()
        self.constants: dict[str, Node] = {}  # attribute of gm -> placeholder

    def build(self) -> GraphModule:
        self._placeholders()
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                continue
            attribute = str(node.target)
            if node.op == "get_attr" and attribute in self.constants:
                self.mapping[node] = self.constants[attribute]
                continue
            new = self.graph.node_copy(node, self.mapping.__getitem__)
            new.meta = {k: v for k, v in node.meta.items() if k != graph.ORIGIN}
            if node.op == "get_attr":  # a submodule: a delegate, a branch
                setattr(self.root, attribute, graph.fetch_attr(self.gm, attribute))
            elif node.op == "call_function" and self.edge:
                new.target = _edge_target(node.target)
            self.mapping[node] = new
        return GraphModule(self.root, self.graph)

    def _placeholders(self) -> None:
        attributes = self.gm.meta[graph.LIFTED]  # placeholder's name -> attribute
        read = {str(node.target): node for node in self.gm.graph.nodes if node.op == "get_attr"}
        kept = {
            graph.origins(node)[0]: node for node in self.gm.graph.nodes if node.op == "placeholder"
        }
        added = [
            attribute
            for attribute in read
            if attribute not in attributes.values()
            and isinstance(graph.fetch_attr(self.gm, attribute), torch.Tensor)
        ]
        names = [node.name for node in self.program.graph.nodes if node.op == "placeholder"]
        for name, spec in zip(names, self.program.graph_signature.input_specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                self._add(added, read)
                added = []
            if name not in attributes:
                self.mapping[kept[name]] = self._placeholder(kept[name], name)
                self.specs.append(spec)
            elif attributes[name] in read:
                node = read[attributes[name]]
                self.constants[attributes[name]] = self._placeholder(node, name)
                self.specs.append(spec)
            else:
                assert spec.target is not None
                self.dropped.add(spec.target)
        self._add(added, read)

    def _placeholder(self, like: Node, name: str) -> Node:
        node = self.graph.placeholder(name)
        node.name = (
            name  # the graph would rename an argument that is called like a builtin: `input`
        )
        node.meta = {k: v for k, v in like.meta.items() if k != graph.ORIGIN}
        return node

    def _add(self, attributes: list[str], read: dict[str, Node]) -> None:
        for attribute in attributes:
            target = attribute
            while target in self.program.constants or target in self.program.state_dict:
                target += "_"
            node = self._placeholder(read[attribute], f"c_{target}")
            self.constants[attribute] = node
            argument = TensorArgument(name=node.name)
            self.specs.append(InputSpec(InputKind.CONSTANT_TENSOR, argument, target))
            self.added[target] = graph.fetch_attr(self.gm, attribute)

    def signature(self) -> ExportGraphSignature:
        (output,) = [node for node in self.graph.nodes if node.op == "output"]
        results = output.args[0]
        specs = []
        for spec, value in zip(
            self.program.graph_signature.output_specs,
            results,
            strict=True,
        ):
            if isinstance(value, Node) and value.name != getattr(spec.arg, "name", None):
                argument: Any = dataclasses.replace(spec.arg, name=value.name)
                spec = dataclasses.replace(spec, arg=argument)
            specs.append(spec)
        return ExportGraphSignature(self.specs, specs)


def _edge_target(target: Any) -> Any:
    """The edge operator of a torch operator; a view's copying twin, since edge has no views."""
    if not isinstance(target, torch._ops.OpOverload) or not should_lower_to_edge(target):
        return target
    schema = target._schema
    returns_view = any(r.alias_info is not None for r in schema.returns)
    if target.namespace == "aten" and returns_view and not schema.is_mutable:
        name = schema.name.split("::")[1]
        twin = getattr(torch.ops.aten, f"{name}_copy", None)
        overload = target._overloadname
        if twin is not None and overload in twin.overloads():
            target = getattr(twin, overload)
    return aten_to_edge(target)
