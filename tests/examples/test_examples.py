# SPDX-License-Identifier: BSD-3-Clause
"""The examples as a user starts them: exit code, what is printed, what is not."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 300


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def _rows(table: str) -> dict[str, str]:
    lines = [re.split(r"\s{2,}", line.strip()) for line in table.strip().splitlines()]
    return {line[0]: line[1] for line in lines if len(line) == 2 and not line[0].startswith("-")}


def _noise(stderr: str) -> list[str]:
    """Lines of stderr that are neither a progress bar nor the time of a step."""
    lines = re.split(r"[\r\n]+", stderr)
    known = re.compile(r"^\s*$|^\s*\d+\.\d s  |^\w[\w -]*:\s+\d+%\|")
    return [line for line in lines if not known.search(line)]


@pytest.mark.firmware
def test_digits_prints_its_table(tmp_path: pathlib.Path) -> None:
    """`python -m examples.digits`: all three agree, exit code 0, and only progress beside."""
    result = _run("-m", "examples.digits", "--samples", "32", "--out", str(tmp_path))
    assert result.returncode == 0, result.stderr
    rows = _rows(result.stdout)
    assert rows["test images"] == "32"
    assert rows["outputs bit-identical, PyTorch and host"] == "100.00%"
    assert rows["outputs bit-identical, PyTorch and mps2-an386"] == "100.00%"
    assert rows["outputs bit-identical, host and mps2-an386"] == "100.00%"
    assert rows["delegate calls in digits.pte"] == "1"
    for accuracy in ("float", "int8, PyTorch (fused program)", "int8, host (ExecuTorch)"):
        assert float(rows[f"accuracy, {accuracy}"].rstrip("%")) > 90
    numbers = {name: int(rows[name].replace(",", "")) for name in rows if "bytes" in name}
    numbers["instructions"] = int(rows["instructions per inference"].replace(",", ""))
    assert min(numbers.values()) > 0
    assert numbers["payload, bytes"] < numbers["digits.pte, bytes"]
    assert numbers["digits.pte, bytes"] < numbers["firmware image, flash bytes"]
    assert numbers["digits.pte, bytes"] == (tmp_path / "digits.pte").stat().st_size
    assert _noise(result.stderr) == []


def test_digits_as_json_without_a_board(tmp_path: pathlib.Path) -> None:
    """`--json --no-firmware`: one JSON object on stdout, and no board in it."""
    options = ("--samples", "8", "--no-firmware", "--json", "--out", str(tmp_path))
    result = _run("-m", "examples.digits", *options)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["samples"] == 8
    assert report["identical"] is True
    assert report["board"] is None


@pytest.mark.parametrize("samples", ["0", "-3", "many"])
def test_digits_refuses_wrong_options(samples: str) -> None:
    """A wrong `--samples` is an error that names it, before any work."""
    result = _run("-m", "examples.digits", "--samples", samples)
    assert result.returncode == 2
    assert samples in result.stderr
    assert result.stdout == ""


def test_digits_exits_with_1_when_bits_differ(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One differing output among many is a failure."""
    from examples.digits import __main__ as command
    from examples.digits import demo

    figures = demo.Report(
        samples=450,
        parameters=6074,
        float_accuracy=0.99,
        eager_accuracy=0.99,
        host_accuracy=0.99,
        host_identical=1.0,
        delegate_calls=1,
        pte_bytes=1,
        payload_bytes=1,
        arena_bytes=1,
        persistent_bytes=1,
        board=demo.BoardFigures("mps2-an386", 0.99, 4499 / 4500, 4499 / 4500, 1, 1, 1),
    )
    monkeypatch.setattr(demo, "run", lambda **_: figures)
    monkeypatch.setattr(sys, "argv", ["digits"])
    assert command.main() == 1
    assert "99.98%" in capsys.readouterr().out
    figures.board = None
    assert command.main() == 0


def test_quickstart() -> None:
    """`python examples/quickstart.py` prints ten scores twice."""
    result = _run("examples/quickstart.py")
    assert result.returncode == 0, result.stderr
    numbers = re.findall(r"-?\d+\.\d+", result.stdout)
    assert len(numbers) == 20
