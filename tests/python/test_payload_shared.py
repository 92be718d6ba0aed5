# SPDX-License-Identifier: BSD-3-Clause
"""Payloads whose constants the program keeps: written, read, run, and refused when they lie."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from typing import Any

import flatbuffers
import numpy as np
import pytest

from fused_quant import native, payload
from fused_quant import schema_generated as schema
from fused_quant.lowered import LoweredProgram, Storage
from fused_quant.sharing import MIN_SHARED_BYTES, share_constants
from tests.python.payload_samples import SAMPLES, conv2d


def _weight(program: LoweredProgram) -> int:
    """The index of the convolution's weight, large enough to be shared."""
    (index,) = [i for i, t in enumerate(program.tensors) if t.name == "weight"]
    assert program.tensors[index].nbytes == 72 >= MIN_SHARED_BYTES
    return index


def _other(program: LoweredProgram) -> LoweredProgram:
    """A different program with the same constants."""
    other = copy.deepcopy(program)
    other.ops[0].params.clampMin += 1
    return other


def _shared() -> tuple[bytes, dict[str, bytes]]:
    first = conv2d()
    kept, _ = share_constants([first, _other(first)])
    return payload.serialize(first), kept


def _inputs(plan: native.Plan) -> list[np.ndarray[Any, Any]]:
    (info,) = plan.inputs
    count = int(np.prod(info.shape))
    return [(np.arange(count) * 29 % 251 - 125).astype(np.int8).reshape(info.shape)]


def _rewritten(data: bytes, change: Callable[[Any], None]) -> bytes:
    """A payload with the Constant object of the shared weight changed, written unchecked."""
    root = schema.PayloadT.InitFromPackedBuf(data)
    for constant in root.constants:
        if constant.key is not None:
            change(constant)
            constant.Pack = _lying_pack(constant)
        else:
            constant.Pack = _inside_pack(constant)
    builder = flatbuffers.Builder(4096)
    builder.minalign = 16
    builder.Finish(root.Pack(builder), file_identifier=b"FQP1")
    return bytes(builder.Output())


def _inside_pack(constant: Any) -> Callable[[Any], int]:
    return lambda builder: payload._pack_constant(builder, constant.data.tobytes())


def _lying_pack(constant: Any) -> Callable[[Any], int]:
    def pack(builder: Any) -> int:
        key = None if constant.key is None else builder.CreateString(constant.key)
        vector = None
        if constant.data is not None:
            builder.StartVector(1, len(constant.data), 16)
            for byte in reversed(constant.data):
                builder.PrependByte(byte)
            vector = builder.EndVector()
        schema.ConstantStart(builder)
        if vector is not None:
            schema.ConstantAddData(builder, vector)
        if key is not None:
            schema.ConstantAddKey(builder, key)
        schema.ConstantAddSize(builder, constant.size)
        return int(schema.ConstantEnd(builder))

    return pack


def test_key_is_the_digest_of_the_bytes() -> None:
    program = conv2d()
    codes = program.tensors[_weight(program)].data
    assert codes is not None
    _, kept = _shared()
    digest = hashlib.sha256(codes.tobytes()).hexdigest()
    assert kept == {f"fused_quant/{digest}": codes.tobytes()}


def test_only_what_different_payloads_hold_is_shared() -> None:
    program = conv2d()
    alone = payload.serialize(program)
    assert share_constants([program]) == [{}]
    assert share_constants([]) == []
    assert share_constants([conv2d(), conv2d()]) == [{}, {}]  # one payload, used twice
    changed = conv2d()
    data = changed.tensors[_weight(changed)].data
    assert data is not None
    data[0, 0, 0, 0] += 1
    assert share_constants([program, changed]) == [{}, {}]
    assert payload.serialize(program) == alone


def test_a_third_payload_without_the_constant_is_left_alone() -> None:
    first, third = conv2d(), SAMPLES["linear"]()
    before = payload.serialize(third)
    kept = share_constants([first, third, _other(first)])
    assert [len(one) for one in kept] == [1, 0, 1]
    assert kept[0] == kept[2]
    assert payload.serialize(third) == before


def test_small_constants_stay_inside() -> None:
    data, _ = _shared()
    constants = schema.PayloadT.InitFromPackedBuf(data).constants
    bias = [c for c in constants if c.key is None]
    assert [len(c.data) for c in bias] == [24]
    assert [c.size for c in constants if c.key is not None] == [72]


def test_round_trip_with_and_without_the_bytes() -> None:
    data, kept = _shared()
    index = _weight(conv2d())
    with_bytes, without = payload.deserialize(data, kept), payload.deserialize(data)
    expected, got = conv2d().tensors[index].data, with_bytes.tensors[index].data
    assert expected is not None
    assert got is not None
    assert np.array_equal(got, expected)
    assert without.tensors[index].data is None
    assert [with_bytes.tensors[index].key] == [without.tensors[index].key] == list(kept)
    assert payload.serialize(with_bytes) == payload.serialize(without) == data
    header = payload.read_header(data)
    assert (header.constant_bytes, header.shared_bytes) == (24, 72)
    assert len(data) < len(payload.serialize(conv2d())) + 72 + 120  # a key, not a copy


def test_bits_are_those_of_the_payload_that_holds_everything() -> None:
    data, kept = _shared()
    alone = native.Plan(payload.serialize(conv2d()))
    plan = native.Plan(data, constants={"another": b"x", **kept})
    (got,), (expected,) = plan.run(_inputs(plan)), alone.run(_inputs(alone))
    assert np.array_equal(got, expected)
    assert native.memory_needs(data, constants=kept) == alone.needs
    assert np.array_equal(native.run_payload(data, _inputs(plan), constants=kept)[0], expected)


def _refused(data: bytes, what: str, **options: Any) -> None:
    with pytest.raises(native.PayloadError, match=what) as raised:
        native.Plan(data, **options)
    assert raised.value.code == native.Code.INVALID_PROGRAM


def test_no_provider_no_key_or_another_size_is_refused() -> None:
    data, kept = _shared()
    ((key, content),) = kept.items()
    _refused(data, "nothing provides any")
    for wrong in ("", key[:-1], key + "0", key.upper()):
        _refused(data, "not provided under its key", constants={wrong: content})
        with pytest.raises(ValueError, match="key: got"):
            payload.deserialize(data, {wrong: content})
    for other in (b"", content[:-1], content + b"\0"):
        _refused(data, "of another size|not provided", constants={key: other})
        with pytest.raises(ValueError, match="bytes of fused_quant/"):
            payload.deserialize(data, {key: other})


@pytest.mark.parametrize("offset", range(1, 16))
def test_misaligned_bytes_are_refused(offset: int) -> None:
    data, kept = _shared()
    _refused(data, "shared constant is not 16-byte aligned", constants=kept, constant_offset=offset)


def _both(constant: Any) -> None:
    constant.data = np.zeros(72, np.uint8)


def _no_key(constant: Any) -> None:
    constant.key = None


def _empty_key(constant: Any) -> None:
    constant.key = ""


def _size(value: int) -> Callable[[Any], None]:
    return lambda constant: setattr(constant, "size", value)


LIES: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "key-and-data": (_both, "with a key and data", "data beside the key"),
    "size-without-key": (_no_key, "with a size and no key", "size without a key"),
    "empty-key": (_empty_key, "with an empty key", "key: got ''"),
    **{
        f"size-{value}": (_size(value), "of another size", "bytes")
        for value in (0, 1, 71, 73, 2**31 - 1, 2**31, 2**32 - 1)
    },
}


@pytest.mark.parametrize("lie", LIES)
def test_hostile_constants_are_refused(lie: str) -> None:
    data, kept = _shared()
    change, native_says, python_says = LIES[lie]
    spoilt = _rewritten(data, change)
    _refused(spoilt, native_says, constants={"": b"", **kept})
    for provided in (None, kept):
        with pytest.raises(ValueError, match=python_says):
            payload.deserialize(spoilt, provided)


def test_rewriting_without_a_lie_is_accepted() -> None:
    data, kept = _shared()
    plan = native.Plan(_rewritten(data, lambda constant: None), constants=kept)
    assert len(plan.steps) == 2


def test_a_key_belongs_to_constants() -> None:
    program = conv2d()
    index = next(i for i, t in enumerate(program.tensors) if t.storage is Storage.ARENA)
    program.tensors[index].key = "fused_quant/x"
    with pytest.raises(ValueError, match="storage with a key: got arena, expected constant"):
        payload.serialize(program)
