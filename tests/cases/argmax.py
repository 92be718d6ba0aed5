# SPDX-License-Identifier: BSD-3-Clause
"""Cases of argmax (parameters: tests/support/reduce.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, wide

GRID: list[dict[str, Any]] = [
    *({"shape": (3, size), "axis": axis} for size in SIZES for axis in (0, 1)),
    *(
        {"shape": (batch, 3, 4, 5), "axis": axis, "keepdim": keepdim}
        for batch in (1, 2, 3)
        for axis in (0, 1, 2, 3, None)
        for keepdim in (False, True)
    ),
    {"shape": (2, 3, 2, 2, 3, 2), "axis": 3},
    {"shape": (7,), "axis": 0},
]

GRID += wide(GRID, 5)

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "ties_first_of_several": [
        {"shape": (2, 70), "axis": axis, "x": code} for axis in (0, 1, None) for code in (-128, 127)
    ],
    "batch_items": [{"shape": (batch, 2, 9), "axis": 1} for batch in (1, 2, 3)],
}
