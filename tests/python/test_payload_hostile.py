# SPDX-License-Identifier: BSD-3-Clause
"""Hostile payloads against the core built with AddressSanitizer and UBSan (tests/fuzz).

Broken payloads of two kinds: well-formed flatbuffers that lie, made here field by field, of which
each must be refused; and valid payloads cut at every length and changed in every bit, byte, half
word and word and at random, by the fuzzer itself, of which none may do harm.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import flatbuffers
import numpy as np
import pytest

from fused_quant import payload
from fused_quant import schema_generated as schema
from tests.python.payload_samples import SAMPLES
from tests.support.builders import build

ROOT = pathlib.Path(__file__).parents[2]
NAN, INFINITY = float("nan"), float("inf")
INT32_LIMITS = (-(2**31), 2**31 - 1)
UINT32_LIMITS = (0, 2**31 - 1, 2**31, 2**32 - 1)
INVALID_COMPATIBILITY, INVALID_PROGRAM, OPERATOR_MISSING = 1, 2, 3

Change = Callable[[Any], None]


@pytest.fixture(scope="module")
def fuzzer() -> pathlib.Path:
    """The program of tests/fuzz: of the preset host-asan where there is one, else built alone."""
    program = "fused_quant_payload_fuzz"
    build = ROOT / "build" / "host-asan"
    commands = [["cmake", "--build", str(build), "--target", program, "--parallel", "2"]]
    place = build / "tests" / "fuzz" / program
    if not (build / "build.ninja").exists():
        build = ROOT / "build" / "fuzz"
        source = ROOT / "tests" / "fuzz"
        python = f"-DPython3_EXECUTABLE={sys.executable}"
        commands = [
            ["cmake", "-G", "Ninja", "-S", str(source), "-B", str(build), python],
            ["cmake", "--build", str(build), "--parallel", "2"],
        ]
        place = build / program
    build.mkdir(parents=True, exist_ok=True)
    with (build / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes share the folder
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
    return place


def fuzz(
    fuzzer: pathlib.Path,
    folder: pathlib.Path,
    what: str,
    payloads: dict[str, bytes],
    seconds: float = 0,
) -> list[str]:
    """Let the fuzzer `refuse`, `accept` or `vary` the payloads; returns the lines it printed."""
    command = [str(fuzzer), "--seconds", str(seconds), what]
    for name, data in payloads.items():
        path = folder / f"{name}.fqp"
        path.write_bytes(data)
        command.append(path.name)
    environment = {
        **os.environ,
        "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    accepted = re.findall(r"^.*: code 0 .*$", done.stdout, re.MULTILINE)
    assert not accepted
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[:6000]
    return done.stdout.splitlines()


# ---- well-formed payloads that lie ---------------------------------------------------------------


class Raw:
    """Writes any payload object as it is: nothing is checked, only constants stay aligned."""

    def __init__(self, data: bytes) -> None:
        self.root = schema.PayloadT.InitFromPackedBuf(data)
        self.identifier = payload.IDENTIFIER
        for constant in self.root.constants or []:
            if constant.key is None:
                constant.Pack = _aligned_pack(constant)
        for table in (self.root, *self.root.tensors, *self.root.ops):
            _lists_for_arrays(table)
        for op in self.root.ops:
            _lists_for_arrays(op.params)

    def pack(self) -> bytes:
        builder = flatbuffers.Builder()
        builder.minalign = 16
        builder.Finish(self.root.Pack(builder), file_identifier=self.identifier)
        return bytes(builder.Output())


def _lists_for_arrays(table: Any) -> None:
    """The object API reads vectors as views of the bytes, which cannot be written."""
    for name, value in vars(table).items():
        if isinstance(value, np.ndarray):
            setattr(table, name, value.tolist())


def _aligned_pack(constant: Any) -> Callable[[Any], int]:
    return lambda builder: payload._pack_constant(builder, bytes(constant.data))


def _misaligned_pack(constant: Any) -> Callable[[Any], int]:
    """Writes the bytes 12 behind a multiple of 16."""

    def pack(builder: Any) -> int:
        data = bytes(constant.data)
        builder.Prep(16, len(data) + 12)  # from the end: 4 before a multiple of 16
        builder.StartVector(1, len(data), 4)
        builder.head -= len(data)
        builder.Bytes[builder.head : builder.head + len(data)] = data
        vector = builder.EndVector()
        schema.ConstantStart(builder)
        schema.ConstantAddData(builder, vector)
        return int(schema.ConstantEnd(builder))

    return pack


def misalign_constants(root: Any) -> None:
    for constant in root.constants:
        constant.Pack = _misaligned_pack(constant)


def sample(name: str) -> bytes:
    return payload.serialize(SAMPLES[name]())


def put(path: str, value: Any) -> Change:
    """Set a field, such as `ops.0.params.strideH` or `tensors.1.shape.2`."""

    def change(root: Any) -> None:
        *parents, last = path.split(".")
        holder = root
        for part in parents:
            holder = holder[int(part)] if part.isdigit() else getattr(holder, part)
        if last.isdigit():
            holder[int(last)] = value
        else:
            setattr(holder, last, value)

    return change


def swap_ops(root: Any) -> None:
    root.ops.reverse()


def read_own_output(root: Any) -> None:
    """The first step reads what it writes: a cycle of length one."""
    root.ops[0].inputs = [int(root.ops[0].outputs[0])]


def cycle(root: Any) -> None:
    """Each of two steps reads what the other writes."""
    first, second = root.ops[0], root.ops[1]
    first.inputs, second.inputs = list(second.outputs), list(first.outputs)


def write_twice(root: Any) -> None:
    root.ops.append(root.ops[-1])


def share_arena(root: Any) -> None:
    """All arena tensors at offset 0, so that a step's output lies on its input."""
    for tensor in root.tensors:
        if tensor.storage == schema.Storage.arena:
            tensor.location = 0


def no_shape(root: Any) -> None:
    root.tensors[0].shape = None


LIES: list[tuple[str, str, Change]] = [
    ("conv2d", "swapped", swap_ops),
    ("add", "reads-own-output", read_own_output),
    ("cast", "cycle", cycle),
    ("conv2d", "written-twice", write_twice),
    ("add", "shared-arena", share_arena),
    ("conv2d", "misaligned-constants", misalign_constants),
    ("conv2d", "no-ops", put("ops", [])),
    ("conv2d", "no-tensors", put("tensors", [])),
    ("conv2d", "no-constants", put("constants", [])),
    ("conv2d", "no-shape", no_shape),
    ("conv2d", "no-params", put("ops.0.params", None)),
    ("conv2d", "no-inputs", put("ops.0.inputs", [])),
    ("conv2d", "no-outputs", put("ops.0.outputs", [])),
    ("conv2d", "absent-input", put("ops.0.inputs.0", -1)),
    ("conv2d", "absent-weight", put("ops.0.inputs.1", -1)),
    ("conv2d", "writes-input", put("ops.0.outputs", [0])),
    ("conv2d", "writes-constant", put("ops.0.outputs", [1])),
    ("conv2d", "many-inputs", put("ops.0.inputs", [0] * 50)),
    ("conv2d", "other-op", put("ops.0.opcode", schema.OpCode.linear)),
    ("conv2d", "as-depthwise", put("ops.0.opcode", schema.OpCode.depthwise_conv2d)),
    ("depthwise_conv2d", "as-conv2d", put("ops.0.opcode", schema.OpCode.conv2d)),
    ("linear", "as-mean", put("ops.0.opcode", schema.OpCode.mean)),
    ("conv2d", "small-arena", put("arenaBytes", 16)),
    ("conv2d", "rank-200", put("tensors.0.shape", [1] * 200)),
    ("conv2d", "rank-7", put("tensors.0.shape", [1, 1, 1, 7, 6, 4, 1])),
    ("conv2d", "size-product-2^32", put("tensors.0.shape", [2**16, 2**16, 1, 1])),
    ("conv2d", "size-product-2^64", put("tensors.0.shape", [2**31, 2**31, 4, 1])),
    ("conv2d", "dim-order", put("tensors.0.dimOrder", [0, 2, 3, 3])),
    ("conv2d", "dim-order-length", put("tensors.0.dimOrder", [0, 1])),
    ("conv2d", "dim-order-range", put("tensors.0.dimOrder", [0, 2, 3, 200])),
    ("conv2d", "dtype", put("tensors.0.dtype", 200)),
    ("conv2d", "dtype-f32", put("tensors.0.dtype", schema.DType.f32)),
    ("conv2d", "storage", put("tensors.0.storage", 200)),
    ("conv2d", "scale-count", put("tensors.1.scale", [1.0] * 5)),
    ("conv2d", "axis", put("tensors.1.axis", 4)),
    ("conv2d", "axis-negative", put("tensors.1.axis", -100)),
    ("conv2d", "bias-dtype", put("tensors.2.dtype", schema.DType.f32)),
    ("conv2d", "bias-length", put("tensors.2.shape", [5])),
    ("conv2d", "multiplier-count", put("ops.0.params.multiplier", [2**30] * 5)),
    ("conv2d", "no-multiplier", put("ops.0.params.multiplier", [])),
    ("conv2d", "shift-count", put("ops.0.params.shift", [40] * 5)),
    ("linear", "weight-shape", put("tensors.1.shape", [7, 5])),
    ("linear_w4", "as-linear", put("ops.0.opcode", schema.OpCode.linear)),
    ("linear_w4", "no-groups", put("ops.0.params.groupSize", 0)),
    ("linear_w4", "groups-of-2", put("ops.0.params.groupSize", 2)),
    ("linear_w4", "groups-of-9", put("ops.0.params.groupSize", 9)),
    ("linear_w4", "groups-of-2^32-1", put("ops.0.params.groupSize", 2**32 - 1)),
    ("linear_w4", "multiplier-count", put("ops.0.params.multiplier", [2**30] * 7)),
    ("linear_w4", "multiplier-negative", put("ops.0.params.multiplier.20", -1)),
    ("linear_w4", "shift-count", put("ops.0.params.shift", [40] * 21)),
    ("linear_w4", "shift-63", put("ops.0.params.shift.6", 63)),
    ("linear_w4", "shift-1", put("ops.0.params.shift.0", 1)),
    ("linear_w4", "bias-dtype", put("tensors.2.dtype", schema.DType.s32)),
    ("linear_w4", "bias-shape", put("tensors.2.shape", [1, 1])),
    ("linear_w4", "real-scale", put("ops.0.params.realScale", [1.0])),
    ("linear_w4", "weight-s8", put("tensors.1.dtype", schema.DType.s8)),
    ("linear_w4", "weight-beyond", put("tensors.1.shape", [7, 11])),
    ("linear_w4", "input-s4", put("tensors.0.dtype", schema.DType.s4)),
    ("linear_w4", "arena-s4", put("tensors.3.dtype", schema.DType.s4)),
    ("linear_w4", "blocks-beyond", put("tensors.1.scaleShape", [7, 4])),
    ("linear_w4", "blocks-zero", put("tensors.1.scaleShape", [7, 0])),
    ("linear_w4", "blocks-rank", put("tensors.1.scaleShape", [21])),
    ("linear_w4", "blocks-count", put("tensors.1.scaleShape", [7, 9])),
    ("linear_w4", "blocks-axis", put("tensors.1.axis", 0)),
    ("linear_w4", "blocks-without-scales", put("tensors.4.scaleShape", [3, 7])),
    ("linear_w4", "codes-of-8-bits", put("tensors.1.quantMin", -9)),
    ("conv2d_w4", "as-conv2d", put("ops.0.opcode", schema.OpCode.conv2d)),
    ("conv2d_w4", "as-linear", put("ops.0.opcode", schema.OpCode.linear_w4)),
    ("conv2d_w4", "groups", put("ops.0.params.groups", 3)),
    ("conv2d_w4", "bias-of-groups", put("ops.0.params.groupSize", 1)),
    ("conv2d_w4", "bias-dtype", put("tensors.1.dtype", schema.DType.f32)),
    ("requantize", "shapes-differ", put("tensors.1.shape", [2, 8])),
    ("max_pool2d", "one-multiplier-no-shift", put("ops.1.params.shift", [])),
    ("max_pool2d", "pad-beyond-kernel", put("ops.0.params.padTop", 3)),
    ("avg_pool2d", "count-zero", put("ops.1.params.count", [0])),
    ("avg_pool2d", "count-missing", put("ops.1.params.count", [4])),
    ("add", "one-multiplier", put("ops.1.params.multiplier", [2**30])),
    ("add", "no-broadcast", put("tensors.1.shape", [1, 5, 4, 3])),
    ("mean", "axis-beyond", put("ops.0.params.axes", [1, 4])),
    ("mean", "axes-descend", put("ops.0.params.axes", [2, 1])),
    ("mean", "axis-twice", put("ops.0.params.axes", [1, 1])),
    ("permute", "perm-twice", put("ops.0.params.perm", [0, 0, 1, 2])),
    ("permute", "perm-range", put("ops.0.params.perm", [0, 200, 1, 2])),
    ("permute", "perm-length", put("ops.0.params.perm", [0, 3, 1])),
    ("cast", "quantize-perm", put("ops.0.params.perm", [0, 2, 3, 3])),
    ("cast", "dequantize-perm", put("ops.2.params.perm", [1, 0, 2, 3])),
    ("view", "view-of-itself", put("tensors.3.alias", 3)),
    ("view", "view-of-a-later", put("tensors.3.alias", 6)),
    ("view", "view-elsewhere", put("tensors.3.location", 0)),
    ("view", "view-shape", put("tensors.3.shape", [2, 11])),
    ("view", "written-view", put("ops.1.outputs", [3])),
]


def numeric_lies() -> Iterator[tuple[str, str, Change]]:
    """Values that no field of this kind may have, in every field of the kind."""
    for value in (0, 2**31 - 1, 2**32 - 1):
        for field in ("kernelH", "kernelW", "strideH", "strideW", "dilationH", "groups"):
            for name in ("conv2d", "depthwise_conv2d"):
                yield name, f"{field}-{value}", put(f"ops.0.params.{field}", value)
        for field in ("kernelH", "kernelW", "strideH", "strideW"):
            for name in ("max_pool2d", "avg_pool2d"):
                yield name, f"{field}-{value}", put(f"ops.0.params.{field}", value)
    for value in UINT32_LIMITS[1:]:
        for field in ("padTop", "padLeft", "padBottom", "padRight"):
            for name in ("conv2d", "depthwise_conv2d", "max_pool2d", "avg_pool2d"):
                yield name, f"{field}-{value}", put(f"ops.0.params.{field}", value)
    for value in UINT32_LIMITS:
        yield "conv2d", f"size-{value}", put("tensors.0.shape.1", value)
        yield "avg_pool2d", f"out-size-{value}", put("tensors.1.shape.1", value)
    for value in UINT32_LIMITS[1:]:
        yield "conv2d", f"input-{value}", put("inputs", [value])
        yield "conv2d", f"output-{value}", put("outputs", [value])
        yield "conv2d", f"constant-{value}", put("tensors.1.location", value)
        yield "conv2d", f"arena-{value}", put("tensors.3.location", value)
        yield "conv2d", f"input-position-{value}", put("tensors.0.location", value)
    for value in (*INT32_LIMITS, -2, 5, 100):
        yield "conv2d", f"operand-{value}", put("ops.0.inputs.0", value)
        yield "conv2d", f"result-{value}", put("ops.0.outputs.0", value)
    for scale in (NAN, INFINITY, -INFINITY, 0.0, -1.0, -0.0, 1e-45):
        yield "conv2d", f"tensor-scale-{scale}", put("tensors.0.scale", [scale])
        yield "cast", f"inverse-scale-{scale}", put("ops.0.params.inverseScale", scale)
        yield "cast", f"scale-{scale}", put("ops.2.params.scale", scale)
    for value in (0, 1, 63, 64, 200, 255):
        yield "conv2d", f"shift-{value}", put("ops.0.params.shift.2", value)
        yield "requantize", f"shift-{value}", put("ops.0.params.shift", [value])
        yield "add", f"shift-{value}", put("ops.1.params.shift", [12, value])
        yield "add", f"output-shift-{value}", put("ops.1.params.outputShift", value)
        yield "mean", f"shift-{value}", put("ops.0.params.shift", value)
        yield "max_pool2d", f"shift-{value}", put("ops.1.params.shift", [value])
        yield "avg_pool2d", f"shift-{value}", put("ops.1.params.shift", [value])
    for value in (-1, -(2**31)):
        yield "conv2d", f"multiplier-{value}", put("ops.0.params.multiplier.3", value)
        yield "add", f"output-multiplier-{value}", put("ops.1.params.outputMultiplier", value)
        yield "mean", f"multiplier-{value}", put("ops.0.params.multiplier", value)
    for value in (*INT32_LIMITS, -129, 128):
        for name in ("conv2d", "linear", "max_pool2d", "avg_pool2d", "mean", "requantize"):
            yield name, f"output-zero-point-{value}", put("ops.0.params.outputZeroPoint", value)
        for name in ("conv2d", "mean", "cast"):
            yield name, f"clamp-max-{value}", put("ops.0.params.clampMax", value)
        for name in ("conv2d", "linear", "mean"):
            yield name, f"input-zero-point-{value}", put("ops.0.params.inputZeroPoint", value)
        yield "conv2d", f"tensor-zero-point-{value}", put("tensors.0.zeroPoint", [value])
    yield "requantize", "clamp-crossed", put("ops.0.params.clampMax", -5)


def hostile() -> dict[str, tuple[bytes, int]]:
    """Name -> payload and the code it must be refused with."""
    found: dict[str, tuple[bytes, int]] = {}
    for name, label, change in (*LIES, *numeric_lies()):
        raw = Raw(sample(name))
        change(raw.root)
        assert f"{name}-{label}" not in found
        found[f"{name}-{label}"] = (raw.pack(), INVALID_PROGRAM)
    for label, field, value in (
        *(("key", "key", key) for key in (b"", b"fuzz", b"fuzz/0")),
        *(("size", "size", size) for size in (0, 71, 73, 2**31 - 1, 2**32 - 1)),
        ("data-too", "data", [0] * 72),
        ("no-key", "key", None),
    ):
        raw = Raw(shared_sample())
        (shared,) = [constant for constant in raw.root.constants if constant.key is not None]
        setattr(shared, field, value)
        found[f"shared-{label}-{value!r:.9}".replace("/", "+")] = (raw.pack(), INVALID_PROGRAM)
    raw = Raw(sample("conv2d"))
    raw.identifier = b"FQP2"
    found["identifier"] = (raw.pack(), INVALID_COMPATIBILITY)
    for version in (0, 2, 2**32 - 1):
        raw = Raw(sample("conv2d"))
        raw.root.formatVersion = version
        found[f"version-{version}"] = (raw.pack(), INVALID_COMPATIBILITY)
    raw = Raw(sample("conv2d"))
    raw.root.ops[0].opcode = 2**16 - 1
    found["unknown-opcode"] = (raw.pack(), OPERATOR_MISSING)
    found["empty"] = (b"", INVALID_PROGRAM)
    found["nothing-behind-the-identifier"] = (b"\x10\0\0\0FQP1" + bytes(8), INVALID_PROGRAM)
    return found


def test_well_formed_lies_are_refused(fuzzer: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cases = hostile()
    lines = fuzz(fuzzer, tmp_path, "refuse", {n: data for n, (data, _) in cases.items()})
    verdicts = dict(re.findall(r"^(.*)\.fqp: code (\d+) ", "\n".join(lines), re.MULTILINE))
    assert {n: int(c) for n, c in verdicts.items()} == {n: code for n, (_, code) in cases.items()}


# ---- valid payloads, cut and changed -------------------------------------------------------------


def case_payload(opcode: str) -> bytes:
    """The smallest payload among the first cases of an operator, its operands in the arena."""
    module = importlib.import_module(f"tests.cases.{opcode}")
    built = [build(opcode, parameters) for parameters in module.GRID[:40]]
    return min((case.payload(through_arena=True) for case in built), key=len)


def shared_sample() -> bytes:
    """A convolution whose weight the fuzzer provides (tests/fuzz/exercise.cpp)."""
    program = SAMPLES["conv2d"]()
    (weight,) = [tensor for tensor in program.tensors if tensor.name == "weight"]
    assert weight.nbytes == 72
    weight.key = "fuzz/"
    return payload.serialize(program)


def corpus() -> dict[str, bytes]:
    """A valid payload for every operator: the samples, and a case of each operator without one."""
    found = {name: sample(name) for name in SAMPLES}
    found["shared"] = shared_sample()
    covered = {op.opcode for program in SAMPLES.values() for op in program().ops}
    for opcode in sorted(set(payload.OPCODES.values()) - covered):
        found[f"case-{opcode}"] = case_payload(opcode)
    return found


def test_rewritten_payloads_are_accepted(fuzzer: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The control of the lies: what they are told in is accepted as long as it says the truth."""
    found = corpus()
    rewritten = {name: Raw(data).pack() for name, data in found.items()}
    for name, data in rewritten.items():
        assert payload.serialize(payload.deserialize(data)) == found[name]
    assert fuzz(fuzzer, tmp_path, "accept", rewritten)


@pytest.mark.slow
def test_no_change_of_a_valid_payload_does_harm(
    fuzzer: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    found = corpus()
    totals = fuzz(fuzzer, tmp_path, "vary", found, seconds=45)[-1]
    figures = dict(re.findall(r"(\w+) (\d+)", totals))
    # Each byte: its truncation, 8 bit flips, about 5 byte, 1.5 half word and 4 word values.
    assert int(figures["loads"]) > 15 * sum(map(len, found.values()))
    assert int(figures["executed"]) > 1000 * len(found)
    assert int(figures["invalid"]) > int(figures["accepted"])
