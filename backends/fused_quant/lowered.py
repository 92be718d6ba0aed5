# SPDX-License-Identifier: BSD-3-Clause
"""The program between the graph and the payload: stored tensors and operators in execution order.

`preprocess` makes a `LoweredProgram` from a fused graph, `memory_plan` places its arena tensors,
`payload` writes it. Shapes are *stored* shapes (channels last for images); `dim_order` says which
logical dimension each stored one is. Params are the generated schema classes, so what an operator
serializes is exactly what the runtime reads.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

NUMPY_DTYPES: dict[str, npt.DTypeLike] = {
    "s8": np.int8,
    "u8": np.uint8,
    "s16": np.int16,
    "s32": np.int32,
    "s64": np.int64,
    "f32": np.float32,
    "s4": np.int8,  # one code per element here; two per byte in a payload
    "b8": np.bool_,
}


def stored_size(dtype: str, count: int) -> int:
    """Bytes of `count` elements in a payload."""
    return (count + 1) // 2 if dtype == "s4" else count * np.dtype(NUMPY_DTYPES[dtype]).itemsize


class Storage(enum.Enum):
    """Where a tensor's bytes live."""

    INPUT = "input"
    OUTPUT = "output"
    ARENA = "arena"
    CONSTANT = "constant"


@dataclasses.dataclass(frozen=True)
class StoredQParams:
    """real = scale * (code - zero_point); several entries run along the stored dimension `axis`.

    With a `scale_shape` there is one per block: that many blocks along each stored dimension.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    quant_min: int
    quant_max: int
    axis: int = -1
    scale_shape: tuple[int, ...] = ()


@dataclasses.dataclass
class LoweredTensor:
    """One tensor of a lowered program.

    `location` is the position among the inputs or outputs, the byte offset in the arena (set by
    the memory planner) or the index of the constant (set by the payload writer). `alias` >= 0 makes
    the tensor a view: another shape of the bytes of that (earlier, arena) tensor, only ever read.
    A constant with a `key` is stored once for several payloads, outside of them; `data` is None
    where such a payload was read without what the program keeps for it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    storage: Storage
    dim_order: tuple[int, ...] = ()
    qparams: StoredQParams | None = None
    data: npt.NDArray[Any] | None = None
    location: int = -1
    alias: int = -1
    key: str = ""

    @property
    def nbytes(self) -> int:
        """Size in bytes; a tensor of rank 0 holds one element."""
        count = 1
        for size in self.shape:
            count *= size
        return stored_size(self.dtype, count)


@dataclasses.dataclass
class LoweredOp:
    """One step: tensor indices in operand order (-1 = absent) and its schema params object."""

    opcode: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: Any
    name: str = ""
    macs: int = 0
    scratch_bytes: int = 0  # of the scalar kernel, while the step runs; not kept in the payload


@dataclasses.dataclass
class LoweredProgram:
    """Everything a payload holds. `inputs` and `outputs` are tensor indices in call order.

    A run with the scalar kernels needs `arena_bytes` + `scratch_bytes`, and `persistent_bytes` for
    the plan; `memory_plan.plan_memory` sets all three.
    """

    target: str
    tensors: list[LoweredTensor] = dataclasses.field(default_factory=list)
    ops: list[LoweredOp] = dataclasses.field(default_factory=list)
    inputs: list[int] = dataclasses.field(default_factory=list)
    outputs: list[int] = dataclasses.field(default_factory=list)
    arena_bytes: int = 0
    persistent_bytes: int = 0
    scratch_bytes: int = 0

    def add_tensor(self, tensor: LoweredTensor) -> int:
        """Append a tensor; returns its index."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def owner(self, tensor: int) -> int:
        """The tensor whose bytes a tensor has: itself unless it is a view."""
        alias = self.tensors[tensor].alias
        return tensor if alias < 0 else alias

    def add_constant(
        self, name: str, data: npt.NDArray[Any], dtype: str, qparams: StoredQParams | None = None
    ) -> int:
        """Append a constant holding `data` in C order; returns its tensor index."""
        stored = np.asarray(data, dtype=NUMPY_DTYPES[dtype], order="C")
        return self.add_tensor(
            LoweredTensor(
                name, dtype, tuple(stored.shape), Storage.CONSTANT, qparams=qparams, data=stored
            )
        )

    def add_op(
        self,
        opcode: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        params: Any,
        name: str = "",
        macs: int = 0,
        scratch_bytes: int = 0,
    ) -> None:
        """Append a step."""
        self.ops.append(
            LoweredOp(opcode, tuple(inputs), tuple(outputs), params, name, macs, scratch_bytes)
        )
