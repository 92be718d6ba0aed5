# SPDX-License-Identifier: BSD-3-Clause
"""The C++ runtime through its C interface, without ExecuTorch: one payload, numpy in and out.

For tests, fuzzing and looking into a payload. The memory a plan uses is chosen here byte by byte:
filled with poison before every execution, placed at awkward addresses, and surrounded by guard
bytes whose change is an error.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fused_quant.capi import (
    Code,
    Constant,
    Options,
    PayloadError,
    Status,
    Tensor,
    check,
    library,
)
from fused_quant.lowered import NUMPY_DTYPES

__all__ = [
    "Code",
    "KernelInfo",
    "MemoryNeeds",
    "PayloadError",
    "Plan",
    "StepInfo",
    "TensorInfo",
    "kernels",
    "memory_needs",
    "requantize",
    "run_payload",
]

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_ALIGNMENT = 16
_GUARD_BYTES = 64
_GUARD_VALUE = 0xC3
_DTYPES = tuple(np.dtype(dtype) for dtype in NUMPY_DTYPES.values())  # by DType of the schema


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """A delegate input or output; dim_order[i] is the logical dimension behind shape[i]."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class StepInfo:
    """One step of a plan: the operator's name in the payload, and the kernel that runs it."""

    name: str
    op: str
    kernel: str
    isa: str


@dataclasses.dataclass(frozen=True)
class MemoryNeeds:
    """Bytes a plan needs besides its payload."""

    persistent_bytes: int
    arena_bytes: int


class _Block:
    """`size` bytes at `offset` past a multiple of 16, between two runs of guard bytes."""

    def __init__(self, size: int, offset: int = 0) -> None:
        self._memory = np.full(
            size + 2 * _GUARD_BYTES + _ALIGNMENT + offset, _GUARD_VALUE, dtype=np.uint8
        )
        self._begin = -self._memory.ctypes.data % _ALIGNMENT + _GUARD_BYTES + offset
        self.bytes: Bytes = self._memory[self._begin : self._begin + size]
        self.size = size

    @property
    def address(self) -> int:
        return int(self._memory.ctypes.data) + self._begin

    def intact(self) -> bool:
        end = self._begin + self.size
        outside = (self._memory[: self._begin], self._memory[end:])
        return all(bool((part == _GUARD_VALUE).all()) for part in outside)


class _Given:
    """The options of a plan, with the memory they point to."""

    def __init__(
        self, isa: str | None, constants: Mapping[str, bytes] | None, offset: int = 0
    ) -> None:
        provided = {} if constants is None else constants
        self.blocks = [_placed(data, offset) for data in provided.values()]
        self._entries = (Constant * len(provided))(
            *(
                Constant(key.encode(), block.address, block.size)
                for key, block in zip(provided, self.blocks, strict=True)
            )
        )
        self._options = Options(_encoded(isa), self._entries, len(provided))

    def reference(self) -> Any:
        return ctypes.byref(self._options)


def memory_needs(
    payload: bytes, isa: str | None = None, constants: Mapping[str, bytes] | None = None
) -> MemoryNeeds:
    """What a plan of `payload` needs; `constants` are those it shares with others, by key.

    Raises:
        PayloadError: the runtime refuses the payload.
    """
    return _needs(_placed(payload, 0), _Given(isa, constants))


def _placed(payload: bytes, offset: int) -> _Block:
    block = _Block(len(payload), offset)
    block.bytes[:] = np.frombuffer(payload, dtype=np.uint8)
    return block


def _needs(payload: _Block, given: _Given) -> MemoryNeeds:
    persistent, arena, status = ctypes.c_uint64(), ctypes.c_uint64(), Status()
    code = library().fq_memory_needs_with(
        payload.address,
        payload.size,
        given.reference(),
        ctypes.byref(persistent),
        ctypes.byref(arena),
        ctypes.byref(status),
    )
    check(code, status)
    return MemoryNeeds(persistent.value, arena.value)


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


class Plan:
    """A payload made ready to run as often as wanted.

    Args:
        payload: bytes of the payload; copied.
        constants: those that the payload shares with others, by key; copied.
        isa: name of the best instruction set to use, None for the best there is.
        arena_fill: byte the arena is filled with before every execution; None leaves what the last
            one left there.
        payload_offset, arena_offset, persistent_offset, constant_offset: distance of each block
            from an address that is a multiple of 16 (the runtime must refuse all but 0).
        arena_bytes, persistent_bytes: sizes to give instead of what is needed.

    Raises:
        PayloadError: the runtime refuses the payload or a block.
    """

    def __init__(
        self,
        payload: bytes,
        *,
        constants: Mapping[str, bytes] | None = None,
        isa: str | None = None,
        arena_fill: int | None = 0xA5,
        payload_offset: int = 0,
        arena_offset: int = 0,
        persistent_offset: int = 0,
        constant_offset: int = 0,
        arena_bytes: int | None = None,
        persistent_bytes: int | None = None,
    ) -> None:
        self._payload = _placed(payload, payload_offset)
        self._given = _Given(isa, constants, constant_offset)
        self.needs = _needs(self._payload, self._given)
        self._arena = _Block(
            self.needs.arena_bytes if arena_bytes is None else arena_bytes, arena_offset
        )
        self._persistent = _Block(
            self.needs.persistent_bytes if persistent_bytes is None else persistent_bytes,
            persistent_offset,
        )
        self._arena_fill = arena_fill
        plan, status = ctypes.c_void_p(), Status()
        code = library().fq_plan_create_with(
            self._payload.address,
            self._payload.size,
            self._given.reference(),
            self._persistent.address,
            self._persistent.size,
            self._arena.address,
            self._arena.size,
            ctypes.byref(plan),
            ctypes.byref(status),
        )
        check(code, status)
        self._plan = plan
        self._check_guards([])
        self.inputs = self._infos("fq_input", library().fq_num_inputs(plan))
        self.outputs = self._infos("fq_output", library().fq_num_outputs(plan))

    @property
    def steps(self) -> list[StepInfo]:
        """The steps in execution order, with the kernel chosen for each."""
        return [
            StepInfo(
                library().fq_step_name(self._plan, index).decode(),
                library().fq_step_op(self._plan, index).decode(),
                library().fq_step_kernel(self._plan, index).decode(),
                library().fq_step_isa(self._plan, index).decode(),
            )
            for index in range(library().fq_num_steps(self._plan))
        ]

    def run(
        self, inputs: Sequence[Array], *, io_offset: int = 0, output_fill: int = 0x5A
    ) -> list[Array]:
        """Execute once; returns the outputs in stored shape.

        Args:
            inputs: arrays whose dtype and shape are those of `self.inputs`.
            io_offset: distance, in elements, of each input and output from a multiple of 16 bytes.
            output_fill: byte the outputs are filled with first.

        Raises:
            ValueError: number, dtype or shape of `inputs` differ.
            PayloadError: the runtime refuses an address.
            MemoryError: something outside the blocks, or an input, was written.
        """
        if len(inputs) != len(self.inputs):
            raise ValueError(f"got {len(inputs)} inputs, expected {len(self.inputs)}")
        sources = []
        for position, (array, info) in enumerate(zip(inputs, self.inputs, strict=True)):
            _check_array(position, array, info)
            block = _Block(array.nbytes, io_offset * info.dtype.itemsize)
            block.bytes[:] = np.frombuffer(np.ascontiguousarray(array).tobytes(), dtype=np.uint8)
            sources.append(block)
        targets = [
            _Block(
                int(np.prod(info.shape, dtype=np.int64)) * info.dtype.itemsize,
                io_offset * info.dtype.itemsize,
            )
            for info in self.outputs
        ]
        for block in targets:
            block.bytes[:] = output_fill
        if self._arena_fill is not None:
            self._arena.bytes[:] = self._arena_fill
        code = library().fq_plan_execute(self._plan, _pointers(sources), _pointers(targets))
        if code != Code.OK:
            raise PayloadError(Code(code), "fq_plan_execute", -1, 0, 0)
        self._check_guards([*sources, *targets])
        for position, (array, block) in enumerate(zip(inputs, sources, strict=True)):
            if np.ascontiguousarray(array).tobytes() != block.bytes.tobytes():
                raise MemoryError(f"input {position} was overwritten")
        return [
            block.bytes.copy().view(info.dtype).reshape(info.shape)
            for block, info in zip(targets, self.outputs, strict=True)
        ]

    def _infos(self, function: str, count: int) -> list[TensorInfo]:
        infos = []
        for index in range(count):
            tensor = Tensor()
            code = getattr(library(), function)(self._plan, index, ctypes.byref(tensor))
            if code != Code.OK:
                raise PayloadError(Code(code), function, index, 0, 0)
            rank = tensor.rank
            order = tensor.dim_order[:rank] if tensor.dim_order else range(rank)
            infos.append(
                TensorInfo(
                    tensor.name.decode(),
                    _DTYPES[tensor.dtype],
                    tuple(tensor.dim[:rank]),
                    tuple(order),
                )
            )
        return infos

    def _check_guards(self, blocks: Sequence[_Block]) -> None:
        own = (self._payload, self._arena, self._persistent, *self._given.blocks)
        for block in (*own, *blocks):
            if not block.intact():
                raise MemoryError("the runtime wrote outside the memory it was given")


def _check_array(position: int, array: Array, info: TensorInfo) -> None:
    if array.dtype != info.dtype or array.shape != info.shape:
        raise ValueError(
            f"input {position} ({info.name}): got {array.dtype} {array.shape}, "
            f"expected {info.dtype} {info.shape}"
        )


def _pointers(blocks: Sequence[_Block]) -> Any:
    return (ctypes.c_void_p * len(blocks))(*(block.address for block in blocks))


def run_payload(
    payload: bytes,
    inputs: Sequence[Array],
    *,
    isa: str | None = None,
    constants: Mapping[str, bytes] | None = None,
) -> list[Array]:
    """Run `payload` once on arrays of stored shape; returns the outputs in stored shape.

    Raises:
        PayloadError: the runtime refuses the payload.
        ValueError: number, dtype or shape of `inputs` differ from the payload's.
    """
    return Plan(payload, isa=isa, constants=constants).run(inputs)


@dataclasses.dataclass(frozen=True)
class KernelInfo:
    """A row of runtime/kernels/kernels.inc."""

    name: str
    op: str
    isa: str


def kernels() -> list[KernelInfo]:
    """The kernels of this build, best first for each operator."""
    return [
        KernelInfo(
            library().fq_kernel_name(index).decode(),
            library().fq_kernel_op(index).decode(),
            library().fq_kernel_isa(index).decode(),
        )
        for index in range(library().fq_num_kernels())
    ]


def requantize(
    acc: Array, multiplier: Array, shift: Array, zero_point: int, clamp_min: int, clamp_max: int
) -> npt.NDArray[np.int32]:
    """The C++ numeric contract, elementwise: clamp(zero_point + R(acc; multiplier, shift)).

    The three arrays are one-dimensional and equally long; multiplier in [0, 2^31), shift in
    [2, 62].
    """
    given = (
        np.ascontiguousarray(acc, dtype=np.int32),
        np.ascontiguousarray(multiplier, dtype=np.int32),
        np.ascontiguousarray(shift, dtype=np.uint8),
    )
    if len({array.shape for array in given}) != 1 or given[0].ndim != 1:
        raise ValueError(f"got shapes {[array.shape for array in given]}, expected equal lengths")
    out = np.empty(given[0].shape, dtype=np.int32)
    library().fq_requantize(
        *(array.ctypes.data for array in given),
        zero_point,
        clamp_min,
        clamp_max,
        out.ctypes.data,
        out.size,
    )
    return out
