# SPDX-License-Identifier: BSD-3-Clause
"""tests/conftest.py: where every lane must run, a skip is a failure."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.install import ROOT

CASES = """
import pytest

def test_call():
    pytest.skip("no emulator")

@pytest.mark.skipif(True, reason="no compiler")
def test_setup():
    pass

@pytest.mark.xfail(reason="known")
def test_expected_failure():
    assert False

def test_processor():
    pytest.skip("processor: no avx2")
"""
MODULE = "import pytest\npytest.skip('no model', allow_module_level=True)\n"


@pytest.mark.parametrize(
    ("required", "expected"),
    [
        ("0", {"skipped": 4, "xfailed": 1}),
        ("1", {"failed": 1, "errors": 2, "skipped": 1, "xfailed": 1}),
    ],
)
def test_skips(required: str, expected: dict[str, int], tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "test_module.py").write_text(MODULE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["--continue-on-collection-errors", str(tmp_path)]
    environment = {**os.environ, "FUSED_QUANT_REQUIRE_LANES": required}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    last = done.stdout.strip().splitlines()[-1]
    assert {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", last)} == expected
