# SPDX-License-Identifier: BSD-3-Clause
"""Cases of copy (parameters: tests/support/cast.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES

GRID: list[dict[str, Any]] = [
    *({"shape": (size,), "dtype": dtype} for size in SIZES for dtype in ("int8", "float32")),
    *({"shape": (size,), "dtype": "int64"} for size in (1, 2, 33)),
    *({"shape": (batch, 3, 2), "dtype": "int8"} for batch in (1, 2, 3)),
    {"shape": (), "dtype": "int8"},
    *({"shape": (size,), "dtype": "int16"} for size in SIZES[::3]),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {}
