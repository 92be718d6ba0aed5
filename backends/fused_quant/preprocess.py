# SPDX-License-Identifier: BSD-3-Clause
"""`FusedQuantBackend.preprocess`: a claimed region of an edge program becomes a payload."""

from __future__ import annotations

from typing import final

from executorch.exir.backend.backend_details import (
    BackendDetails,
    CompileSpec,
    ExportedProgram,
    PreprocessResult,
)

from fused_quant import graph, memory_plan, payload
from fused_quant.fuse import fuse_graph
from fused_quant.lowered import LoweredProgram
from fused_quant.lowering import lower_graph
from fused_quant.rebase import rebase
from fused_quant.target import Target, resolve_target

TARGET_SPEC = "target"


def compile_specs(target: Target) -> list[CompileSpec]:
    """The compile specs that name a target."""
    return [CompileSpec(TARGET_SPEC, target.name.encode())]


def _target_of(specs: list[CompileSpec]) -> Target:
    names = [spec.value.decode() for spec in specs if spec.key == TARGET_SPEC]
    unknown = sorted({spec.key for spec in specs} - {TARGET_SPEC})
    if unknown:
        raise ValueError(f"compile specs: got {', '.join(unknown)}, supported: {TARGET_SPEC}")
    return resolve_target(names[0] if names else None)


def lower_program(program: ExportedProgram, target: Target) -> LoweredProgram:
    """Fuse, lay out, lower and place a region; every node of it must be supported."""
    gm = graph.unlifted(program)
    fuse_graph(gm)
    rebase(gm)
    lowered = lower_graph(gm, target.name)
    memory_plan.plan_memory(lowered)
    return lowered


@final
class FusedQuantBackend(BackendDetails):
    """The ahead-of-time half of the delegate; the runtime half registers under the same name."""

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram,
        compile_specs: list[CompileSpec],
    ) -> PreprocessResult:
        """Serialize a region. ValueError naming the node for anything that cannot be lowered."""
        lowered = lower_program(edge_program, _target_of(compile_specs))
        return PreprocessResult(processed_bytes=payload.serialize(lowered))
