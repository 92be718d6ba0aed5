# SPDX-License-Identifier: BSD-3-Clause
"""One concrete operator: its program, its inputs, and the output that numerics.py says is right."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fused_quant import memory_plan, payload
from fused_quant import schema_generated as schema
from fused_quant.lowered import LoweredProgram, LoweredTensor, Storage, StoredQParams

Array = npt.NDArray[Any]

DTYPE_NAMES = {
    "int8": "s8",
    "uint8": "u8",
    "int16": "s16",
    "int32": "s32",
    "int64": "s64",
    "float32": "f32",
    "bool": "b8",
}


@dataclasses.dataclass
class Built:
    """An operator case made concrete.

    `constants` follow the inputs in operand order, None for an absent operand. `tosa` holds plain
    numbers and arrays for the reference model, empty where it has no such operator. `packed`: the
    weight, which is the first constant, has 4 bits.
    """

    opcode: str
    inputs: list[Array]
    constants: list[Array | None]
    params: Any
    expected: Array
    tosa: dict[str, Any] = dataclasses.field(default_factory=dict)
    packed: bool = False

    def program(self, through_arena: bool = False) -> LoweredProgram:
        """The planned program of this one operator.

        With `through_arena`, copies move every input to the arena first and the result from it, so
        that the operator reads and writes memory that other steps have used.
        """
        program = LoweredProgram(target="generic")
        operands = []
        for position, array in enumerate(self.inputs):
            index = _add_tensor(program, f"input{position}", array, Storage.INPUT, position)
            program.inputs.append(index)
            if through_arena and array.dtype not in (
                np.int32,
                np.int64,
            ):  # indices: no copy of them
                index = _add_copy(program, index, array, Storage.ARENA)
            operands.append(index)
        for position, constant in enumerate(self.constants):
            name = f"constant{position}"
            dtype = "s4" if self.packed and position == 0 else None
            operands.append(
                -1 if constant is None else _add_constant(program, name, constant, dtype)
            )
        if through_arena:
            result = _add_tensor(program, "result", self.expected, Storage.ARENA, -1)
            program.add_op(self.opcode, operands, [result], self.params, name="case")
            output = _add_copy(program, result, self.expected, Storage.OUTPUT)
        else:
            output = _add_tensor(program, "output", self.expected, Storage.OUTPUT, 0)
            program.add_op(self.opcode, operands, [output], self.params, name="case")
        program.outputs.append(output)
        memory_plan.plan_memory(program)
        return program

    def payload(self, through_arena: bool = False) -> bytes:
        """The serialized program."""
        return payload.serialize(self.program(through_arena))


def _qparams(array: Array) -> StoredQParams | None:
    if array.dtype != np.int8:
        return None
    return StoredQParams((1.0,), (0,), -128, 127)


def _add_tensor(
    program: LoweredProgram, name: str, array: Array, storage: Storage, location: int
) -> int:
    dtype = DTYPE_NAMES[array.dtype.name]
    return program.add_tensor(
        LoweredTensor(name, dtype, array.shape, storage, qparams=_qparams(array), location=location)
    )


def _add_constant(
    program: LoweredProgram, name: str, array: Array, dtype: str | None = None
) -> int:
    params = StoredQParams((1.0,), (0,), -8, 7) if dtype == "s4" else _qparams(array)
    return program.add_constant(name, array, dtype or DTYPE_NAMES[array.dtype.name], params)


def _add_copy(program: LoweredProgram, source: int, array: Array, storage: Storage) -> int:
    copied = _add_tensor(program, f"copy of {source}", array, storage, 0)
    program.add_op("copy", [source], [copied], schema.LayoutParamsT(), name="copy")
    return copied


def tensor(array: Array) -> torch.Tensor:
    """A torch tensor of the same elements, never sharing memory with `array`."""
    return torch.from_numpy(array.copy())


def nchw(array: Array) -> torch.Tensor:
    """Stored NHWC -> NCHW."""
    return tensor(array).permute(0, 3, 1, 2)


def nhwc(result: torch.Tensor) -> Array:
    """NCHW -> stored NHWC, contiguous."""
    return np.ascontiguousarray(result.permute(0, 2, 3, 1).numpy())
