# SPDX-License-Identifier: BSD-3-Clause
"""The C interface of the runtime core with raw pointers, for tests that place memory themselves."""

from __future__ import annotations

import ctypes

import numpy as np

from fused_quant.capi import Status, check, library
from tests.support.built import Array
from tests.support.memory import GuardedBuffer

ALIGNMENT = 16


def kernel_table() -> list[tuple[str, str]]:
    """(operator, kernel) of every line of kernels.inc."""
    lib = library()
    count = lib.fq_num_kernels()
    return [(lib.fq_kernel_op(i).decode(), lib.fq_kernel_name(i).decode()) for i in range(count)]


def kernel_isas() -> set[tuple[str, str]]:
    """(operator, instruction set) of every line of kernels.inc."""
    lib = library()
    count = lib.fq_num_kernels()
    return {(lib.fq_kernel_op(i).decode(), lib.fq_kernel_isa(i).decode()) for i in range(count)}


class Plan:
    """A plan whose payload, persistent memory and arena end exactly at guard pages.

    Raises PayloadError if the runtime refuses the payload.
    """

    def __init__(self, payload: bytes, isa: str = "scalar") -> None:
        self._lib = library()
        self._payload = GuardedBuffer(-(-len(payload) // ALIGNMENT) * ALIGNMENT, fill=0)
        self._payload.write(payload)
        self._payload.freeze()
        self._buffers = [self._payload]
        where = (self._payload.address, len(payload), isa.encode())
        status, needs = Status(), (ctypes.c_uint64(), ctypes.c_uint64())
        references = [ctypes.byref(value) for value in (*needs, status)]
        check(self._lib.fq_memory_needs_isa(*where, *references), status)
        self.persistent_bytes, self.arena_bytes = (value.value for value in needs)
        for count in (self.persistent_bytes, self.arena_bytes):
            self._buffers.append(GuardedBuffer(-(-count // ALIGNMENT) * ALIGNMENT, fill=0xEE))
        _, persistent, self._arena = self._buffers
        self._plan = ctypes.c_void_p()
        memory = (persistent.address, persistent.size, self._arena.address, self._arena.size)
        made = (ctypes.byref(self._plan), ctypes.byref(status))
        check(self._lib.fq_plan_create_isa(*where, *memory, *made), status)

    def kernels(self) -> list[tuple[str, str]]:
        """(kernel, instruction set) of each step."""
        return [
            (
                self._lib.fq_step_kernel(self._plan, i).decode(),
                self._lib.fq_step_isa(self._plan, i).decode(),
            )
            for i in range(self._lib.fq_num_steps(self._plan))
        ]

    def execute(
        self,
        inputs: list[Array],
        output: Array,
        at_end: bool = True,
        offset: int = 0,
        fill: int = 0x5A,
    ) -> Array:
        """Run once; the result has the shape and dtype of `output`, whose values are not used.

        Inputs are read-only, inputs and output touch guard pages at their end or start, moved by
        `offset` elements; arena and output hold the byte `fill` beforehand.
        """
        self._arena.content[:] = fill
        buffers = [GuardedBuffer(a.nbytes, at_end, offset * a.itemsize) for a in inputs]
        for buffer, array in zip(buffers, inputs, strict=True):
            buffer.write(array.tobytes())
            buffer.freeze()
        target = GuardedBuffer(output.nbytes, at_end, offset * output.itemsize, fill)
        pointers = (ctypes.c_void_p * len(buffers))(*[buffer.address for buffer in buffers])
        targets = (ctypes.c_void_p * 1)(target.address)
        code = self._lib.fq_plan_execute(self._plan, pointers, targets)
        assert code == 0, f"execute returned {code}"
        target.check_untouched()
        result = target.content.copy().view(output.dtype).reshape(output.shape)
        for buffer in (*buffers, target):
            buffer.close()
        return result

    def close(self) -> None:
        """Release the memory."""
        for buffer in self._buffers:
            buffer.close()
        self._buffers = []


def requantize(acc: Array, multiplier: Array, shift: Array, zp: int, lo: int, hi: int) -> Array:
    """fq_requantize: the scalar contract as C++ computes it."""
    operands: list[Array] = [
        np.ascontiguousarray(acc, np.int32),
        np.ascontiguousarray(multiplier, np.int32),
        np.ascontiguousarray(shift, np.uint8),
    ]
    out = np.empty(len(acc), np.int32)
    pointers = [array.ctypes.data for array in operands]
    library().fq_requantize(*pointers, zp, lo, hi, out.ctypes.data, len(out))
    return out
