# SPDX-License-Identifier: BSD-3-Clause
"""Reading and writing payloads: the flatbuffer of schema/fused_quant.fbs (docs/payload_format.md).

The bytes depend on the program alone: the same program gives the same payload in every process.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import math
import struct
from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt

from fused_quant import schema_generated as schema
from fused_quant.lowered import (
    NUMPY_DTYPES,
    LoweredOp,
    LoweredProgram,
    LoweredTensor,
    Storage,
    StoredQParams,
)
from fused_quant.payload_check import ALIGNMENT, require, validate

BACKEND_ID = "FusedQuantBackend"
IDENTIFIER = b"FQP1"
FORMAT_VERSION = 1

_EXECUTORCH_IDENTIFIER = b"ET12"


def _enum_names(enum: Any) -> dict[int, str]:
    return {value: name for name, value in vars(enum).items() if not name.startswith("_")}


OPCODES: dict[int, str] = _enum_names(schema.OpCode)
_DTYPES: dict[int, str] = _enum_names(schema.DType)
_STORAGES: dict[int, str] = _enum_names(schema.Storage)


@dataclasses.dataclass(frozen=True)
class PayloadHeader:
    """What a payload says about itself besides the program."""

    format_version: int
    producer: str
    target: str
    payload_bytes: int
    constant_bytes: int


@dataclasses.dataclass(frozen=True)
class DelegatePayload:
    """One fused_quant delegate of an ExecuTorch program."""

    method: str
    delegate: int
    data: bytes


@functools.cache
def producer() -> str:
    """Name and version of this package, as written into payloads."""
    try:
        return f"fused_quant {importlib.metadata.version('fused_quant')}"
    except importlib.metadata.PackageNotFoundError:
        return "fused_quant"


def _plain(value: Any) -> Any:
    """Numpy values as Python ones (the generated code would write an array with its own width)."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value] or None
    return value


def _plain_params(params: Any) -> Any:
    """A copy of a params object with lists for vectors and None for empty ones."""
    return type(params)(**{name: _plain(value) for name, value in vars(params).items()})


def _pack_constant(builder: flatbuffers.Builder, data: bytes) -> int:
    """Write a Constant; generated code ignores force_align, hence by hand."""
    builder.StartVector(1, len(data), ALIGNMENT)
    builder.head -= len(data)
    builder.Bytes[builder.head : builder.head + len(data)] = data
    vector = builder.EndVector()
    schema.ConstantStart(builder)
    schema.ConstantAddData(builder, vector)
    return int(schema.ConstantEnd(builder))


def _pack_tensor(builder: flatbuffers.Builder, tensor: LoweredTensor) -> int:
    table = schema.TensorT(
        name=tensor.name,
        dtype=getattr(schema.DType, tensor.dtype),
        storage=getattr(schema.Storage, tensor.storage.value),
        location=int(tensor.location),
        shape=_plain(tuple(tensor.shape)),
        dimOrder=_plain(tuple(tensor.dim_order)),
        alias=int(tensor.alias),
    )
    if tensor.qparams is not None:
        table.scale = _plain(tensor.qparams.scale)
        table.zeroPoint = _plain(tensor.qparams.zero_point)
        table.axis = int(tensor.qparams.axis)
        table.quantMin = int(tensor.qparams.quant_min)
        table.quantMax = int(tensor.qparams.quant_max)
    return int(table.Pack(builder))


def _pack_op(builder: flatbuffers.Builder, op: LoweredOp) -> int:
    table = schema.OpT(
        name=op.name,
        opcode=getattr(schema.OpCode, op.opcode),
        inputs=_plain(op.inputs),
        outputs=_plain(op.outputs),
        paramsType=getattr(schema.Params, type(op.params).__name__.removesuffix("T")),
        params=_plain_params(op.params),
    )
    return int(table.Pack(builder))


def _number_constants(program: LoweredProgram) -> list[bytes]:
    """Set the location of every constant; returns the distinct constants in order of first use."""
    numbers: dict[bytes, int] = {}
    for tensor in program.tensors:
        if tensor.storage is Storage.CONSTANT and tensor.data is not None:
            little_endian = tensor.data.astype(tensor.data.dtype.newbyteorder("<"), copy=False)
            tensor.location = numbers.setdefault(little_endian.tobytes(), len(numbers))
    return list(numbers)


def _offsets(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _uints(builder: flatbuffers.Builder, values: Sequence[int]) -> int:
    return int(builder.CreateNumpyVector(np.asarray(values, dtype="<u4")))


def serialize(program: LoweredProgram) -> bytes:
    """The payload of a planned program; its size is a multiple of 16.

    Constants are 16-byte aligned relative to the payload's start and stored once if identical; the
    locations of the constant tensors are set. Raises ValueError (see `validate`).
    """
    validate(program)
    constants = _number_constants(program)
    builder = flatbuffers.Builder(4096 + 2 * sum(map(len, constants)))
    builder.minalign = ALIGNMENT
    # A flatbuffer is written from its end: this vector, which every reader reads, lies last, so a
    # payload that was cut short is noticed.
    inputs = _uints(builder, program.inputs)
    outputs = _uints(builder, program.outputs)
    constants_vector = _offsets(builder, [_pack_constant(builder, data) for data in constants])
    ops = _offsets(builder, [_pack_op(builder, op) for op in program.ops])
    tensors = _offsets(builder, [_pack_tensor(builder, tensor) for tensor in program.tensors])
    target = builder.CreateString(program.target)
    made_by = builder.CreateString(producer())
    schema.PayloadStart(builder)
    schema.PayloadAddFormatVersion(builder, FORMAT_VERSION)
    schema.PayloadAddProducer(builder, made_by)
    schema.PayloadAddTarget(builder, target)
    schema.PayloadAddTensors(builder, tensors)
    schema.PayloadAddInputs(builder, inputs)
    schema.PayloadAddOutputs(builder, outputs)
    schema.PayloadAddOps(builder, ops)
    schema.PayloadAddConstants(builder, constants_vector)
    schema.PayloadAddArenaBytes(builder, int(program.arena_bytes))
    schema.PayloadAddPersistentBytes(builder, int(program.persistent_bytes))
    schema.PayloadAddScratchBytes(builder, int(program.scratch_bytes))
    builder.Finish(schema.PayloadEnd(builder), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def _parse(data: bytes) -> Any:
    """The root table as an object; ValueError if `data` is not a whole payload we can read."""
    require(len(data) >= 8, "payload size", len(data), "at least 8 bytes")
    require(data[4:8] == IDENTIFIER, "payload identifier", data[4:8], str(IDENTIFIER))
    require(
        len(data) % ALIGNMENT == 0,
        "payload size",
        len(data),
        f"a multiple of {ALIGNMENT} (is it cut short?)",
    )
    try:
        version = schema.Payload.GetRootAs(data).FormatVersion()
        require(version == FORMAT_VERSION, "payload format version", version, str(FORMAT_VERSION))
        return schema.PayloadT.InitFromPackedBuf(data)
    except (struct.error, IndexError, TypeError, OverflowError, MemoryError) as error:
        raise ValueError(f"malformed payload of {len(data)} bytes: {error}") from error


def _list(vector: Any) -> list[Any]:
    return [] if vector is None else _plain(vector) or []


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode()


def _enum(names: dict[int, str], value: int, where: str) -> str:
    require(value in names, where, value, f"one of {sorted(names)}")
    return names[value]


def _read_constant(
    index: int, table: Any, dtype: str, constants: Sequence[Any]
) -> npt.NDArray[Any]:
    where = f"tensor {index}: constant"
    require(table.location < len(constants), where, table.location, f"below {len(constants)}")
    raw = constants[table.location].data
    raw = np.zeros(0, np.uint8) if raw is None else raw
    shape = tuple(_list(table.shape))
    size = math.prod(shape) * np.dtype(NUMPY_DTYPES[dtype]).itemsize
    require(len(raw) == size, f"{where}: bytes", len(raw), str(size))
    return (
        np.frombuffer(raw.tobytes(), np.dtype(NUMPY_DTYPES[dtype]).newbyteorder("<"))
        .astype(NUMPY_DTYPES[dtype])
        .reshape(shape)
    )


def _read_tensor(index: int, table: Any, constants: Sequence[Any]) -> LoweredTensor:
    where = f"tensor {index}"
    dtype = _enum(_DTYPES, table.dtype, f"{where}: dtype")
    storage = Storage(_enum(_STORAGES, table.storage, f"{where}: storage"))
    scale = tuple(_list(table.scale))
    qparams = None
    if scale:
        qparams = StoredQParams(
            scale, tuple(_list(table.zeroPoint)), table.quantMin, table.quantMax, table.axis
        )
    data = None
    if storage is Storage.CONSTANT:
        data = _read_constant(index, table, dtype, constants)
    return LoweredTensor(
        _text(table.name),
        dtype,
        tuple(_list(table.shape)),
        storage,
        tuple(_list(table.dimOrder)),
        qparams,
        data,
        table.location,
        table.alias,
    )


def _read_op(index: int, table: Any) -> LoweredOp:
    where = f"op {index}"
    opcode = _enum(OPCODES, table.opcode, f"{where}: opcode")
    require(table.params is not None, f"{where}: params type", table.paramsType, "a known one")
    # Params hold no strings or tables: what is None is an absent vector.
    fields = {
        name: _list(value) if value is None or isinstance(value, np.ndarray) else value
        for name, value in vars(table.params).items()
    }
    return LoweredOp(
        opcode,
        tuple(_list(table.inputs)),
        tuple(_list(table.outputs)),
        type(table.params)(**fields),
        _text(table.name),
    )


def count_macs(program: LoweredProgram, op: LoweredOp) -> int:
    """Multiply-accumulates of one run of `op`: the taps of one output element for each of them.

    Only operators with DotParams multiply by a weight. The output channel is the output's last
    stored dimension, and the weight holds as many taps for each. Padded taps count.
    """
    if not isinstance(op.params, schema.DotParamsT) or len(op.inputs) < 2 or op.inputs[1] < 0:
        return 0
    output = program.tensors[op.outputs[0]].shape
    weight = program.tensors[op.inputs[1]].shape
    if not output or not output[-1]:
        return 0
    return math.prod(output) * math.prod(weight) // output[-1]


def deserialize(data: bytes) -> LoweredProgram:
    """The program of a payload; `macs` of each operator is computed anew.

    Raises ValueError with what was got and expected: for another identifier or format version, for
    a truncated or malformed payload, and for a program that fails `validate`.
    """
    root = _parse(data)
    constants = root.constants or []
    try:
        program = LoweredProgram(
            _text(root.target),
            [_read_tensor(i, table, constants) for i, table in enumerate(root.tensors or [])],
            [_read_op(i, table) for i, table in enumerate(root.ops or [])],
            _list(root.inputs),
            _list(root.outputs),
            root.arenaBytes,
            root.persistentBytes,
            root.scratchBytes,
        )
    except (AttributeError, TypeError) as error:
        raise ValueError(f"malformed payload of {len(data)} bytes: {error}") from error
    validate(program)
    for op in program.ops:
        op.macs = count_macs(program, op)
    return program


def read_header(data: bytes) -> PayloadHeader:
    """Version, producer and sizes of a payload. Raises ValueError like `deserialize`."""
    root = _parse(data)
    sizes = [0 if c.data is None else len(c.data) for c in root.constants or []]
    return PayloadHeader(
        root.formatVersion, _text(root.producer), _text(root.target), len(data), sum(sizes)
    )


def _find_delegates(pte: bytes) -> list[DelegatePayload]:
    # Imported here: it brings in torch, which a reader of plain payloads does not need.
    from executorch.exir._serialize._program import deserialize_pte_binary

    program = deserialize_pte_binary(pte).program  # delegate data is inline after this
    return [
        DelegatePayload(
            plan.name,
            position,
            bytes(program.backend_delegate_data[delegate.processed.index].data),
        )
        for plan in program.execution_plan
        for position, delegate in enumerate(plan.delegates)
        if delegate.id == BACKEND_ID
    ]


def extract_delegates(pte: bytes) -> list[DelegatePayload]:
    """The fused_quant delegates of an ExecuTorch program, by method and position.

    Raises ValueError if `pte` is not a program that this version of ExecuTorch reads.
    """
    found = pte[4:8]
    require(
        found == _EXECUTORCH_IDENTIFIER,
        "ExecuTorch program identifier",
        found,
        str(_EXECUTORCH_IDENTIFIER),
    )
    try:
        return _find_delegates(pte)
    except Exception as error:  # ExecuTorch's deserializer trusts its input and may raise anything
        raise ValueError(
            f"malformed ExecuTorch program of {len(pte)} bytes: {type(error).__name__}: {error}"
        ) from error


def extract_payloads(pte: bytes) -> list[bytes]:
    """The payloads of the fused_quant delegates of an ExecuTorch program, in execution-plan order.

    Raises ValueError if `pte` is not a program that this version of ExecuTorch reads.
    """
    return [delegate.data for delegate in extract_delegates(pte)]
