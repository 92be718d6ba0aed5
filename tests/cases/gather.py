# SPDX-License-Identifier: BSD-3-Clause
"""Cases of gather (parameters: tests/support/moves.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES

GRID: list[dict[str, Any]] = [
    *({"shape": (3, size), "axis": 1, "picks": (5,)} for size in SIZES),
    *({"shape": (size, 3), "axis": 0, "picks": (4,), "index": "int64"} for size in SIZES),
    *({"shape": (2, 5), "axis": 1, "picks": (size,)} for size in SIZES if size < 40),
    *(
        {"shape": (2, 3, 4, 5), "axis": axis, "picks": picks, "dtype": dtype, "constant": constant}
        for axis in range(4)
        for picks in ((), (3,), (2, 2))
        for dtype in ("int8", "uint8")
        for constant in (False, True)
    ),
    {"shape": (2, 3, 2, 1, 2, 3), "axis": 4, "picks": (4,)},
    {"shape": (7,), "axis": 0, "picks": (2, 1, 2, 1, 2, 3)},
    {"shape": (1,), "axis": 0, "picks": ()},
    *(
        {"shape": (2, 3, 5), "axis": axis, "picks": (4,), "index": index, "dtype": "int16"}
        for axis in range(3)
        for index in ("int32", "int64")
    ),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "indices_outside_pick_the_nearer_end": [
        {"shape": (2, 4, 3), "axis": axis, "values": values, "index": index, "constant": constant}
        for axis in range(3)
        for values, index in (
            ([-1, 4, 100, -(2**31), 2**31 - 1, 0], "int32"),
            ([-1, 4, -(2**63), 2**63 - 1, 2**32, 1], "int64"),
        )
        for constant in (False, True)
    ],
    "batch_items": [{"shape": (batch, 3, 4), "axis": 1, "picks": (2,)} for batch in (1, 2, 3)],
}
