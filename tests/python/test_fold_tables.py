# SPDX-License-Identifier: BSD-3-Clause
"""Chains of tables and requantizes as one table: the same codes, and only where nobody can tell."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from fused_quant import inspect, memory_plan, native, payload
from fused_quant import schema_generated as schema
from fused_quant.fold_tables import fold_tables
from fused_quant.lowered import LoweredProgram, LoweredTensor, Storage

EVERY_CODE = np.arange(-128, 128, dtype=np.int8)


class _Chain:
    """A program under construction: one input of every code, steps one after the other."""

    def __init__(self, seed: int = 0, dtype: str = "s8") -> None:
        self.rng = np.random.default_rng(seed)
        self.program = LoweredProgram(target="generic")
        self.last = self.tensor(Storage.INPUT, dtype)
        self.program.tensors[self.last].location = 0
        self.program.inputs = [self.last]

    def tensor(self, storage: Storage, dtype: str = "s8", shape: tuple[int, ...] = (256,)) -> int:
        name = f"t{len(self.program.tensors)}"
        return self.program.add_tensor(LoweredTensor(name, dtype, shape, storage))

    def step(self, opcode: str, source: int | None = None, **fields: Any) -> int:
        """Append a step; a table is drawn."""
        inputs = [self.last if source is None else source]
        if opcode == "lut":
            drawn = self.rng.integers(-128, 128, 256).astype(np.int8)
            inputs.append(self.program.add_constant("table", drawn, "s8"))
        self.last = self.tensor(Storage.ARENA)
        params = schema.ElementwiseParamsT(**fields)
        name = f"{opcode}{len(self.program.ops)}"
        self.program.add_op(opcode, inputs, [self.last], params, name)
        return self.last

    def requantize(self, **others: Any) -> int:
        zeros = self.rng.integers(-128, 128, 2).tolist()
        fields: dict[str, Any] = {"clampMin": -128, "clampMax": 127, "negate": [False], **others}
        multiplier = int(self.rng.integers(2**30, 2**31))
        return self.step(
            "requantize",
            inputZeroPoint=[zeros[0]],
            multiplier=[multiplier],
            shift=[int(self.rng.integers(29, 33))],
            outputZeroPoint=zeros[1],
            **fields,
        )

    def view(self, shape: tuple[int, ...]) -> int:
        owner = self.last
        self.last = self.tensor(Storage.ARENA, "s8", shape)
        self.program.tensors[self.last].alias = owner
        return owner

    def output(self, tensor: int | None = None) -> None:
        index = self.last if tensor is None else tensor
        base = self.program.tensors[index]
        base.storage, base.location = Storage.OUTPUT, len(self.program.outputs)
        self.program.outputs.append(index)


def _run(program: LoweredProgram) -> list[np.ndarray]:
    placed = copy.deepcopy(program)
    memory_plan.plan_memory(placed)
    x = EVERY_CODE
    if placed.tensors[placed.inputs[0]].dtype == "u8":
        x = (x.astype(np.int16) + 128).astype(np.uint8)
    return native.run_payload(payload.serialize(placed), [x])


def _folded(chain: _Chain) -> LoweredProgram:
    """The program after folding, which computes the same codes."""
    wanted, program = _run(chain.program), copy.deepcopy(chain.program)
    fold_tables(program)
    for got, expected in zip(_run(program), wanted, strict=True):
        assert np.array_equal(got, expected)
    return program


@pytest.mark.parametrize("seed", range(12))
def test_a_chain_is_one_table(seed: int) -> None:
    """Over all 256 codes, with clamps, negation and a view on the way."""
    chain = _Chain(seed)
    for number in range(2 + seed % 4):
        kind = int(chain.rng.integers(4))
        if kind == 0:
            chain.step("lut")
        elif kind == 1:
            chain.requantize(negate=[True])
        else:
            low, high = sorted(chain.rng.integers(-128, 128, 2).tolist())
            chain.requantize(clampMin=low, clampMax=high)
        if number == 0:
            chain.view((4, 64))
    chain.output()
    program = _folded(chain)
    (op,) = program.ops
    assert op.opcode == "lut"
    assert op.name == " + ".join(step.name for step in chain.program.ops)
    assert len(program.tensors) == 3


def test_what_others_read_stays() -> None:
    """A second reader, and an output, see the codes in between."""
    fork = _Chain()
    first = fork.step("lut")
    fork.step("lut")
    fork.output()
    fork.step("lut", first)
    fork.output()
    assert len(_folded(fork).ops) == 3
    shown = _Chain()
    shown.step("lut")
    shown.output()
    shown.step("lut")
    shown.output()
    assert len(_folded(shown).ops) == 2


def test_only_int8_to_int8_is_a_table() -> None:
    """A requantize from uint8, and a copy, end a chain."""
    chain = _Chain(dtype="u8")
    chain.requantize()
    chain.step("lut")
    copied = chain.tensor(Storage.ARENA)
    chain.program.add_op("copy", [chain.last], [copied], schema.LayoutParamsT(), "copy")
    chain.last = copied
    chain.step("lut")
    chain.step("lut")
    chain.output()
    assert [op.opcode for op in _folded(chain).ops] == ["requantize", "lut", "copy", "lut"]


def test_equal_tables_are_stored_once() -> None:
    chain = _Chain()
    drawn = chain.rng.integers(-128, 128, 256).astype(np.int8)
    for _ in range(3):
        source = chain.program.inputs[0]
        table = chain.program.add_constant("table", drawn.copy(), "s8")
        result = chain.tensor(Storage.ARENA)
        params = schema.ElementwiseParamsT()
        chain.program.add_op("lut", [source, table], [result], params, "f")
        chain.output(result)
    memory_plan.plan_memory(chain.program)
    assert payload.read_header(payload.serialize(chain.program)).constant_bytes == 256


def test_inspect_names_the_functions() -> None:
    chain = _Chain()
    chain.step("lut")
    chain.requantize()
    chain.output()
    program = _folded(chain)
    memory_plan.plan_memory(program)
    text = inspect.to_text(inspect.inspect_payload(payload.serialize(program)))
    assert "lut0 +" in text
    assert "requantize1" in text
