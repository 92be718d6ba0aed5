# SPDX-License-Identifier: BSD-3-Clause
"""What tests need besides this virtual environment; tests/conftest.py says when a skip may be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


def tosa_python() -> Path:
    """The interpreter of the TOSA reference model's virtual environment."""
    given = os.environ.get("FUSED_QUANT_TOSA_PYTHON")
    path = Path(given) if given else REPO / ".venv-tosa" / "bin" / "python"
    if not path.exists():
        pytest.skip(f"no TOSA reference model at {path} (FUSED_QUANT_TOSA_PYTHON names another)")
    return path
