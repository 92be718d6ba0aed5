# SPDX-License-Identifier: BSD-3-Clause
"""What the delegate takes of a program, and why not the rest.

The program is copied and fused exactly as `preprocess` will do it; every node of the fused copy
that the runtime can run is a unit, and remembers the nodes of the program it stands for. Units are
grouped into convex, acyclic partitions.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import torch
from executorch.exir.backend.backend_details import ExportedProgram
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.fuse import fuse_graph
from fused_quant.grouping import group
from fused_quant.lowering import site_of
from fused_quant.ops import registry
from fused_quant.ops.movement import SPLITS
from fused_quant.reasons import Reason
from fused_quant.rebase import rebase
from fused_quant.target import Target

_BOUNDARY = (graph.QUANTIZE, graph.DEQUANTIZE)
_EDGES = (
    *_BOUNDARY,
    graph.QUANTIZE_CHANNEL,
    graph.DEQUANTIZE_CHANNEL,
    graph.QUANTIZE_TENSOR,
    graph.DEQUANTIZE_TENSOR,
)
_SPLIT = Reason("partition", "shares a node with another partition", "", "one partition")
_IDLE = Reason("no_compute", "only quantize and dequantize", "", "an operator between them")


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A node that stays outside the delegate: its name and operator in the program, and why.

    `computes` is false for what only changes the form of data: quantize, dequantize, views.
    """

    node: str
    operator: str
    reason: Reason
    computes: bool = True


@dataclasses.dataclass(frozen=True)
class Claims:
    """Partition of each claimed node of a program, and a refusal for each other call."""

    partitions: dict[str, int]
    refusals: tuple[Refusal, ...]


def claim(program: ExportedProgram, target: Target) -> Claims:
    """Decide without touching the program; never raises for a node, but records a `Refusal`."""
    registry.load()
    units = _Units(program, target)
    tags = _partitions(units, target)
    refusals = []
    for node in program.graph.nodes:
        op = graph.op_of(node)
        if op is None or op is graph.GETITEM or node.name in tags:
            continue
        unknown = Reason("operator", "not part of a quantized pattern", str(op))
        reason = units.reasons.get(node.name, unknown)
        refusals.append(Refusal(node.name, str(op), reason, computes(node)))
    return Claims(tags, tuple(refusals))


def _judge(gm: GraphModule, node: Node, target: Target) -> Reason | None:
    """A reason why a node of the fused copy cannot be claimed."""
    spec = registry.spec_of(graph.op_of(node))
    if spec is None:
        return Reason("operator", "operator without a kernel", str(node.target), "see the table")
    if spec.runtime is None:
        return Reason("kernel", "no runtime kernel yet", spec.qualified_name)
    try:
        return spec.runtime.supported(site_of(gm, node), target)
    except (ValueError, KeyError) as error:
        return Reason("shape", str(error))


def computes(node: Node) -> bool:
    """False for what only changes the form of data: quantize, dequantize, views, and non-calls."""
    op = graph.op_of(node)
    if op is None or op is graph.GETITEM:
        return False
    spec = registry.spec_of(op)
    if op in _EDGES or "quantize_affine" in str(op):
        return False
    return not (spec is not None and spec.moves_data)


def _is_edge(node: Node) -> bool:
    return graph.op_of(node) in _EDGES


class _Units:
    """Units of one program and the reasons for everything else.

    A fused node that is refused gives its quantize and dequantize nodes back: folding is repeated
    without it, so that the operators around it are seen as they are in the program.
    """

    def __init__(self, program: ExportedProgram, target: Target) -> None:
        self.program = program
        self.reasons: dict[str, Reason] = {}
        self.calls = {node.name for node in program.graph.nodes if node.op == "call_function"}
        self.computing = {node.name for node in program.graph.nodes if computes(node)}
        self.apart: set[str] = set()  # computing nodes that are not folded into anything
        while not self._collect(program, target):
            pass

    def _collect(self, program: ExportedProgram, target: Target) -> bool:
        """Fold and judge; False if there are more nodes to set apart than before."""
        self.gm = graph.unlifted(program)
        self.nodes: list[Node] = []
        refused: set[str] = set()
        fusion_reasons = fuse_graph(self.gm, self._is_folded if self.apart else None)
        rebase(self.gm)
        for node in graph.calls(self.gm):
            if graph.op_of(node) is graph.GETITEM:
                continue
            reason = fusion_reasons.get(node.name) or _judge(self.gm, node, target)
            if reason is None:
                self.nodes.append(node)
                continue
            spec = registry.spec_of(graph.op_of(node))
            if spec is not None and spec.fusion is not None:
                refused.update(self.computing.intersection(graph.origins(node)))
            for origin in graph.origins(node):
                self.reasons.setdefault(origin, reason)
        done = refused <= self.apart
        self.apart |= refused
        return done

    def _is_folded(self, node: Node) -> bool:
        return self.apart.isdisjoint(graph.origins(node))

    def drop(self, nodes: set[Node], reason: Reason) -> None:
        """Stop claiming units, and what else stands for the same computation."""
        names = {name for node in nodes for name in graph.origins(node)} & self.computing
        nodes = nodes | {n for n in self.nodes if not names.isdisjoint(graph.origins(n))}
        self.nodes = [unit for unit in self.nodes if unit not in nodes]
        for node in nodes:
            for origin in graph.origins(node):
                self.reasons[origin] = reason


def _groups(units: _Units, target: Target) -> list[list[Node]]:
    """Partitions in graph order; long ones cut into even runs, which stay convex and acyclic."""
    groups = []
    for members in group(units.gm, set(units.nodes)):
        runs = math.ceil(len(members) / target.partition_units)
        ends = [round(len(members) * run / runs) for run in range(runs + 1)]
        groups += [members[i:j] for i, j in itertools.pairwise(ends)]
    return groups


def _torn(units: _Units, groups: list[list[Node]], tags: dict[str, int]) -> set[Node]:
    """Units that stand for a split or for computed indices which others outside still read.

    Such a node vanishes in its partition: it must not be needed anywhere else.
    """
    torn = {
        node.name
        for node in units.program.graph.nodes
        if node.name in tags
        and (graph.op_of(node) in SPLITS or _is_integer(node))
        and any(tags.get(user.name) != tags[node.name] for user in node.users)
    }
    members = itertools.chain.from_iterable(groups)
    return {unit for unit in members if torn.intersection(graph.origins(unit))} if torn else set()


def _crossed(units: _Units, groups: list[list[Node]], tags: dict[str, int]) -> set[Node]:
    """Units by which a value leaves a partition of the program and comes back into it.

    The fused copy has no such path, but its order can differ from the program's: a clamp behind a
    movement stands in front of it there. Once the clamp is refused, the movement must not be taken.
    """
    exits: dict[str, dict[int, set[str]]] = {}  # node -> partition left on a path -> where it left
    leaving: set[str] = set()
    tags = dict(tags)
    for node in units.program.graph.nodes:
        left: dict[int, set[str]] = {}
        if graph.op_of(node) is graph.GETITEM and node.args[0].name in tags:
            tags.setdefault(node.name, tags[node.args[0].name])  # it goes where its tuple is made
        tag = tags.get(node.name)
        for source in node.all_input_nodes:
            for index, names in exits.get(source.name, {}).items():
                left.setdefault(index, set()).update(names)
            index_of_source = tags.get(source.name)
            if index_of_source is not None and index_of_source != tag:
                left.setdefault(index_of_source, set()).add(source.name)
        if tag is not None and tag in left:
            leaving |= left.pop(tag)
        exits[node.name] = left
    members = itertools.chain.from_iterable(groups)
    return {unit for unit in members if leaving.intersection(graph.origins(unit))}


def _is_integer(node: Node) -> bool:
    """True for computed indices; what reads codes has an integer result of the delegate's own."""
    spec = registry.spec_of(graph.op_of(node))
    if spec is not None and spec.reads_codes:
        return False
    val = node.meta.get("val")
    return isinstance(val, torch.Tensor) and val.dtype in (torch.int32, torch.int64)


def _constant_chains(units: _Units, tags: dict[str, int]) -> dict[str, int]:
    """Partition of calls that the fused copy has folded into a constant of one partition.

    They depend on constants alone, so they join it without a cycle. What other nodes read too stays
    outside, and gives the delegate an input.
    """
    chains: dict[str, set[int | None]] = {}
    for constant in units.gm.graph.nodes:
        if constant.op == "get_attr":
            readers = [name for user in constant.users for name in graph.origins(user)]
            users = {tags.get(name) for name in readers if name in units.calls}
            for name in graph.origins(constant):
                if name in units.calls and name not in tags:
                    chains.setdefault(name, set()).update(users)
    joined = {name: users.pop() for name, users in chains.items() if len(users) == 1}
    found = {name: index for name, index in joined.items() if index is not None}
    nodes = [node for node in units.program.graph.nodes if node.name in found]
    for node in reversed(nodes):  # users first
        index = found[node.name]
        if any(tags.get(u.name, found.get(u.name)) != index for u in node.users):
            del found[node.name]
    return found


def _partitions(units: _Units, target: Target) -> dict[str, int]:
    """Program node name -> partition; drops units until no node is in two partitions."""
    while True:
        groups = _groups(units, target)
        idle = {n for members in groups for n in members if all(map(_is_edge, members))}
        tags: dict[str, int] = {}
        conflicting: set[Node] = set()
        for index, members in enumerate(groups):
            for node in members:
                if node in idle:
                    continue
                # Constants do not count: ExecuTorch gives each partition its own.
                names = [name for name in graph.origins(node) if name in units.calls]
                if any(tags.get(name, index) != index for name in names):
                    conflicting.add(node)
                    continue
                tags.update(dict.fromkeys(names, index))
        conflicting |= _torn(units, groups, tags) or _crossed(units, groups, tags)
        if not idle and not conflicting:
            return tags | _constant_chains(units, tags)
        units.drop(conflicting, _SPLIT)
        units.drop(idle, _IDLE)
