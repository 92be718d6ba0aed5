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
from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt

from fused_quant import schema_generated as schema
from fused_quant.delegates import BACKEND_ID as BACKEND_ID
from fused_quant.delegates import DelegatePayload as DelegatePayload
from fused_quant.delegates import extract_delegates as extract_delegates
from fused_quant.delegates import extract_payloads as extract_payloads
from fused_quant.lowered import (
    NUMPY_DTYPES,
    LoweredOp,
    LoweredProgram,
    LoweredTensor,
    Storage,
    StoredQParams,
    stored_size,
)
from fused_quant.payload_check import ALIGNMENT, require, validate

IDENTIFIER = b"FQP1"
FORMAT_VERSION = 1


def _enum_names(enum: Any) -> dict[int, str]:
    return {value: name for name, value in vars(enum).items() if not name.startswith("_")}


OPCODES: dict[int, str] = _enum_names(schema.OpCode)
_DTYPES: dict[int, str] = _enum_names(schema.DType)
_STORAGES: dict[int, str] = _enum_names(schema.Storage)


@dataclasses.dataclass(frozen=True)
class PayloadHeader:
    """What a payload says about itself besides the program; shared constants lie outside it."""

    format_version: int
    producer: str
    target: str
    payload_bytes: int
    constant_bytes: int
    shared_bytes: int = 0


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


def _pack_shared(builder: flatbuffers.Builder, key: str, size: int) -> int:
    """Write the Constant of bytes that the program keeps."""
    name = builder.CreateString(key)
    schema.ConstantStart(builder)
    schema.ConstantAddKey(builder, name)
    schema.ConstantAddSize(builder, size)
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
        table.scaleShape = _plain(tensor.qparams.scale_shape)
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


def pack_s4(codes: npt.NDArray[Any]) -> bytes:
    """Codes in [-8, 7], two in a byte: the earlier one in the low half, 0 behind an odd number."""
    halves = np.append(codes.ravel(), [0] * (codes.size % 2)).astype(np.uint8) & 15
    return (halves[::2] | halves[1::2] << 4).astype(np.uint8).tobytes()


def unpack_s4(raw: bytes, count: int) -> npt.NDArray[np.int8]:
    """The first `count` codes of packed ones."""
    stored = np.frombuffer(raw, np.uint8)
    halves = np.stack([stored & 15, stored >> 4], axis=-1).reshape(-1)[:count]
    return ((halves ^ 8).astype(np.int8) - 8).astype(np.int8)


def stored_bytes(tensor: LoweredTensor) -> bytes:
    """The bytes of a constant as every target reads them."""
    assert tensor.data is not None, tensor.name
    if tensor.dtype == "s4":
        return pack_s4(tensor.data)
    return tensor.data.astype(tensor.data.dtype.newbyteorder("<"), copy=False).tobytes()


def _number_constants(program: LoweredProgram) -> list[bytes | tuple[str, int]]:
    """Set the location of every constant; returns the distinct ones in order of first use.

    A constant is its bytes or, if the program keeps it, its key and size.
    """
    numbers: dict[bytes | tuple[str, int], int] = {}
    for tensor in program.tensors:
        if tensor.storage is Storage.CONSTANT:
            value = (tensor.key, tensor.nbytes) if tensor.key else stored_bytes(tensor)
            tensor.location = numbers.setdefault(value, len(numbers))
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

    Constants are 16-byte aligned relative to the payload's start and stored once if identical,
    those with a key not at all; the locations of the constant tensors are set. Raises ValueError
    (see `validate`).
    """
    validate(program)
    constants = _number_constants(program)
    inside = sum(len(value) for value in constants if isinstance(value, bytes))
    builder = flatbuffers.Builder(4096 + 2 * inside)
    builder.minalign = ALIGNMENT
    # A flatbuffer is written from its end: this vector, which every reader reads, lies last, so a
    # payload that was cut short is noticed.
    inputs = _uints(builder, program.inputs)
    outputs = _uints(builder, program.outputs)
    constants_vector = _offsets(
        builder,
        [
            _pack_constant(builder, value)
            if isinstance(value, bytes)
            else _pack_shared(builder, *value)
            for value in constants
        ],
    )
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


def _constant_bytes(
    where: str, constant: Any, provided: Mapping[str, bytes] | None
) -> tuple[str, int, bytes | None]:
    """Key, size and bytes of a constant; no bytes if it is shared and nothing is provided."""
    if constant.key is None:
        require(constant.size == 0, f"{where}: size without a key", constant.size, "0")
        raw = b"" if constant.data is None else constant.data.tobytes()
        return "", len(raw), raw
    key = _text(constant.key)
    require(key != "", f"{where}: key", repr(key), "a name")
    require(constant.data is None, f"{where}: data beside the key", "some", "none")
    if provided is None:
        return key, constant.size, None
    require(key in provided, f"{where}: key", repr(key), f"one of {sorted(provided)}")
    raw = provided[key]
    require(len(raw) == constant.size, f"{where}: bytes of {key}", len(raw), str(constant.size))
    return key, constant.size, raw


def _read_constant(
    index: int,
    table: Any,
    dtype: str,
    constants: Sequence[Any],
    provided: Mapping[str, bytes] | None,
) -> tuple[str, npt.NDArray[Any] | None]:
    where = f"tensor {index}: constant"
    require(table.location < len(constants), where, table.location, f"below {len(constants)}")
    key, stored, raw = _constant_bytes(where, constants[table.location], provided)
    shape = tuple(_list(table.shape))
    size = stored_size(dtype, math.prod(shape))
    require(stored == size, f"{where}: bytes", stored, str(size))
    if raw is None:
        return key, None
    if dtype == "s4":
        return key, unpack_s4(raw, math.prod(shape)).reshape(shape)
    little_endian = np.frombuffer(raw, np.dtype(NUMPY_DTYPES[dtype]).newbyteorder("<"))
    return key, little_endian.astype(NUMPY_DTYPES[dtype]).reshape(shape)


def _read_tensor(
    index: int, table: Any, constants: Sequence[Any], provided: Mapping[str, bytes] | None
) -> LoweredTensor:
    where = f"tensor {index}"
    dtype = _enum(_DTYPES, table.dtype, f"{where}: dtype")
    storage = Storage(_enum(_STORAGES, table.storage, f"{where}: storage"))
    scale = tuple(_list(table.scale))
    qparams = None
    if scale:
        qparams = StoredQParams(
            scale,
            tuple(_list(table.zeroPoint)),
            table.quantMin,
            table.quantMax,
            table.axis,
            tuple(_list(table.scaleShape)),
        )
    key, data = "", None
    if storage is Storage.CONSTANT:
        key, data = _read_constant(index, table, dtype, constants, provided)
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
        key,
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

    Products of two activations, and operators with DotParams, whose output channel is the output's
    last stored dimension: the weight holds as many taps for each. Padded taps count. A transposed
    convolution takes each input channel to all taps of the outputs of its group.
    """
    if len(op.inputs) < 2 or min(op.inputs[:2]) < 0:
        return 0
    first, second = (program.tensors[index].shape for index in op.inputs[:2])
    output = program.tensors[op.outputs[0]].shape
    if op.opcode == "bmm":
        return math.prod(output) * math.prod(first[-1:])
    if op.opcode == "conv_transpose2d":
        output = first
    if not isinstance(op.params, schema.DotParamsT) or not output or not output[-1]:
        return 0
    return math.prod(output) * math.prod(second) // output[-1]


def deserialize(data: bytes, provided: Mapping[str, bytes] | None = None) -> LoweredProgram:
    """The program of a payload; `macs` of each operator is computed anew.

    `provided` has the constants that the payload shares with others; without it their `data` is
    None. Raises ValueError with what was got and expected: for another identifier or format
    version, for a truncated or malformed payload, for a constant that `provided` lacks or has in
    another size, and for a program that fails `validate`.
    """
    root = _parse(data)
    constants = root.constants or []
    try:
        program = LoweredProgram(
            _text(root.target),
            [
                _read_tensor(i, table, constants, provided)
                for i, table in enumerate(root.tensors or [])
            ],
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
    constants = root.constants or []
    return PayloadHeader(
        root.formatVersion,
        _text(root.producer),
        _text(root.target),
        len(data),
        sum(len(c.data) for c in constants if c.data is not None),
        sum(c.size for c in constants),
    )
