# SPDX-License-Identifier: BSD-3-Clause
"""`FusedQuantPartitioner`: which nodes of an edge program the delegate takes, and why not the rest.

The program is copied and fused exactly as `preprocess` will do it; every node of the fused copy
that the runtime can run is a unit, and remembers the nodes of the program it stands for. Units are
grouped into convex, acyclic partitions and the program's nodes are tagged.
"""

from __future__ import annotations

import dataclasses

import executorch.kernels.quantized  # noqa: F401  # out variants of what no delegate takes
import torch
from executorch.exir.backend.backend_details import ExportedProgram
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.fuse import fuse_graph
from fused_quant.grouping import group
from fused_quant.lowering import site_of
from fused_quant.ops import registry
from fused_quant.preprocess import FusedQuantBackend, compile_specs
from fused_quant.reasons import Reason
from fused_quant.rebase import rebase
from fused_quant.target import Target, resolve_target

_BOUNDARY = (graph.QUANTIZE, graph.DEQUANTIZE)


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A node that stays outside the delegate: its name and operator in the program, and why."""

    node: str
    operator: str
    reason: Reason


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


def _is_compute(node: Node) -> bool:
    spec = registry.spec_of(graph.op_of(node))
    return spec is not None and not spec.moves_data and graph.op_of(node) not in _BOUNDARY


class _Claims:
    """Units of one program and the reasons for everything else."""

    def __init__(self, program: ExportedProgram, target: Target) -> None:
        self.gm = graph.unlifted(program)
        self.reasons: dict[str, Reason] = {}
        self.calls = {n.name for n in program.graph.nodes if n.op == "call_function"}
        self.units: list[Node] = []
        fusion_reasons = fuse_graph(self.gm)
        rebase(self.gm)
        for node in graph.calls(self.gm):
            if graph.op_of(node) is graph.GETITEM:
                continue
            reason = fusion_reasons.get(node.name) or _judge(self.gm, node, target)
            if reason is None:
                self.units.append(node)
                continue
            for origin in graph.origins(node):
                self.reasons.setdefault(origin, reason)

    def drop(self, nodes: set[Node], reason: Reason) -> None:
        """Stop claiming units."""
        self.units = [unit for unit in self.units if unit not in nodes]
        for node in nodes:
            for origin in graph.origins(node):
                self.reasons[origin] = reason


_SPLIT = Reason("partition", "shares a node with another partition", "", "one partition")
_IDLE = Reason("no_compute", "only boundary or data-movement operators", "", "some computation")


def _tags(claims: _Claims) -> dict[str, int]:
    """Program node name -> partition; drops units until no node is in two partitions."""
    while True:
        groups = group(claims.gm, set(claims.units))
        idle = {n for members in groups for n in members if not any(map(_is_compute, members))}
        tags: dict[str, int] = {}
        conflicting: set[Node] = set()
        for index, members in enumerate(groups):
            for node in members:
                if node in idle:
                    continue
                # Constants do not count: ExecuTorch gives each partition its own.
                names = [name for name in graph.origins(node) if name in claims.calls]
                if any(tags.get(name, index) != index for name in names):
                    conflicting.add(node)
                    continue
                tags.update(dict.fromkeys(names, index))
        if not idle and not conflicting:
            return tags
        claims.drop(conflicting, _SPLIT)
        claims.drop(idle, _IDLE)


class FusedQuantPartitioner(Partitioner):
    """Claims quantized regions for the fused_quant delegate.

    target: a name or `Target`; None makes a payload that runs on every target. After lowering,
    `refusals` lists every node that stayed outside in the last program seen, with its reason.
    """

    def __init__(self, target: str | Target | None = None) -> None:
        super().__init__()
        self.target = resolve_target(target)
        self.delegation_spec = DelegationSpec(
            FusedQuantBackend.__name__, compile_specs(self.target)
        )
        self.refusals: list[Refusal] = []

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[torch._ops.OpOverload], None]:
        """Operators to keep whole for `to_edge_transform_and_lower`.

        None: the decomposed spellings are understood too.
        """
        return ([], None)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag claimed nodes; never raises for a node, but records a `Refusal`."""
        registry.load()
        claims = _Claims(exported_program, self.target)
        tags = _tags(claims)
        partition_tags: dict[str, DelegationSpec] = {}
        self.refusals = []
        for node in exported_program.graph.nodes:
            if node.op != "call_function":
                continue
            if node.name in tags:
                tag = f"fused_quant_{tags[node.name]}"
                node.meta["delegation_tag"] = tag
                partition_tags[tag] = self.delegation_spec
            elif graph.op_of(node) is not graph.GETITEM:
                unknown = Reason("operator", "not part of a quantized pattern", str(node.target))
                reason = claims.reasons.get(node.name, unknown)
                self.refusals.append(Refusal(node.name, str(graph.op_of(node)), reason))
        _tag_getitems(exported_program)
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, partition_tags)


def _tag_getitems(program: ExportedProgram) -> None:
    """A getitem belongs where its tuple is made."""
    for node in program.graph.nodes:
        if graph.op_of(node) is graph.GETITEM:
            tag = node.args[0].meta.get("delegation_tag")
            if tag is not None:
                node.meta["delegation_tag"] = tag
