# SPDX-License-Identifier: BSD-3-Clause
"""inspect: what it shows of payloads and of ExecuTorch programs, and what it refuses."""

from __future__ import annotations

import json
import pathlib
import runpy
import subprocess
import sys
from collections.abc import Mapping

import pytest
from executorch.exir._serialize._program import PTEFile, serialize_pte_binary
from executorch.exir.schema import (
    BackendDelegate,
    BackendDelegateDataReference,
    BackendDelegateInlineData,
    Buffer,
    ContainerMetadata,
    DataLocation,
    ExecutionPlan,
    Program,
    SubsegmentOffsets,
)

from fused_quant import inspect, payload
from tests.python.payload_samples import SAMPLES


def executorch_program(
    methods: Mapping[str, list[tuple[str, bytes]]], segments: bool = True
) -> bytes:
    """An ExecuTorch program whose methods hold the given (backend id, data) delegates."""
    blobs: list[BackendDelegateInlineData] = []
    plans = []
    for name, delegates in methods.items():
        entries = []
        for backend, data in delegates:
            reference = BackendDelegateDataReference(DataLocation.INLINE, len(blobs))
            entries.append(BackendDelegate(backend, reference, []))
            blobs.append(BackendDelegateInlineData(data))
        meta = ContainerMetadata("", "")
        plans.append(ExecutionPlan(name, meta, [], [], [], [], [], entries, [0]))
    program = Program(0, plans, [Buffer(b"")], blobs, [], SubsegmentOffsets(0, []))
    return bytes(serialize_pte_binary(PTEFile(program), extract_delegate_segments=segments))


CONV, ADD, CAST = (payload.serialize(SAMPLES[name]()) for name in ("conv2d", "add", "cast"))
METHODS = {
    "forward": [("XnnpackBackend", b"not ours"), (payload.BACKEND_ID, CONV)],
    "other": [(payload.BACKEND_ID, ADD), (payload.BACKEND_ID, CAST)],
}


@pytest.mark.parametrize("segments", [True, False])
def test_delegates_are_found_in_every_method(segments: bool) -> None:
    pte = executorch_program(METHODS, segments)
    assert payload.extract_delegates(pte) == [
        payload.DelegatePayload("forward", 1, CONV),
        payload.DelegatePayload("other", 0, ADD),
        payload.DelegatePayload("other", 1, CAST),
    ]
    assert payload.extract_payloads(pte) == [CONV, ADD, CAST]


def test_payloads_in_segments_keep_their_alignment() -> None:
    pte = executorch_program(METHODS)
    for data in (CONV, ADD, CAST):
        assert pte.count(data) == 1
        assert pte.index(data) % 16 == 0


def test_command_line(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(executorch_program(METHODS))
    command = [sys.executable, "-m", "fused_quant.inspect", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    headings = [line for line in done.stdout.splitlines() if line.startswith("method ")]
    assert [line.split(":")[0] for line in headings] == [
        "method forward, delegate 1",
        "method other, delegate 0",
        "method other, delegate 1",
    ]
    assert inspect.main([str(path)]) == 0
    assert capsys.readouterr().out == done.stdout


def test_errors_reach_the_exit_code(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["inspect", str(tmp_path / "absent.pte")])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(inspect.__file__), run_name="__main__")
    assert stop.value.code == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "absent.pte" in streams.err


def test_table_shows_every_fact() -> None:
    text = inspect.to_text(inspect.inspect_payload(CONV))
    lines = text.splitlines()
    assert all(len(line) <= 160 for line in lines)
    header = "# operator tensor scale zero point place bytes multiplier shift clamp const MACs"
    assert lines[2].split() == header.split()
    block = "\n".join(lines[4:10])
    for fact in (
        "conv2d",
        "kernel 3,2",
        "stride 2,1",
        "dilation 1,2",
        "pad 1,2,0,1",
        "groups 2",
        "in   s8 1x7x6x4",
        "in   s8 6x3x2x2",
        "0.125..0.75 (6)",
        "in   s32 6",
        "out  s8 1x3x7x6",
        "input 0",
        "const #0",
        "arena +0",
        "1073741824..1073762309 (6)",
        "36..38 (6)",
        "-128..127",
        "1512",
    ):
        assert fact in block, fact
    assert "2 operators, 1,512 MACs" in text
    assert "of which constants 96" in text
    assert "arena 128 bytes (lower bound 128), scratch 0, persistent at most 1,024" in text
    assert "target generic" in lines[0]
    assert payload.producer() in lines[0]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_shown_within_160_columns(name: str) -> None:
    program = SAMPLES[name]()
    found = inspect.inspect_payload(payload.serialize(program))
    text = inspect.to_text(found)
    assert all(len(line) <= 160 for line in text.splitlines())
    shown = [line.split()[:2] for line in text.splitlines()]
    for number, op in enumerate(program.ops):
        assert [str(number), op.opcode] in shown
    # Each parameter that is set is in the JSON under its name in the schema.
    described = inspect.to_json(found)["ops"]
    for op, entry in zip(program.ops, described, strict=True):
        assert (entry["op"], entry["name"]) == (op.opcode, op.name)
        values = [[] if v is None else v for v in vars(op.params).values()]
        assert list(entry["params"].values()) == values
        assert all(key.islower() for key in entry["params"])


def test_absent_negation_and_neutral_parameters_are_not_listed() -> None:
    text = inspect.to_text(inspect.inspect_payload(payload.serialize(SAMPLES["requantize"]())))
    for word in ("negate", "kernel", "perm", "groups"):
        assert word not in text
    assert "-4..90" in text


def test_json(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(executorch_program(METHODS))
    assert inspect.main([str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(entry["method"], entry["delegate"]) for entry in found] == [
        ("forward", 1),
        ("other", 0),
        ("other", 1),
    ]
    conv = found[0]
    assert conv["producer"] == payload.producer()
    assert (conv["target"], conv["format_version"]) == ("generic", 1)
    assert conv["totals"] == {
        "payload_bytes": len(CONV),
        "constant_bytes": 96,
        "shared_bytes": 0,
        "arena_bytes": 128,
        "arena_lower_bound": 128,
        "scratch_bytes": 0,
        "persistent_bytes": 1024,
        "macs": 1512,
    }
    weight = conv["tensors"][conv["ops"][0]["inputs"][1]]
    assert weight["shape"] == [6, 3, 2, 2]
    assert weight["quantization"]["scale"] == [0.125 * c for c in range(1, 7)]
    assert weight["quantization"]["axis"] == 0
    params = conv["ops"][0]["params"]
    assert params["multiplier"] == [2**30 + 4097 * c for c in range(6)]
    assert (params["pad_top"], params["pad_left"], params["pad_right"]) == (1, 2, 1)
    assert conv["tensors"][0]["dim_order"] == [0, 2, 3, 1]


def test_raw_payload(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.fqp"
    path.write_bytes(CAST)
    assert inspect.main([str(path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["method"] is None
    assert [op["op"] for op in found["ops"]] == ["quantize", "copy", "dequantize"]


REFUSALS = {
    "no delegate": (executorch_program({"forward": [("XnnpackBackend", b"x")]}), "no method"),
    "no method": (executorch_program({}), "no method"),
    "half a payload": (CONV[: len(CONV) // 2], "cut short|malformed|expected"),
    "not a program": (b"GIF89a" + bytes(64), "ExecuTorch program identifier"),
    "empty": (b"", "ExecuTorch program identifier"),
    "other version": (
        executorch_program({"forward": [(payload.BACKEND_ID, b"\x10\0\0\0FQP9" + bytes(56))]}),
        "identifier: got b'FQP9'",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, message = REFUSALS[name]
    path = tmp_path / "broken"
    path.write_bytes(data)
    assert inspect.main([str(path)]) == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith(f"{path}: ")
    with pytest.raises(ValueError, match=message):
        inspect.inspect_file(data)


@pytest.mark.parametrize("percent", [25, 50, 75, 99])
def test_truncated_programs_are_refused(percent: int) -> None:
    pte = executorch_program(METHODS)
    with pytest.raises(ValueError, match=r"malformed|expected"):
        inspect.inspect_file(pte[: len(pte) * percent // 100])
