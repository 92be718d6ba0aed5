# SPDX-License-Identifier: BSD-3-Clause
"""Every case of tests/cases on every board: the same vectors as on the host, compared there."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firmware.board import CaseResult, run_cases
from firmware.cases import Case
from fused_quant import native
from fused_quant import schema_generated as schema
from fused_quant.payload import serialize
from tests.python.payload_samples import SAMPLES
from tests.support.builders import build

CASES = Path(__file__).parents[1] / "cases"
OPCODES = sorted(path.stem for path in CASES.glob("*.py") if path.stem != "__init__")
INVALID_COMPATIBILITY, INVALID_PROGRAM, INVALID_ARGUMENT = 1, 2, 6

pytestmark = pytest.mark.firmware


@functools.cache
def grid_cases() -> tuple[Case, ...]:
    """All grid cases and pitfalls; the pitfalls and every third one with operands in the arena."""
    cases = []
    for opcode in OPCODES:
        module = importlib.import_module(f"tests.cases.{opcode}")
        parameters = [(f"grid-{n}", p, n % 3 == 0) for n, p in enumerate(module.GRID)]
        parameters += [
            (f"{kind}-{n}", p, True)
            for kind, several in module.PITFALLS.items()
            for n, p in enumerate(several)
        ]
        for name, fields, through_arena in parameters:
            built = build(opcode, fields)
            cases.append(
                Case(
                    f"{opcode}-{name}",
                    built.payload(through_arena),
                    built.inputs,
                    [built.expected],
                )
            )
    return tuple(cases)


def sample_case(name: str, seed: int = 0) -> Case:
    """A small program with random inputs and the outputs of the host library."""
    program = SAMPLES[name]()
    payload = serialize(program)
    rng = np.random.default_rng(seed)
    inputs: list[npt.NDArray[Any]] = []
    for index in program.inputs:
        tensor = program.tensors[index]
        if tensor.dtype == "f32":
            inputs.append(rng.normal(0, 9, tensor.shape).astype(np.float32))
        else:
            inputs.append(rng.integers(-128, 128, tensor.shape, dtype=np.int8))
    return Case(name, payload, inputs, native.run_payload(payload, inputs))


def failures(results: list[CaseResult]) -> list[str]:
    return [f"{result.name}: {result.report}" for result in results if not result.passed]


def test_every_operator_has_cases() -> None:
    wire = {name for name in vars(schema.OpCode) if not name.startswith("_")}
    assert set(OPCODES) == wire
    assert {case.name.split("-")[0] for case in grid_cases()} == wire


def test_grid_on_board(board: str) -> None:
    cases = grid_cases()
    results = run_cases(board, cases)
    assert failures(results) == []
    assert len(results) == len(cases) > 3000
    kernels = {result.report["kernel"] for result in results}
    for opcode in OPCODES:
        assert any(kernel.startswith(opcode) for kernel in kernels), opcode


def test_board_equals_host_library(board: str) -> None:
    results = run_cases(board, [sample_case(name, seed) for name in SAMPLES for seed in range(3)])
    assert failures(results) == []


def test_instruction_counts_repeat(board: str) -> None:
    cases = [sample_case(name) for name in SAMPLES]
    first, second = run_cases(board, cases), run_cases(board, cases)
    assert [r.instructions for r in first] == [r.instructions for r in second]
    for result in first:
        assert result.report["instructions_again"] == result.report["instructions"]
        assert result.instructions > 0


def test_misaligned_blocks_are_refused(board: str) -> None:
    cases = [
        Case(f"{name}-{field}-{shift}", sample_case(name).payload, (), (), INVALID_ARGUMENT)
        for name in ("linear", "cast")
        for field in ("payload_shift", "arena_shift")
        for shift in range(1, 16)
    ]
    for case in cases:
        _, field, shift = case.name.rsplit("-", 2)
        setattr(case, field, int(shift))
    assert failures(run_cases(board, cases)) == []


def test_damaged_payloads_are_refused(board: str) -> None:
    payload = sample_case("conv2d").payload
    cases = [
        Case(f"cut-{size}", payload[:size], expected_code=INVALID_PROGRAM)
        for size in range(8, len(payload), 37)
    ]
    other = payload[:4] + b"FQP0" + payload[8:]
    cases.append(Case("identifier", other, expected_code=INVALID_COMPATIBILITY))
    assert failures(run_cases(board, cases)) == []


def test_differences_are_noticed(board: str) -> None:
    """The comparison on the target must fail when it should."""
    right = sample_case("conv2d")
    wrong = sample_case("conv2d")
    output = wrong.outputs[0].copy()
    output.flat[-1] ^= 1
    wrong.outputs = [output]
    expects_error = sample_case("linear")
    expects_error.expected_code = INVALID_PROGRAM
    too_small = sample_case("linear")
    too_small.outputs = [too_small.outputs[0].flat[:-1]]
    results = run_cases(board, [right, wrong, expects_error, too_small, right])
    assert [result.passed for result in results] == [True, False, False, False, True]
    assert results[1].report["byte"] == str(output.size - 1)
    assert results[1].report["different_bytes"] == "1"
