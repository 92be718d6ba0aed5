# SPDX-License-Identifier: BSD-3-Clause
"""`FusedQuantPartitioner`: tags the nodes of an edge program that the delegate takes."""

from __future__ import annotations

import warnings

import executorch.kernels.quantized  # noqa: F401  # out variants of what no delegate takes
import torch
from executorch.exir.backend.backend_details import ExportedProgram
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data

from fused_quant import graph
from fused_quant.claims import Claims, Refusal, claim
from fused_quant.passes.decompose import decompose_unclaimed
from fused_quant.preprocess import FusedQuantBackend, compile_specs
from fused_quant.target import Target, resolve_target


class FusedQuantPartitioner(Partitioner):
    """Claims quantized regions for the fused_quant delegate.

    target: a name or `Target`; None makes a payload that runs on every target. After lowering,
    `refusals` lists every node that stayed outside in the last program seen, with its reason;
    `fused_quant.explain` prints the same as a table.
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

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """Take apart the fused operators that no kernel runs, for `to_edge_transform_and_lower`.

        They become quantize, dequantize and the ATen operator again, which other backends and the
        portable kernels run.
        """
        claims = claim(exported_program, self.target)
        return decompose_unclaimed(exported_program, lambda node: node.name in claims.partitions)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag claimed nodes; never raises for a node, but records a `Refusal`."""
        claims = claim(exported_program, self.target)
        self.refusals = list(claims.refusals)
        self._warn_of_fused()
        partition_tags = self._tag(exported_program, claims)
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, partition_tags)

    def _warn_of_fused(self) -> None:
        """Say what must be called when a fused operator stays outside: no kernel runs it there."""
        left = [r for r in self.refusals if r.operator.startswith("fused_quant.")]
        if not left:
            return
        nodes = "; ".join(f"{r.node} ({r.operator}): {r.reason}" for r in left)
        warnings.warn(
            "fused operators stay outside the delegate. Call "
            "edge.transform([fused_quant.passes.DecomposeFusedQuant()]) before to_executorch, or "
            f"lower with to_edge_transform_and_lower, which does it. They are {nodes}",
            stacklevel=3,
        )

    def _tag(self, program: ExportedProgram, claims: Claims) -> dict[str, DelegationSpec]:
        tags: dict[str, DelegationSpec] = {}
        for node in program.graph.nodes:
            if node.name in claims.partitions:
                tag = f"fused_quant_{claims.partitions[node.name]}"
                node.meta["delegation_tag"] = tag
                tags[tag] = self.delegation_spec
            elif graph.op_of(node) is graph.GETITEM:
                # It belongs where its tuple is made.
                tag = node.args[0].meta.get("delegation_tag")
                if tag is not None:
                    node.meta["delegation_tag"] = tag
        return tags
