# SPDX-License-Identifier: BSD-3-Clause
"""An image that fails in any way is reported as a failure, with what it printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmware import tools
from firmware.board import BoardError, build_image, build_runner
from firmware.emulator import Log, parse_line, run_image

pytestmark = pytest.mark.firmware


def run_fault(board: str, folder: Path, kind: str, timeout_s: float = 60.0) -> Log:
    image = build_image(board, "fq_fault")
    return run_image(board, image.elf, folder, [kind], timeout_s)


NO_FPU = {"mps2-an385", "cortex-m0", "microbit"}
NO_MPU = {"microbit"}


def test_floats_and_the_fpu(arm_board: str, tmp_path: Path) -> None:
    """Floats work from the first instruction on, and start-up is why: without FPU they fault."""
    log = run_fault(arm_board, tmp_path, "float")
    assert log.verdict == "ok"
    assert log.value("quotient") == 0x3EAAAAAB
    if arm_board in NO_FPU:
        assert run_fault(arm_board, tmp_path, "float_off").verdict == "ok"
    else:
        with pytest.raises(BoardError, match="verdict 'fault'"):
            run_fault(arm_board, tmp_path, "float_off")


def test_faults_are_reported(arm_board: str, tmp_path: Path) -> None:
    kinds = ["undefined", "stack", "read", "null"]
    if arm_board not in NO_MPU:
        kinds.append("execute")
    for kind in kinds:
        with pytest.raises(BoardError) as caught:
            run_fault(arm_board, tmp_path, kind)
        message = str(caught.value)
        assert "verdict 'fault', exit code 3" in message
        assert "image=fq_fault" in message
        assert "fault=3 cfsr=" in message
        assert ("stack overflow" in message) == (kind == "stack")


def test_hang_ends_at_the_time_limit(board: str, tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"no end within 3 s(.|\n)*image=fq_fault") as caught:
        run_fault(board, tmp_path, "hang", timeout_s=3.0)
    assert "qemu-system-arm" in str(caught.value)


def test_exit_without_verdict(board: str, tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"no verdict \(exit code 0\)"):
        run_fault(board, tmp_path, "silent")


def test_failed_verdict_is_not_ok(board: str, tmp_path: Path) -> None:
    assert run_fault(board, tmp_path, "nothing").verdict == "failed"


@pytest.mark.parametrize(
    ("tool", "package"),
    [
        ("qemu-system-arm", "qemu-system-arm"),
        ("arm-none-eabi-g++", "gcc-arm-none-eabi"),
        ("arm-none-eabi-size", "binutils-arm-none-eabi"),
        ("qemu-system-xtensa", "qemu-system-misc"),
        ("xtensa-lx106-elf-g++", "picolibc-xtensa-lx106-elf"),
        ("aarch64-linux-gnu-g++", "g\\+\\+-aarch64-linux-gnu"),
        ("qemu-aarch64", "qemu-user"),
    ],
)
def test_missing_tool_names_its_package(
    monkeypatch: pytest.MonkeyPatch, tool: str, package: str
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(
        BoardError, match=rf"'{tool.replace('+', '[+]')}' is not installed.*{package}"
    ):
        tools.find_tool(tool)
    assert any(tool in problem for problem in tools.missing_tools())


def test_unknown_board_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="no board named 'mps9'; there are mps2-an385, mps2-an386"):
        build_image("mps9", "fq_tester")
    with pytest.raises(BoardError, match="no such file"):
        build_runner("mps2-an386", tmp_path / "none.pte")


def test_report_lines() -> None:
    assert parse_line("FQ a=1 b=0x2") == {"a": "1", "b": "0x2"}
    assert parse_line("FQ code=2 error=no such thing") == {"code": "2", "error": "no such thing"}
    assert parse_line("FQX a=1") is None
    with pytest.raises(BoardError, match="did not report 'b'"):
        Log("", ({"a": "1"},)).value("b")
