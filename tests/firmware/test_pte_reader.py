# SPDX-License-Identifier: BSD-3-Clause
"""The bare-metal .pte reader, built for the host with AddressSanitizer and UBSan."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch.exir import schema as et
from executorch.exir.backend.backend_details import (
    BackendDetails,
    CompileSpec,
    ExportedProgram,
    PreprocessResult,
)
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult

from firmware.tools import find_tool, run_tool
from tests.firmware.pte_files import BACKEND_ID, Plan, call, make_pte, tensor

PAYLOAD = bytes(range(1, 200))
KEY = "fused_quant/0123456789abcdef"
CONSTANT = bytes(range(50, 150))
INVALID_COMPATIBILITY, INVALID_PROGRAM, NOT_SUPPORTED, INVALID_ARGUMENT = 1, 2, 4, 6


@pytest.fixture(scope="session")
def pte_check(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The host program of CMakeLists.txt beside this file."""
    build = tmp_path_factory.mktemp("pte_check")
    source = Path(__file__).parent
    python = f"-DPython3_EXECUTABLE={sys.executable}"
    run_tool([find_tool("cmake"), "-G", "Ninja", "-S", source, "-B", build, python])
    run_tool([find_tool("cmake"), "--build", build, "-j2", "--target", "pte_check"])
    return build / "pte_check"


class Reader:
    """Calls the host program on files in a folder of the test."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._file = folder / "model.pte"

    def _run(self, data: bytes, mode: str, *more: str) -> dict[str, Any]:
        self._file.write_bytes(data)
        done = subprocess.run(
            [self._program, mode, self._file, *more],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def show(
        self,
        data: bytes,
        method: str = "forward",
        shift: int = 0,
        backend_id: str = BACKEND_ID,
        key: str = KEY,
    ) -> dict[str, Any]:
        return self._run(data, "show", method, str(shift), backend_id, key)

    def error(self, data: bytes, method: str = "forward", shift: int = 0) -> tuple[int, str]:
        result = self.show(data, method, shift)
        return result["code"], result.get("what", "")

    def mutate(self, data: bytes) -> dict[str, Any]:
        return self._run(data, "mutate", KEY)


@pytest.fixture
def reader(pte_check: Path, tmp_path: Path) -> Reader:
    return Reader(pte_check, tmp_path)


def simple(**changes: Any) -> Plan:
    """One input of shape (2, 3), one output of shape (5,)."""
    fields: dict[str, Any] = {
        "values": [tensor((2, 3)), tensor((5,), "f32")],
        "inputs": [0],
        "outputs": [1],
        "instructions": [call(0, 1)],
    }
    return Plan(**{**fields, **changes})


@pytest.mark.parametrize("segments", [True, False])
def test_payload_is_found_in_place(reader: Reader, segments: bool) -> None:
    data = make_pte([simple()], [PAYLOAD], segments)
    assert (b"eh00" in data[:16]) == segments
    result = reader.show(data)
    assert result["code"] == 0
    assert data[result["offset"] : result["offset"] + result["size"]] == PAYLOAD
    assert result["offset"] % 16 == 0
    assert result["inputs"] == [
        {"scalar_type": 1, "nbytes": 6, "sizes": [2, 3], "dim_order": [0, 1]}
    ]
    assert result["outputs"] == [{"scalar_type": 6, "nbytes": 20, "sizes": [5], "dim_order": [0]}]
    assert result["delegate_inputs"] == [0]
    assert result["output_sources"] == [0]


def test_arguments_in_any_order(reader: Reader) -> None:
    # Program inputs are values 4, 2, 0 and outputs 1, 3; the call names them in another order.
    values = [tensor((n + 1,)) for n in range(5)]
    plan = Plan(values, [4, 2, 0], [1, 3], [call(0, 4, 2, 3, 1)])
    result = reader.show(make_pte([plan], [PAYLOAD]))
    assert result["delegate_inputs"] == [2, 0, 1]
    assert result["output_sources"] == [1, 0]
    assert [item["sizes"] for item in result["inputs"]] == [[5], [3], [1]]


def test_input_twice_unused_input_and_output_twice(reader: Reader) -> None:
    values = [tensor((4,)) for _ in range(4)]
    plan = Plan(values, [0, 1, 2], [3, 3], [call(2, 2, 0, 3)])
    result = reader.show(make_pte([plan], [PAYLOAD]))
    assert result["delegate_inputs"] == [2, 2, 0]
    assert result["delegate_outputs"] == 1
    assert result["output_sources"] == [0, 0]


def test_no_inputs_and_scalar_output(reader: Reader) -> None:
    plan = Plan([tensor((), "f32")], [], [0], [call(0)])
    result = reader.show(make_pte([plan], [PAYLOAD]))
    assert result["delegate_inputs"] == []
    assert result["outputs"][0] == {"scalar_type": 6, "nbytes": 4, "sizes": [], "dim_order": []}


def test_channels_last_order_is_reported(reader: Reader) -> None:
    values = [tensor((1, 2, 3, 4), dim_order=(0, 2, 3, 1)), tensor((1,))]
    result = reader.show(make_pte([simple(values=values)], [PAYLOAD]))
    assert result["inputs"][0]["sizes"] == [1, 2, 3, 4]
    assert result["inputs"][0]["dim_order"] == [0, 2, 3, 1]


def test_method_and_delegate_are_chosen_by_name_and_index(reader: Reader) -> None:
    payloads = [PAYLOAD, b"another payload."]
    first = simple(name="encode", backend_ids=("XnnpackBackend", BACKEND_ID))
    first.instructions = [call(0, 1, delegate=1)]
    second = simple(name="decode")
    data = make_pte([first, second], payloads)
    encode, decode = reader.show(data, "encode"), reader.show(data, "decode")
    assert data[encode["offset"] :][: encode["size"]] == payloads[1]
    assert data[decode["offset"] :][: decode["size"]] == payloads[0]
    assert reader.error(data) == (INVALID_ARGUMENT, ".pte: no method of this name")


@pytest.mark.parametrize("shift", range(1, 16))
def test_misaligned_file_is_refused(reader: Reader, shift: int) -> None:
    data = make_pte([simple()], [PAYLOAD])
    assert reader.error(data, shift=shift)[0] == INVALID_ARGUMENT


KERNEL_CALL = et.Instruction(et.KernelCall(0, [0, 1]))
NOT_DELEGATED = {
    "kernel call": simple(instructions=[KERNEL_CALL], operators=("aten::add",)),
    "kernel call after": simple(instructions=[call(0, 1), KERNEL_CALL], operators=("aten::add",)),
    "move": simple(instructions=[call(0, 1), et.Instruction(et.MoveCall(0, 1))]),
    "two calls": simple(instructions=[call(0, 1), call(0, 1)]),
    "no instruction": simple(instructions=[]),
    "two chains": simple(num_chains=2),
    "no chain": simple(num_chains=0),
    "other backend": simple(backend_ids=("XnnpackBackend",)),
    "longer backend id": simple(backend_ids=(BACKEND_ID + "2",)),
    "constant argument": Plan([tensor((1,))] * 3, [0], [2], [call(0, 1, 2)]),
    "output returned as it came in": Plan([tensor((1,))] * 3, [0], [1, 0], [call(0, 1)]),
    "scalar argument": Plan(
        [tensor((1,)), et.EValue(et.Int(3)), tensor((1,))], [0, 1], [2], [call(0, 1, 2)]
    ),
    "output before input": simple(instructions=[call(1, 0)]),
}


@pytest.mark.parametrize("kind", NOT_DELEGATED)
def test_not_fully_delegated(reader: Reader, kind: str) -> None:
    code, what = reader.error(make_pte([NOT_DELEGATED[kind]], [PAYLOAD]))
    assert code == NOT_SUPPORTED
    assert what.startswith(".pte: ")


def test_dynamic_shape_is_refused(reader: Reader) -> None:
    plan = simple()
    plan.values[0].val.shape_dynamism = et.TensorShapeDynamism.DYNAMIC_BOUND
    assert reader.error(make_pte([plan], [PAYLOAD])) == (
        NOT_SUPPORTED,
        ".pte: tensor of dynamic shape",
    )


DAMAGED = {
    "delegate index": simple(instructions=[call(0, 1, delegate=1)]),
    "negative delegate index": simple(instructions=[call(0, 1, delegate=-1)]),
    "input value": simple(inputs=[2]),
    "negative output value": simple(outputs=[-1]),
    "output written twice": simple(instructions=[call(0, 1, 1)]),
    "negative size": simple(values=[tensor((2, -3)), tensor((5,))]),
    "size product": simple(values=[tensor((2**30, 2**30, 2**30)), tensor((5,))]),
    "dim order": simple(values=[tensor((2, 3), dim_order=(0, 0)), tensor((5,))]),
    "dim order range": simple(values=[tensor((2, 3), dim_order=(0, 2)), tensor((5,))]),
    "dim order length": simple(values=[tensor((2, 3), dim_order=(0,)), tensor((5,))]),
    "rank": simple(values=[tensor((1,) * 17), tensor((5,))]),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_fields(reader: Reader, kind: str) -> None:
    assert reader.error(make_pte([DAMAGED[kind]], [PAYLOAD]))[0] == INVALID_PROGRAM


def test_empty_payload(reader: Reader) -> None:
    assert reader.error(make_pte([simple()], [b""]))[0] == INVALID_PROGRAM


def test_other_schema_version_and_identifier(reader: Reader) -> None:
    data = make_pte([simple()], [PAYLOAD], version=1)
    assert reader.error(data) == (INVALID_COMPATIBILITY, ".pte: schema version")
    other = data[:4] + b"ET13" + data[8:]
    assert reader.error(other) == (INVALID_COMPATIBILITY, ".pte: identifier is not ET12")
    assert reader.error(b"")[0] == INVALID_COMPATIBILITY


def header_field(data: bytes, offset: int, value: int, width: int = 8) -> bytes:
    """The file with one little-endian field of its extended header replaced."""
    return data[: 8 + offset] + value.to_bytes(width, "little") + data[8 + offset + width :]


@pytest.mark.parametrize("value", [0, 1, 2**31 - 1, 2**32 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("offset", [8, 16, 24], ids=["program", "base", "segments"])
def test_hostile_extended_header(reader: Reader, offset: int, value: int) -> None:
    data = make_pte([simple()], [PAYLOAD])
    code, _ = reader.error(header_field(data, offset, value))
    unset_segment_size = offset == 24 and value == 0  # legal: old files leave it out
    assert code == (0 if unset_segment_size else INVALID_PROGRAM)


def test_header_without_segment_size(reader: Reader) -> None:
    data = header_field(make_pte([simple()], [PAYLOAD]), 4, 24, 4)
    assert reader.show(data)["size"] == len(PAYLOAD)
    assert reader.error(header_field(data, 4, 23, 4))[0] == INVALID_PROGRAM


@pytest.mark.parametrize("segments", [True, False])
def test_truncations_and_bit_flips(reader: Reader, segments: bool) -> None:
    values = [tensor((1, 2, 3, 4), dim_order=(0, 2, 3, 1)), tensor((3,)), tensor((5,), "f32")]
    plan = Plan(values, [1, 0], [2, 2], [call(0, 1, 0, 2)])
    data = make_pte([plan], [PAYLOAD[:40]], segments)
    counts = reader.mutate(data)
    assert counts["truncations"] == len(data)
    assert counts["flips"] == 8 * len(data)
    # A segment ends the file: every truncation cuts it. A lone flatbuffer may end in padding.
    assert counts["truncations_accepted"] <= (0 if segments else 8)
    # Flips inside the payload and the padding do not concern the reader; those elsewhere do.
    assert 8 * 40 <= counts["flips_accepted"] < counts["flips"]


@pytest.mark.parametrize("segments", [True, False])
def test_named_data_is_found_in_place(reader: Reader, segments: bool) -> None:
    constants = {KEY + "0": b"longer key", KEY: CONSTANT, KEY[:-1]: b"shorter key"}
    data = make_pte([simple()], [PAYLOAD], segments, constants=constants)
    for key, content in constants.items():
        offset, size = reader.show(data, key=key)["constant"]
        assert data[offset : offset + size] == content
        assert offset % 16 == 0
    for key in ("", "another", KEY.upper()):
        assert "constant" not in reader.show(data, key=key)
    assert "constant" not in reader.show(make_pte([simple()], [PAYLOAD], segments))


def test_named_data_outside_the_file_is_refused(reader: Reader) -> None:
    """The constant's segment is the file's end; a header that ends the segments early cuts it."""
    data = make_pte([simple()], [PAYLOAD], constants={KEY: CONSTANT})
    stated = int.from_bytes(data[8 + 24 : 8 + 32], "little")
    code, what = reader.error(header_field(data, 24, stated - 1))
    assert (code, what) == (INVALID_PROGRAM, ".pte: segment outside the file")
    assert reader.error(data[:-1])[0] == INVALID_PROGRAM


def test_named_data_survives_truncations_and_bit_flips(reader: Reader) -> None:
    data = make_pte([simple()], [PAYLOAD[:16]], constants={KEY: CONSTANT[:16]})
    counts = reader.mutate(data)
    assert counts["truncations_accepted"] == 0
    assert 8 * 32 <= counts["flips_accepted"] < counts["flips"]


class FixedPayloadBackend(BackendDetails):
    """Lowers any graph to the same bytes."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> Any:
        return PreprocessResult(processed_bytes=PAYLOAD)


class WholeGraph(Partitioner):
    """Claims every operator, for FixedPayloadBackend."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        spec = DelegationSpec(FixedPayloadBackend.__name__, [])
        for node in exported_program.graph.nodes:
            if node.op == "call_function":
                node.meta["delegation_tag"] = "all"
        return PartitionResult(exported_program, {"all": spec})


class Mixed(torch.nn.Module):
    """Uses its inputs in another order, one of them twice, and returns two values."""

    def forward(
        self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        total = c + a
        return total * c, total - b


@pytest.mark.parametrize("segments", [True, False])
def test_file_from_executorch(reader: Reader, segments: bool) -> None:
    inputs = tuple(torch.ones(2, 3) for _ in range(3))
    exported = torch.export.export(Mixed(), inputs)
    edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    config = ExecutorchBackendConfig(extract_delegate_segments=segments)
    data = bytes(edge.to_backend(WholeGraph()).to_executorch(config).buffer)
    result = reader.show(data, backend_id=FixedPayloadBackend.__name__)
    assert result["code"] == 0
    assert data[result["offset"] :][: result["size"]] == PAYLOAD
    assert sorted(set(result["delegate_inputs"])) == [0, 1, 2]
    assert result["output_sources"] == [0, 1]
    assert all(item["nbytes"] == 24 for item in result["inputs"] + result["outputs"])
