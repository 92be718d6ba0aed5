# SPDX-License-Identifier: BSD-3-Clause
"""ctypes declarations of runtime/capi/fused_quant_capi.h, for native.py."""

from __future__ import annotations

import ctypes
import enum
import functools
from typing import Any

from fused_quant.runtime import library_path

CAPI_LIBRARY = "libfused_quant_capi.so"
MAX_RANK = 6


class Code(enum.IntEnum):
    """Kinds of errors: `fused_quant::Code` of runtime/status.h."""

    OK = 0
    INVALID_COMPATIBILITY = 1
    INVALID_PROGRAM = 2
    OPERATOR_MISSING = 3
    NOT_SUPPORTED = 4
    MEMORY_ALLOCATION_FAILED = 5
    INVALID_ARGUMENT = 6


class Status(ctypes.Structure):
    """fq_status."""

    _fields_ = (
        ("code", ctypes.c_int32),
        ("what", ctypes.c_char_p),
        ("where", ctypes.c_int32),
        ("got", ctypes.c_int64),
        ("expected", ctypes.c_int64),
    )


class Tensor(ctypes.Structure):
    """fq_tensor."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_uint8),
        ("rank", ctypes.c_uint8),
        ("dim", ctypes.c_uint32 * MAX_RANK),
        ("dim_order", ctypes.POINTER(ctypes.c_uint8)),
        ("nbytes", ctypes.c_uint64),
    )


class Constant(ctypes.Structure):
    """fq_constant."""

    _fields_ = (
        ("key", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
    )


class Options(ctypes.Structure):
    """fq_options."""

    _fields_ = (
        ("isa", ctypes.c_char_p),
        ("constants", ctypes.POINTER(Constant)),
        ("num_constants", ctypes.c_uint32),
    )


class PayloadError(RuntimeError):
    """The runtime refused a payload, a memory block or an argument."""

    def __init__(self, code: Code, what: str, where: int, got: int, expected: int) -> None:
        super().__init__(f"{code.name}: {what} (at {where}, got {got}, expected {expected})")
        self.code = code
        self.what = what
        self.where = where
        self.got = got
        self.expected = expected


_POINTER = ctypes.c_void_p
_STATUS = ctypes.POINTER(Status)
_OPTIONS = ctypes.POINTER(Options)
_SIZE = ctypes.POINTER(ctypes.c_uint64)
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "fq_memory_needs_isa": (
        ctypes.c_int32,
        (_POINTER, ctypes.c_uint64, ctypes.c_char_p, _SIZE, _SIZE, _STATUS),
    ),
    "fq_plan_create_isa": (
        ctypes.c_int32,
        (
            *(_POINTER, ctypes.c_uint64, ctypes.c_char_p),
            *(_POINTER, ctypes.c_uint64) * 2,
            *(ctypes.POINTER(_POINTER), _STATUS),
        ),
    ),
    "fq_memory_needs_with": (
        ctypes.c_int32,
        (_POINTER, ctypes.c_uint64, _OPTIONS, _SIZE, _SIZE, _STATUS),
    ),
    "fq_plan_create_with": (
        ctypes.c_int32,
        (
            *(_POINTER, ctypes.c_uint64, _OPTIONS),
            *(_POINTER, ctypes.c_uint64) * 2,
            *(ctypes.POINTER(_POINTER), _STATUS),
        ),
    ),
    "fq_plan_execute": (ctypes.c_int32, (_POINTER,) * 3),
    "fq_num_inputs": (ctypes.c_uint32, (_POINTER,)),
    "fq_num_outputs": (ctypes.c_uint32, (_POINTER,)),
    "fq_num_steps": (ctypes.c_uint32, (_POINTER,)),
    "fq_input": (ctypes.c_int32, (_POINTER, ctypes.c_uint32, ctypes.POINTER(Tensor))),
    "fq_output": (ctypes.c_int32, (_POINTER, ctypes.c_uint32, ctypes.POINTER(Tensor))),
    "fq_step_name": (ctypes.c_char_p, (_POINTER, ctypes.c_uint32)),
    "fq_step_op": (ctypes.c_char_p, (_POINTER, ctypes.c_uint32)),
    "fq_step_kernel": (ctypes.c_char_p, (_POINTER, ctypes.c_uint32)),
    "fq_step_isa": (ctypes.c_char_p, (_POINTER, ctypes.c_uint32)),
    "fq_num_kernels": (ctypes.c_uint32, ()),
    "fq_kernel_name": (ctypes.c_char_p, (ctypes.c_uint32,)),
    "fq_kernel_op": (ctypes.c_char_p, (ctypes.c_uint32,)),
    "fq_kernel_isa": (ctypes.c_char_p, (ctypes.c_uint32,)),
    "fq_requantize": (
        None,
        (*(_POINTER,) * 3, *(ctypes.c_int32,) * 3, _POINTER, ctypes.c_uint64),
    ),
}


@functools.lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """The loaded library, its functions declared."""
    loaded = ctypes.CDLL(str(library_path(CAPI_LIBRARY)))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    return loaded


def check(code: int, status: Status) -> None:
    """Raise PayloadError unless `code` is OK."""
    if code != Code.OK:
        raise PayloadError(
            Code(code),
            (status.what or b"").decode(),
            status.where,
            status.got,
            status.expected,
        )
