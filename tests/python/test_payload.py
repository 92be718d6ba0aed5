# SPDX-License-Identifier: BSD-3-Clause
"""Payload writer and reader: round trips, alignment, determinism, and refusal of broken bytes."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fused_quant import payload, payload_check
from fused_quant import schema_generated as schema
from fused_quant.lowered import (
    NUMPY_DTYPES,
    LoweredProgram,
    LoweredTensor,
    Storage,
    StoredQParams,
)
from fused_quant.memory_plan import plan_memory
from tests.python.payload_samples import SAMPLES, conv2d, view

ROOT = pathlib.Path(__file__).parents[2]


def plain(program: LoweredProgram) -> dict[str, Any]:
    """A program as plain values that compare by what a payload stores of them."""
    tensors = []
    for tensor in program.tensors:
        fields = {f.name: getattr(tensor, f.name) for f in dataclasses.fields(tensor)}
        if tensor.data is not None:
            fields["data"] = (tensor.data.dtype.name, tensor.data.tolist())
        tensors.append(fields)
    ops = []
    for op in program.ops:
        params = {
            name: [] if value is None else np.asarray(value).tolist()
            for name, value in vars(op.params).items()
        }
        ops.append((op.opcode, op.inputs, op.outputs, type(op.params).__name__, params, op.name))
    return {
        "tensors": tensors,
        "ops": ops,
        **{
            name: getattr(program, name)
            for name in ("target", "inputs", "outputs", "arena_bytes", "persistent_bytes")
        },
    }


INT32 = st.integers(-(2**31), 2**31 - 1)
UINT32 = st.integers(0, 2**32 - 1)
UINT8 = st.integers(0, 255)
FLOAT32 = st.floats(width=32, allow_nan=False)
TEXT = st.text(max_size=12)


def params_of_any_family() -> st.SearchStrategy[Any]:
    """Params with any value each field can hold, vectors also as tuples or numpy arrays."""
    ints = st.lists(INT32, max_size=5).flatmap(
        lambda v: st.sampled_from([v, tuple(v), np.asarray(v, np.int64)])
    )
    bytes_ = st.lists(UINT8, max_size=5)
    dot = st.builds(
        schema.DotParamsT,
        kernelH=UINT32,
        padRight=UINT32,
        groups=UINT32,
        inputZeroPoint=INT32,
        multiplier=ints,
        shift=bytes_,
        clampMin=INT32,
        clampMax=INT32,
    )
    window = st.builds(
        schema.WindowParamsT,
        strideW=UINT32,
        countIncludePad=st.booleans(),
        divisorOverride=UINT32,
        count=st.lists(UINT32, max_size=4),
        multiplier=ints,
        shift=bytes_,
    )
    elementwise = st.builds(
        schema.ElementwiseParamsT,
        inputZeroPoint=ints,
        negate=st.lists(st.booleans(), max_size=3),
        outputMultiplier=INT32,
        outputShift=UINT8,
    )
    cast = st.builds(
        schema.CastParamsT, scale=FLOAT32, inverseScale=FLOAT32, zeroPoint=INT32, perm=bytes_
    )
    reduce = st.builds(schema.ReduceParamsT, axes=bytes_, multiplier=INT32, shift=UINT8)
    layout = st.builds(schema.LayoutParamsT, perm=bytes_)
    return st.one_of(dot, window, elementwise, cast, reduce, layout)


@st.composite
def qparams(draw: st.DrawFn, dtype: str, shape: tuple[int, ...]) -> StoredQParams | None:
    kind: str = draw(st.sampled_from(["none", "tensor", "channel", "blocks"]))
    if kind == "none" or dtype in ("f32", "b8"):
        return None
    axis = draw(st.integers(0, len(shape) - 1)) if kind == "channel" and shape else -1
    blocks: tuple[int, ...] = ()
    if kind == "blocks":
        blocks = tuple(draw(st.sampled_from([1, size])) for size in shape)
    count = shape[axis] if axis >= 0 else math.prod(blocks)
    bits = 4 if dtype == "s4" else min(32, 8 * np.dtype(NUMPY_DTYPES[dtype]).itemsize)
    codes = (
        st.integers(0, 255)
        if dtype == "u8"
        else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    scale = st.floats(2.0**-126, 2.0**126, width=32)
    scales = tuple(draw(st.lists(scale, min_size=count, max_size=count)))
    zero_points = tuple(draw(st.lists(codes, min_size=count, max_size=count)))
    low, high = sorted((draw(codes), draw(codes)))
    return StoredQParams(scales, zero_points, low, high, axis, blocks)


def add_view(program: LoweredProgram, draw: st.DrawFn) -> None:
    """Perhaps add a view of an arena tensor that is no view itself: the same bytes, flat."""
    owners = [
        index
        for index, tensor in enumerate(program.tensors)
        if tensor.storage is Storage.ARENA and tensor.alias < 0
    ]
    if draw(st.booleans()) and owners:
        owner = draw(st.sampled_from(owners))
        base = program.tensors[owner]
        shape = (int(np.prod(base.shape)),)
        program.add_tensor(LoweredTensor("view", base.dtype, shape, Storage.ARENA, alias=owner))


@st.composite
def programs(draw: st.DrawFn) -> LoweredProgram:
    """Programs no runtime would accept, with every field taking any value the format can hold."""
    program = LoweredProgram(draw(TEXT))

    def tensor(storage: Storage) -> LoweredTensor:
        shape = tuple(draw(st.lists(st.integers(1, 4), max_size=6)))
        unpacked = [name for name in sorted(NUMPY_DTYPES) if name != "s4"]
        known = [*unpacked, "s4"] if storage is Storage.CONSTANT else unpacked
        dtype = draw(st.sampled_from(known))
        order = tuple(draw(st.permutations(range(len(shape))))) if draw(st.booleans()) else ()
        stored = LoweredTensor(
            draw(TEXT), dtype, shape, storage, order, draw(qparams(dtype, shape))
        )
        if storage is Storage.CONSTANT:
            fill = draw(st.integers(0, 3))  # few values, so that some constants are identical
            stored.data = np.full(shape, fill, NUMPY_DTYPES[dtype])
        return stored

    for position in range(draw(st.integers(0, 3))):
        new = tensor(Storage.INPUT)
        new.location = position
        program.inputs.append(program.add_tensor(new))
    for _ in range(draw(st.integers(0, 4))):
        program.add_tensor(tensor(Storage.CONSTANT))
    for _ in range(draw(st.integers(1, 4))):
        add_view(program, draw)
        readable = [-1, *range(len(program.tensors))]
        new = tensor(draw(st.sampled_from([Storage.ARENA, Storage.OUTPUT])))
        output = program.add_tensor(new)
        if new.storage is Storage.OUTPUT:
            new.location = len(program.outputs)
            program.outputs.append(output)
        inputs = draw(st.lists(st.sampled_from(readable), max_size=3))
        opcode = draw(st.sampled_from(sorted(payload.OPCODES.values())))
        program.add_op(opcode, inputs, [output], draw(params_of_any_family()), draw(TEXT))
    plan_memory(program)
    return program


@given(programs())
@settings(deadline=None, max_examples=100)
def test_round_trip(program: LoweredProgram) -> None:
    data = payload.serialize(program)
    again = payload.deserialize(data)
    assert plain(again) == plain(program)
    assert payload.serialize(again) == data


@given(programs())
@settings(deadline=None, max_examples=50)
def test_constants_are_aligned_and_stored_once(program: LoweredProgram) -> None:
    data = payload.serialize(program)
    assert len(data) % 16 == 0
    root = schema.Payload.GetRootAs(data)
    stored = []
    for index in range(root.ConstantsLength()):
        table = root.Constants(index)._tab
        start = table.Vector(table.Offset(4))
        length = table.VectorLen(table.Offset(4))
        assert start % 16 == 0
        stored.append(data[start : start + length])
    assert len(set(stored)) == len(stored)
    for tensor in program.tensors:
        if tensor.data is not None:
            assert stored[tensor.location] == payload.stored_bytes(tensor)
            assert len(stored[tensor.location]) == tensor.nbytes
    header = payload.read_header(data)
    assert header == payload.PayloadHeader(
        1, payload.producer(), program.target, len(data), sum(map(len, stored))
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_round_trip(name: str) -> None:
    program = SAMPLES[name]()
    data = payload.serialize(program)
    assert plain(payload.deserialize(data)) == plain(program)
    assert payload.serialize(SAMPLES[name]()) == data


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "import hashlib\n"
        "from fused_quant import payload\n"
        "from tests.python.payload_samples import SAMPLES\n"
        "for sample in SAMPLES.values():\n"
        "    print(hashlib.sha256(payload.serialize(sample())).hexdigest())\n"
    )
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    here = [hashlib.sha256(payload.serialize(s())).hexdigest() for s in SAMPLES.values()]
    assert done.stdout.split() == here


def test_macs_are_counted_from_the_payload() -> None:
    counts = {
        name: payload.deserialize(payload.serialize(sample())).ops[0].macs
        for name, sample in SAMPLES.items()
    }
    assert counts["conv2d"] == 1 * 3 * 7 * 6 * (3 * 2 * 2)
    assert counts["depthwise_conv2d"] == 2 * 5 * 3 * 6 * (2 * 3)
    assert counts["linear"] == 3 * 5 * 7
    assert counts["linear_without_bias"] == 5 * 7
    assert counts["linear_w4"] == 3 * 7 * 9
    assert counts["conv2d_w4"] == 1 * 3 * 7 * 6 * (3 * 2 * 2)
    weighted = {"conv2d", "depthwise_conv2d", "linear", "linear_without_bias"}
    others = set(SAMPLES) - weighted - {"linear_w4", "conv2d_w4"}
    assert {counts[name] for name in others} == {0}


def test_limits_agree_with_the_runtime() -> None:
    headers = "".join((ROOT / "runtime" / n).read_text() for n in ("payload.h", "tensor_view.h"))
    found = dict(re.findall(r"constexpr \w+ k(\w+) = (\w+);", headers))
    assert int(found["FormatVersion"]) == payload.FORMAT_VERSION
    assert int(found["Alignment"]) == payload_check.ALIGNMENT
    assert int(found["MaxRank"]) == payload_check.MAX_RANK
    assert int(found["MaxTensorBytes"], 16) == payload_check.MAX_TENSOR_BYTES
    assert int(found["MaxTensors"]) == payload_check.MAX_TENSORS
    assert int(found["MaxOps"]) == payload_check.MAX_OPS
    assert int(found["MaxOperands"]) == payload_check.MAX_OPERANDS


def test_every_field_of_the_schema_is_documented() -> None:
    fields = re.findall(
        r"^  (\w+): ", (ROOT / "schema" / "fused_quant.fbs").read_text(), re.MULTILINE
    )
    page = (ROOT / "docs" / "payload_format.md").read_text()
    assert len(fields) > 60
    assert [field for field in fields if f"`{field}`" not in page] == []


# ---- refusals ------------------------------------------------------------------------------------


def test_other_identifier_is_refused() -> None:
    data = bytearray(payload.serialize(conv2d()))
    data[4:8] = b"FQP2"
    with pytest.raises(ValueError, match=r"identifier: got b'FQP2', expected b'FQP1'"):
        payload.deserialize(bytes(data))


def test_other_version_is_refused() -> None:
    data = bytearray(payload.serialize(conv2d()))
    table = schema.Payload.GetRootAs(data)._tab
    struct.pack_into("<I", data, table.Pos + table.Offset(4), 2)
    with pytest.raises(ValueError, match="format version: got 2, expected 1"):
        payload.deserialize(bytes(data))
    with pytest.raises(ValueError, match="format version: got 2, expected 1"):
        payload.read_header(bytes(data))


@pytest.mark.parametrize("name", ["conv2d", "cast"])  # with and without constants
def test_every_truncation_is_refused(name: str) -> None:
    data = payload.serialize(SAMPLES[name]())
    for size in range(len(data)):
        with pytest.raises(ValueError, match=r"payload|tensor|op|got"):
            payload.deserialize(data[:size])


@pytest.mark.parametrize("name", SAMPLES)
def test_flipped_bytes_raise_nothing_but_value_errors(name: str) -> None:
    data = bytearray(payload.serialize(SAMPLES[name]()))
    generator = random.Random(name)
    for _ in range(400):
        position, value = generator.randrange(len(data)), generator.randrange(1, 256)
        data[position] ^= value
        with contextlib.suppress(ValueError):
            payload.deserialize(bytes(data))
        data[position] ^= value


def tensor_of(program: LoweredProgram, storage: Storage) -> LoweredTensor:
    return next(tensor for tensor in program.tensors if tensor.storage is storage)


def set_qparams(**changes: Any) -> Any:
    def change(program: LoweredProgram) -> None:
        tensor = tensor_of(program, Storage.INPUT)
        assert tensor.qparams is not None
        tensor.qparams = dataclasses.replace(tensor.qparams, **changes)

    return change


def set_tensor(storage: Storage, **changes: Any) -> Any:
    def change(program: LoweredProgram) -> None:
        for name, value in changes.items():
            setattr(tensor_of(program, storage), name, value)

    return change


def set_op(**changes: Any) -> Any:
    def change(program: LoweredProgram) -> None:
        for name, value in changes.items():
            setattr(program.ops[0], name, value)

    return change


REFUSALS: dict[str, tuple[Any, str]] = {
    "scale not float32": (set_qparams(scale=(0.1,)), "scale: got 0.1"),
    "scale zero": (set_qparams(scale=(0.0,)), "scale: got 0.0"),
    "scale small": (set_qparams(scale=(2.0**-127,)), "scale: got 5.87"),
    "scale infinite": (set_qparams(scale=(float("inf"),)), "scale: got inf"),
    "scale nan": (set_qparams(scale=(float("nan"),)), "scale: got nan"),
    "zero points": (set_qparams(zero_point=(1, 2)), "one per scale"),
    "two scales": (set_qparams(scale=(1.0, 2.0), zero_point=(0, 0)), "without an axis: got 2"),
    "axis": (set_qparams(axis=4), "axis: got 4"),
    "axis size": (set_qparams(axis=1), "got 1, expected 7"),
    "range": (set_qparams(quant_min=5, quant_max=4), r"range: got \(5, 4\)"),
    "range of codes": (set_qparams(quant_max=128), r"range: got \(-128, 128\)"),
    "zero point": (set_qparams(zero_point=(-129,)), "zero point: got -129"),
    "float scale": (set_tensor(Storage.INPUT, dtype="f32"), "expected none of dtype f32"),
    "scale of truth values": (
        set_tensor(Storage.INPUT, dtype="b8"),
        "expected none of dtype b8",
    ),
    "no operators": (lambda p: p.ops.clear(), "operators: got 0"),
    "dtype": (set_tensor(Storage.INPUT, dtype="s3"), "dtype: got s3"),
    "s4-input": (
        set_tensor(Storage.INPUT, dtype="s4", qparams=None),
        "storage of s4: got input, expected constant",
    ),
    "rank": (set_tensor(Storage.INPUT, shape=(1,) * 7), "rank: got 7"),
    "empty": (set_tensor(Storage.INPUT, shape=(1, 0, 6, 4)), "sizes >= 1"),
    "huge": (set_tensor(Storage.INPUT, shape=(2**31, 1, 1, 1)), "got 2147483648"),
    "dim order": (set_tensor(Storage.INPUT, dim_order=(0, 1, 1, 2)), "permutation of 4"),
    "unplanned": (set_tensor(Storage.ARENA, location=-1), "run plan_memory first"),
    "misaligned": (set_tensor(Storage.ARENA, location=8), "multiple of 16"),
    "past the arena": (set_tensor(Storage.ARENA, location=16), "end in the arena: got 142"),
    "no data": (set_tensor(Storage.CONSTANT, data=None), "data: got None"),
    "data dtype": (set_tensor(Storage.CONSTANT, data=np.zeros((6, 3, 2, 2))), "float64"),
    "data shape": (set_tensor(Storage.CONSTANT, shape=(6, 3, 4)), "data: got"),
    "position": (set_tensor(Storage.INPUT, location=1), "location: got 1, expected 0"),
    "unlisted input": (lambda p: p.inputs.clear(), "stored as input: got 1, expected 0"),
    "listed twice": (lambda p: p.outputs.append(p.outputs[0]), "location: got 0, expected 1"),
    "input index": (lambda p: p.inputs.append(77), "input 1: got 77"),
    "wrong list": (lambda p: p.outputs.append(0), "storage: got input, expected output"),
    "opcode": (set_op(opcode="conv9d"), "opcode: got conv9d"),
    "no output": (set_op(outputs=()), "at least one"),
    "params": (set_op(params=object()), "params: got object"),
    "view of a later": (set_tensor(Storage.ARENA, alias=5), "earlier tensor"),
    "view of an input": (set_tensor(Storage.ARENA, alias=0), "storage of a view"),
    "view below -1": (set_tensor(Storage.ARENA, alias=-2), "alias: got -2"),
    "order": (lambda p: p.ops.reverse(), "earlier operator wrote"),
    "too many": (lambda p: p.tensors.extend([p.tensors[1]] * 16384), "at most 16384"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_programs_that_no_runtime_accepts_are_refused(name: str) -> None:
    change, message = REFUSALS[name]
    program = copy.deepcopy(conv2d())
    change(program)
    with pytest.raises(ValueError, match=message):
        payload.serialize(program)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": (2, 3, 4)}, "bytes of a view: got 24, expected 20"),
        ({"dtype": "u8", "qparams": None}, "dtype of a view: got u8"),
        ({"location": 0}, "location of a view"),
        ({"alias": 4}, "earlier tensor"),
    ],
)
def test_views_that_differ_from_their_owner_are_refused(
    change: dict[str, Any], message: str
) -> None:
    program = view()
    (index,) = (i for i, tensor in enumerate(program.tensors) if tensor.alias >= 0)
    for name, value in change.items():
        setattr(program.tensors[index], name, value)
    with pytest.raises(ValueError, match=message):
        payload.serialize(program)


def test_views_are_only_read() -> None:
    program = view()
    (index,) = (i for i, tensor in enumerate(program.tensors) if tensor.alias >= 0)
    program.ops[-1].inputs, program.ops[-2].outputs = program.ops[-2].outputs, (index,)
    with pytest.raises(ValueError, match=r"op 1 .*: output: got tensor"):
        payload.serialize(program)


def test_not_an_executorch_program() -> None:
    with pytest.raises(ValueError, match="ExecuTorch program identifier"):
        payload.extract_payloads(b"no program at all")
    with pytest.raises(ValueError, match="malformed ExecuTorch program of 40 bytes"):
        payload.extract_payloads(b"\x10\0\0\0ET12" + bytes(32))
