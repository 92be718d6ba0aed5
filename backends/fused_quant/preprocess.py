# SPDX-License-Identifier: BSD-3-Clause
"""`FusedQuantBackend.preprocess`: a claimed region of an edge program becomes a payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from executorch.exir._serialize._named_data_store import NamedDataStore, NamedDataStoreOutput
from executorch.exir.backend.backend_details import (
    BackendDetails,
    CompileSpec,
    ExportedProgram,
    PreprocessResult,
)

from fused_quant import graph, memory_plan, payload
from fused_quant.fold_tables import fold_tables
from fused_quant.fuse import fuse_graph
from fused_quant.lowered import LoweredProgram
from fused_quant.lowering import lower_graph
from fused_quant.payload_check import ALIGNMENT
from fused_quant.rebase import rebase
from fused_quant.sharing import share_constants
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
    fold_tables(lowered)
    memory_plan.plan_memory(lowered)
    return lowered


def _named_data(constants: Mapping[str, bytes]) -> NamedDataStoreOutput | None:
    """What ExecuTorch is to store once for all payloads that name it."""
    if not constants:
        return None
    store = NamedDataStore()
    for key, data in constants.items():
        store.add_named_data(key, data, alignment=ALIGNMENT)
    return store.get_named_data_store_output()


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

    @classmethod
    def preprocess_multimethod(
        cls,
        edge_programs: dict[str, list[ExportedProgram]],
        compile_specs: dict[str, list[list[CompileSpec]]],
    ) -> dict[str, list[PreprocessResult]]:
        """Serialize all regions of all methods; constants they have in common are stored once.

        A program whose regions share nothing gets the payloads that `preprocess` makes. ValueError
        like there, or naming the method whose compile specs do not match its regions.
        """
        lowered: list[tuple[str, LoweredProgram]] = []
        for method, regions in edge_programs.items():
            specs = compile_specs.get(method, [])
            if len(specs) != len(regions):
                raise ValueError(
                    f"method {method!r}: got {len(specs)} lists of compile specs, expected one "
                    f"for each of {len(regions)} regions"
                )
            for region, spec in zip(regions, specs, strict=True):
                lowered.append((method, lower_program(region, _target_of(spec))))
        results: dict[str, list[PreprocessResult]] = {method: [] for method in edge_programs}
        constants = share_constants([program for _, program in lowered])
        for (method, program), shared in zip(lowered, constants, strict=True):
            result = PreprocessResult(
                processed_bytes=payload.serialize(program), data_store_output=_named_data(shared)
            )
            results[method].append(result)
        return results
