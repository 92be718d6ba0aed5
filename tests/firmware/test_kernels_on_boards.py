# SPDX-License-Identifier: BSD-3-Clause
"""Every case of tests/cases and the MLPerf Tiny models on every board, compared there bit for bit.

One file of cases serves all boards, and each runs it in one go.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from examples import pipeline
from firmware.board import BOARDS, CaseResult, run_case_file, run_cases
from firmware.cases import Case, write_cases
from fused_quant import native
from fused_quant import schema_generated as schema
from fused_quant.payload import serialize
from tests.firmware.conftest import SMALL, SharedFile, require
from tests.models.conftest import built, mlperf_tiny_names
from tests.python.payload_samples import SAMPLES
from tests.support.builders import build

CASES = Path(__file__).parents[1] / "cases"
OPCODES = tuple(sorted(path.stem for path in CASES.glob("*.py") if path.stem != "__init__"))
HIFI_OPCODES = ("conv2d", "linear")
XTENSA_HIFI = 1  # the enumerator of runtime/isa.h
INVALID_COMPATIBILITY, INVALID_PROGRAM, INVALID_ARGUMENT = 1, 2, 6

pytestmark = pytest.mark.firmware


@functools.cache
def grid_cases(opcodes: Sequence[str] = OPCODES) -> tuple[Case, ...]:
    """All grid cases and pitfalls; the pitfalls and every third one with operands in the arena."""
    cases = []
    for opcode in opcodes:
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


def model_cases() -> list[Case]:
    """The four MLPerf Tiny models, whole .pte files, against the eager fused programs."""
    cases = []
    for name in mlperf_tiny_names():
        model = built(name)
        for x in model.inputs[:1]:
            expected = pipeline.run_eager(model.fused, [x], "eager", progress=False).numpy()
            pte = bytes(model.program.buffer)
            cases.append(Case(f"model-{name}", pte, [x.numpy()], [expected], is_program=True))
    return cases


def misaligned_cases() -> list[Case]:
    """Payloads and arenas at every place between two multiples of 16."""
    cases = [
        Case(f"{name}-{field}-{shift}", sample_case(name).payload, (), (), INVALID_ARGUMENT)
        for name in ("linear", "cast")
        for field in ("payload_shift", "arena_shift")
        for shift in range(1, 16)
    ]
    for case in cases:
        _, field, shift = case.name.rsplit("-", 2)
        setattr(case, field, int(shift))
    return cases


def damaged_cases() -> list[Case]:
    """A payload cut short in many places, and one of another format."""
    payload = sample_case("conv2d").payload
    cases = [
        Case(f"cut-{size}", payload[:size], expected_code=INVALID_PROGRAM)
        for size in range(8, len(payload), 37)
    ]
    other = payload[:4] + b"FQP0" + payload[8:]
    return [*cases, Case("identifier", other, expected_code=INVALID_COMPATIBILITY)]


def wrong_cases() -> list[Case]:
    """Cases that must fail, for the comparison on the target must when it should."""
    wrong = sample_case("conv2d")
    output = wrong.outputs[0].copy()
    output.flat[-1] ^= 1
    wrong.outputs = [output]
    expects_error = sample_case("linear")
    expects_error.expected_code = INVALID_PROGRAM
    too_small = sample_case("linear")
    too_small.outputs = [too_small.outputs[0].flat[:-1]]
    for case, kind in ((wrong, "byte"), (expects_error, "code"), (too_small, "size")):
        case.name = f"wrong-{kind}"
    return [wrong, expects_error, too_small]


def write_everything(path: Path) -> None:
    """The container of all cases, and their names beside it."""
    samples = [sample_case(name, seed) for name in SAMPLES for seed in range(3)]
    cases = [*grid_cases(), *samples, *misaligned_cases(), *damaged_cases(), *wrong_cases()]
    cases += model_cases()
    path.with_name("names.json").write_text(json.dumps([case.name for case in cases]))
    write_cases(path, cases)


def test_everything_on_board(every_board: str, shared_file: SharedFile) -> None:
    path = shared_file("cases.bin", write_everything)
    names = json.loads(path.with_name("names.json").read_text())
    results = run_case_file(every_board, path, names)
    right = [result for result in results if not result.name.startswith("wrong-")]
    assert failures(right) == []
    assert len(right) > 3000
    wrong = {result.name: result for result in results if result.name.startswith("wrong-")}
    assert [result.passed for result in wrong.values()] == [False, False, False]
    assert wrong["wrong-byte"].report["different_bytes"] == "1"
    assert {result.name.split("-")[0] for result in right} >= set(OPCODES)
    assert sum(result.name.startswith("model-") for result in right) == 4
    executed = [result for result in right if "instructions" in result.report]
    kernels = {result.report["kernel"] for result in executed}
    for opcode in OPCODES:
        assert any(kernel.startswith(opcode) for kernel in kernels), opcode
    for result in executed:
        assert result.report["instructions_again"] == result.report["instructions"]
        assert (result.instructions > 0) == BOARDS[every_board].is_bare_metal


def test_hifi_kernels_on_xtensa(shared_file: SharedFile) -> None:
    """The kernels on HiFi operations, emulated on a core without them."""
    board = require("kc705-lx106")

    def write_hifi(path: Path) -> None:
        cases = [dataclasses.replace(case, isa=XTENSA_HIFI) for case in grid_cases(HIFI_OPCODES)]
        path.with_name("hifi-names.json").write_text(json.dumps([case.name for case in cases]))
        write_cases(path, cases)

    path = shared_file("hifi.bin", write_hifi)
    names = json.loads(path.with_name("hifi-names.json").read_text())
    results = run_case_file(board, path, names)
    assert failures(results) == []
    used = {result.report["kernel"] for result in results}
    assert {f"{opcode}_s8_xtensa_hifi" for opcode in HIFI_OPCODES} <= used


def test_small_programs_on_a_small_board() -> None:
    """16 KB of RAM hold the smaller ones."""
    cases = [sample_case(name) for name in SAMPLES]
    results = run_cases(require(SMALL), cases)
    assert failures(results) == []


def test_instruction_counts_repeat(board: str) -> None:
    cases = [sample_case(name) for name in SAMPLES]
    first, second = run_cases(board, cases), run_cases(board, cases)
    assert [r.instructions for r in first] == [r.instructions for r in second]
