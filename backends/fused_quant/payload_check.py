# SPDX-License-Identifier: BSD-3-Clause
"""What must hold for a lowered program to be written as a payload, or to have come from one.

These are the checks that do not depend on what an operator means; each operator's own are made by
the runtime when it loads the payload.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fused_quant import schema_generated as schema
from fused_quant.lowered import (
    NUMPY_DTYPES,
    LoweredOp,
    LoweredProgram,
    LoweredTensor,
    Storage,
    StoredQParams,
)

# The limits of the runtime: runtime/payload.h and runtime/tensor_view.h.
ALIGNMENT = 16
MAX_RANK = 6
MAX_TENSOR_BYTES = 2**31 - 1
MAX_TENSORS = 16384
MAX_OPS = 4096
MAX_OPERANDS = 32768

_MAX_FLOAT32 = float(np.finfo(np.float32).max)
_OPCODES = frozenset(name for name in vars(schema.OpCode) if not name.startswith("_"))
_PARAMS = frozenset(name for name in vars(schema.Params) if not name.startswith("_")) - {"NONE"}


def require(ok: bool, where: str, got: object, expected: str) -> None:
    """Raise ValueError unless `ok`, saying where, what was got and what was expected."""
    if not ok:
        raise ValueError(f"{where}: got {got}, expected {expected}")


def _check_blocks(where: str, tensor: LoweredTensor, qparams: StoredQParams) -> None:
    """Blocks with a scale each divide the tensor."""
    counts, count = qparams.scale_shape, len(qparams.scale)
    require(qparams.axis == -1, f"{where}: axis beside blocks", qparams.axis, "-1")
    require(
        len(counts) == len(tensor.shape)
        and all(n >= 1 and size % n == 0 for n, size in zip(counts, tensor.shape, strict=True)),
        f"{where}: scale shape",
        counts,
        f"a divisor of each dimension of {tensor.shape}",
    )
    require(count == math.prod(counts), f"{where}: scales", count, f"{math.prod(counts)}")


def _check_qparams(where: str, tensor: LoweredTensor) -> None:
    qparams = tensor.qparams
    if qparams is None:
        return
    count = len(qparams.scale)
    require(
        len(qparams.zero_point) == count,
        f"{where}: zero points",
        qparams.zero_point,
        "one per scale",
    )
    if qparams.scale_shape:
        _check_blocks(where, tensor, qparams)
    elif qparams.axis == -1:
        require(count == 1, f"{where}: scales without an axis", count, "1")
    else:
        require(
            0 <= qparams.axis < len(tensor.shape), f"{where}: axis", qparams.axis, "a dimension"
        )
        size = tensor.shape[qparams.axis]
        require(count == size, f"{where}: scales", count, f"{size}, the size of the axis")
    if tensor.dtype in ("f32", "b8"):
        raise ValueError(f"{where}: got a scale, expected none of dtype {tensor.dtype}")
    # A bias' scale is the product of two and may leave the range; no kernel reads it.
    least, most = (0.0, _MAX_FLOAT32) if tensor.dtype in ("s32", "s64") else (2.0**-126, 2.0**126)
    for scale in qparams.scale:
        require(
            least <= scale <= most and float(np.float32(scale)) == scale,  # false for NaN
            f"{where}: scale",
            scale,
            f"a float32 number in [{least:g}, {most:g}]",
        )
    low, high = code_limits(tensor.dtype)
    require(
        low <= qparams.quant_min <= qparams.quant_max <= high,
        f"{where}: quantized range",
        (qparams.quant_min, qparams.quant_max),
        f"min <= max within {low} to {high}",
    )
    for zero_point in qparams.zero_point:
        require(
            low <= zero_point <= high,
            f"{where}: zero point",
            zero_point,
            f"{low} to {high}",
        )


def code_limits(dtype: str) -> tuple[int, int]:
    """The lowest and the highest code; of s64, what the fields of 32 bits hold."""
    if dtype == "s4":
        return -8, 7
    codes = np.iinfo(np.int32 if dtype == "s64" else NUMPY_DTYPES[dtype])
    return int(codes.min), int(codes.max)


def _check_tensor(index: int, tensor: LoweredTensor, arena_bytes: int) -> None:
    where = f"tensor {index} ({tensor.name})"
    require(
        tensor.dtype in NUMPY_DTYPES, f"{where}: dtype", tensor.dtype, f"one of {[*NUMPY_DTYPES]}"
    )
    rank = len(tensor.shape)
    require(rank <= MAX_RANK, f"{where}: rank", rank, f"at most {MAX_RANK}")
    require(all(size >= 1 for size in tensor.shape), f"{where}: shape", tensor.shape, "sizes >= 1")
    require(
        max(tensor.nbytes, math.prod(tensor.shape)) <= MAX_TENSOR_BYTES,
        f"{where}: bytes",
        tensor.nbytes,
        f"at most {MAX_TENSOR_BYTES}",
    )
    require(
        not tensor.dim_order or sorted(tensor.dim_order) == list(range(rank)),
        f"{where}: dim order",
        tensor.dim_order,
        f"a permutation of {rank} dimensions",
    )
    _check_qparams(where, tensor)
    if tensor.storage is Storage.ARENA:
        require(
            tensor.location >= 0 and tensor.location % ALIGNMENT == 0,
            f"{where}: arena offset",
            tensor.location,
            f"a multiple of {ALIGNMENT} (run plan_memory first)",
        )
        require(
            tensor.location + tensor.nbytes <= arena_bytes,
            f"{where}: end in the arena",
            tensor.location + tensor.nbytes,
            f"at most {arena_bytes}",
        )
    require(
        not tensor.key or tensor.storage is Storage.CONSTANT,
        f"{where}: storage with a key",
        tensor.storage.value,
        Storage.CONSTANT.value,
    )
    require(
        tensor.dtype != "s4" or tensor.storage is Storage.CONSTANT,
        f"{where}: storage of s4",
        tensor.storage.value,
        Storage.CONSTANT.value,
    )
    known = not tensor.key or tensor.data is not None
    if tensor.storage is Storage.CONSTANT and known:
        got = None if tensor.data is None else (tensor.data.dtype.name, tensor.data.shape)
        expected = (np.dtype(NUMPY_DTYPES[tensor.dtype]).name, tuple(tensor.shape))
        require(got == expected, f"{where}: data", got, str(expected))
        if tensor.dtype == "s4" and tensor.data is not None:
            reach = (int(tensor.data.min()), int(tensor.data.max()))
            require(reach[0] >= -8 and reach[1] <= 7, f"{where}: codes", reach, "-8 to 7")


def _check_view(index: int, program: LoweredProgram) -> None:
    tensor = program.tensors[index]
    if tensor.alias == -1:
        return
    where = f"tensor {index} ({tensor.name})"
    require(0 <= tensor.alias < index, f"{where}: alias", tensor.alias, "an earlier tensor")
    owner = program.tensors[tensor.alias]
    for what, of_view, of_owner in (
        ("storage", tensor.storage.value, owner.storage.value),
        ("storage", owner.storage.value, Storage.ARENA.value),
        ("dtype", tensor.dtype, owner.dtype),
        ("bytes", tensor.nbytes, owner.nbytes),
        ("location", tensor.location, owner.location),
        ("alias of the owner", owner.alias, -1),
    ):
        require(of_view == of_owner, f"{where}: {what} of a view", of_view, str(of_owner))


def _check_boundary(program: LoweredProgram, indices: Sequence[int], storage: Storage) -> None:
    for position, index in enumerate(indices):
        where = f"{storage.value} {position}"
        require(0 <= index < len(program.tensors), where, index, "a tensor index")
        tensor = program.tensors[index]
        require(tensor.storage is storage, f"{where}: storage", tensor.storage.value, storage.value)
        require(tensor.location == position, f"{where}: location", tensor.location, str(position))
    count = sum(tensor.storage is storage for tensor in program.tensors)
    require(count == len(indices), f"tensors stored as {storage.value}", count, str(len(indices)))


def _check_op(index: int, op: LoweredOp) -> None:
    where = f"op {index} ({op.opcode})"
    require(op.opcode in _OPCODES, f"{where}: opcode", op.opcode, "one of the schema")
    require(len(op.outputs) > 0, f"{where}: outputs", len(op.outputs), "at least one")
    name = type(op.params).__name__.removesuffix("T")
    require(
        name in _PARAMS,
        f"{where}: params",
        type(op.params).__name__,
        "a params class of the schema",
    )


def check_order(program: LoweredProgram) -> None:
    """Check that the operators can run in the order they stand.

    Operand indices are in range; an operator reads only delegate inputs, constants and what an
    earlier one wrote; what it writes is an arena tensor or a delegate output that no earlier one
    wrote; each of those is written. Raises ValueError otherwise.
    """
    readable = {
        i
        for i, tensor in enumerate(program.tensors)
        if tensor.storage in (Storage.INPUT, Storage.CONSTANT)
    }
    count = len(program.tensors)
    for step, op in enumerate(program.ops):
        where = f"op {step} ({op.opcode})"
        for index in op.inputs:
            require(-1 <= index < count, f"{where}: input", index, "a tensor index or -1")
            require(
                index == -1 or program.owner(index) in readable,
                f"{where}: input",
                f"tensor {index} ({program.tensors[index].name})",
                "one that an earlier operator wrote",
            )
        for index in op.outputs:
            require(0 <= index < count, f"{where}: output", index, "a tensor index")
            require(
                index not in readable and program.tensors[index].alias < 0,
                f"{where}: output",
                f"tensor {index} ({program.tensors[index].name})",
                "an arena tensor or delegate output that nothing wrote before",
            )
            readable.add(index)
    for index, tensor in enumerate(program.tensors):
        require(
            program.owner(index) in readable, f"tensor {index} ({tensor.name})", "no writer", "one"
        )


def validate(program: LoweredProgram) -> None:
    """Check everything about `program` that does not depend on what its operators mean.

    Raises ValueError naming the tensor or operator, what was got and what was expected.
    """
    operands = sum(len(op.inputs) + len(op.outputs) for op in program.ops)
    for what, got, limit in (
        ("tensors", len(program.tensors), MAX_TENSORS),
        ("operators", len(program.ops), MAX_OPS),
        ("operands", operands, MAX_OPERANDS),
    ):
        require(got <= limit, what, got, f"at most {limit}")
    for index, tensor in enumerate(program.tensors):
        _check_tensor(index, tensor, program.arena_bytes)
        _check_view(index, program)
    require(len(program.ops) > 0, "operators", 0, "at least one")
    _check_boundary(program, program.inputs, Storage.INPUT)
    _check_boundary(program, program.outputs, Storage.OUTPUT)
    for index, op in enumerate(program.ops):
        _check_op(index, op)
    check_order(program)
