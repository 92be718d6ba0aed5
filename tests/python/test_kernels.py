# SPDX-License-Identifier: BSD-3-Clause
"""Every kernel against numerics.py, over the cases of tests/cases.

Each case runs in memory that ends (then starts) at inaccessible pages, with inputs and payload
read-only, with other bytes in arena and output beforehand, misaligned by one element, and once
more (pitfalls and every third grid case) with its operands in an arena that other steps use.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fused_quant import schema_generated as schema
from tests.support import capi
from tests.support.builders import BUILDERS, build
from tests.support.built import Array, Built

CASES = Path(__file__).parents[1] / "cases"
OPCODES = sorted(path.stem for path in CASES.glob("*.py") if path.stem != "__init__")

# The instruction sets to ask for: those that this machine runs.
ISAS = {
    opcode: ["scalar"] + [isa for isa in ("xtensa_hifi",) if (opcode, isa) in capi.kernel_isas()]
    for opcode in OPCODES
}

FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO = 0, 0x400, 0x800, 0xC00


def cases() -> Iterator[Any]:
    """(opcode, parameters, through arena); pitfalls are named after their kind."""
    for opcode in OPCODES:
        module = importlib.import_module(f"tests.cases.{opcode}")
        for number, parameters in enumerate(module.GRID):
            arena = number % 3 == 0
            yield pytest.param(opcode, parameters, arena, id=f"{opcode}-grid-{number}")
        for kind, several in module.PITFALLS.items():
            for number, parameters in enumerate(several):
                yield pytest.param(opcode, parameters, True, id=f"{opcode}-{kind}-{number}")


def assert_same(got: Array, built: Built) -> None:
    """Bit equality, with the first difference in the message (floats are compared as bytes)."""
    expected = built.expected
    if got.tobytes() != expected.tobytes():
        different = got.view(np.uint8) != expected.view(np.uint8) if got.ndim else True
        where = np.argwhere(np.atleast_1d(different))[0]
        raise AssertionError(f"differs at byte {where}: got {got}, expected {expected}")


def run_all_ways(built: Built, isa: str = "scalar") -> list[str]:
    """Run the case every way there is; returns the kernels that ran it.

    None where `isa` has no kernel for the case, for which the scalar one would run.
    """
    plan = capi.Plan(built.payload(), isa)
    kernels = [kernel for kernel, used in plan.kernels() if used == isa]
    if isa != "scalar" and not kernels:
        return []
    assert len(kernels) == 1
    assert kernels[0].startswith(f"{built.opcode}_")
    ways = [(True, 0, 0x00), (False, 0, 0xFF), (True, 1, 0xA5), (False, 1, 0x5A)]
    for at_end, offset, fill in ways:
        assert_same(plan.execute(built.inputs, built.expected, at_end, offset, fill), built)
    plan.close()
    return kernels


def run_through_arena(built: Built, isa: str = "scalar") -> None:
    """Run with operands in the arena, twice, with different bytes in it beforehand."""
    plan = capi.Plan(built.payload(through_arena=True), isa)
    for fill in (0xFF, 0x00):
        assert_same(plan.execute(built.inputs, built.expected, fill=fill), built)
    plan.close()


@pytest.mark.parametrize(("opcode", "parameters", "through_arena"), list(cases()))
def test_kernel_equals_numerics(
    opcode: str, parameters: dict[str, Any], through_arena: bool
) -> None:
    built = build(opcode, parameters)
    for isa in ISAS[opcode]:
        ran = run_all_ways(built, isa)
        if through_arena and ran:
            run_through_arena(built, isa)


def test_emulated_kernels_run_only_when_asked_for() -> None:
    """No host has HiFi operations, so that the best there is does not use them."""
    plan = capi.Plan(build("linear", {"rows": (2,), "in_c": 5, "out_c": 3}).payload(), "")
    assert "xtensa_hifi" not in {isa for _, isa in plan.kernels()}
    plan.close()


def test_every_operator_has_cases() -> None:
    wire = {name for name in vars(schema.OpCode) if not name.startswith("_")}
    assert set(OPCODES) == wire
    assert set(BUILDERS) <= wire


def test_every_kernel_of_the_build_runs() -> None:
    ran = set()
    for opcode in OPCODES:
        module = importlib.import_module(f"tests.cases.{opcode}")
        dtypes = {parameters.get("dtype") for parameters in module.GRID}
        for dtype in dtypes:
            parameters = next(p for p in module.GRID if p.get("dtype") == dtype)
            for isa in ISAS[opcode]:
                ran.update(run_all_ways(build(opcode, parameters), isa))
    assert ran == {name for _, name in capi.kernel_table()}
    assert {"conv2d_s8_xtensa_hifi", "linear_s8_xtensa_hifi"} <= ran


@pytest.mark.parametrize("opcode", ["quantize", "dequantize"])
@pytest.mark.parametrize("mode", [FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO])
def test_rounding_does_not_depend_on_the_c_rounding_mode(opcode: str, mode: int) -> None:
    libm = ctypes.CDLL("libm.so.6")
    module = importlib.import_module(f"tests.cases.{opcode}")
    listed = [p for several in module.PITFALLS.values() for p in several][-40:]
    for parameters in (*module.GRID[:20], *listed):
        built = build(opcode, parameters)
        plan = capi.Plan(built.payload())
        assert libm.fesetround(mode) == 0
        try:
            got = plan.execute(built.inputs, built.expected)
        finally:
            libm.fesetround(FE_TONEAREST)
        assert_same(got, built)
        plan.close()


@pytest.mark.parametrize("opcode", ["quantize", "dequantize"])
def test_range_subnormals_do_not_depend_on_flush_to_zero(opcode: str) -> None:
    module = importlib.import_module(f"tests.cases.{opcode}")
    for several in module.PITFALLS.values():
        for parameters in several:
            built = build(opcode, parameters)
            plan = capi.Plan(built.payload())
            if not torch.set_flush_denormal(True):
                pytest.skip("processor: it cannot flush subnormal numbers to zero")
            try:
                got = plan.execute(built.inputs, built.expected)
            finally:
                torch.set_flush_denormal(False)
            assert_same(got, built)
            plan.close()


def test_repeat_a_thousand_runs_give_the_same_bits() -> None:
    built = build("conv2d", {"in_h": 5, "in_w": 4, "in_c": 3, "out_c": 5, "kernel": (3, 2)})
    plan = capi.Plan(built.payload(through_arena=True))
    for run in range(1000):
        assert_same(plan.execute(built.inputs, built.expected, fill=run % 256), built)
    plan.close()


def test_persistent_memory_is_what_the_payload_promises() -> None:
    for opcode in OPCODES:
        module = importlib.import_module(f"tests.cases.{opcode}")
        built = build(opcode, module.GRID[0])
        program = built.program(through_arena=True)
        plan = capi.Plan(built.payload(through_arena=True))
        assert 0 < plan.persistent_bytes <= program.persistent_bytes
        assert plan.arena_bytes >= program.arena_bytes
        plan.close()
