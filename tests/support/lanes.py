# SPDX-License-Identifier: BSD-3-Clause
"""Test lanes that need more than this virtual environment: skipped, or required in CI."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

REPO = Path(__file__).resolve().parents[2]


def missing(reason: str) -> NoReturn:
    """Skip the test; with FUSED_QUANT_REQUIRE_LANES=1 fail it, so that CI cannot lose a lane."""
    if os.environ.get("FUSED_QUANT_REQUIRE_LANES") == "1":
        pytest.fail(f"a lane that must run cannot: {reason}")
    pytest.skip(reason)


def tosa_python() -> Path:
    """The interpreter of the TOSA reference model's virtual environment."""
    given = os.environ.get("FUSED_QUANT_TOSA_PYTHON")
    path = Path(given) if given else REPO / ".venv-tosa" / "bin" / "python"
    if not path.exists():
        missing(f"no TOSA reference model at {path} (FUSED_QUANT_TOSA_PYTHON names another)")
    return path
