# SPDX-License-Identifier: BSD-3-Clause
"""Patterns of one's own: what registering promises, and the example from end to end.

In processes of their own, because a pattern once registered takes part in everything.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 600


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_registering_patterns() -> None:
    done = _run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/examples/pattern_cases.py")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.parametrize("kernel", [True, False])
def test_the_example(kernel: bool, tmp_path: pathlib.Path) -> None:
    """The integer model is as good as float; the kernel gives exactly its bits."""
    how = ("--build", str(tmp_path / "kernel")) if kernel else ("--no-kernel",)
    done = _run("-m", "examples.custom_pattern", *how)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    rows = dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)
    accuracies = {name: float(value) for name, value in rows.items() if "accuracy" in name}
    assert len(accuracies) == 4
    assert accuracies["float_accuracy"] > 0.9
    assert max(accuracies.values()) - min(accuracies.values()) < 0.01
    assert rows["fused_operators"] == "2"
    assert rows["kernel_calls"] == ("2" if kernel else "0")
    if kernel:
        assert rows["identical"] == "True"
        assert accuracies["runtime_accuracy"] == accuracies["integer_accuracy"]
