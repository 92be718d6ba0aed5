# SPDX-License-Identifier: BSD-3-Clause
"""Cases of adaptive_avg_pool2d (parameters: tests/support/window.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, ZERO_POINTS, wide

GRID: list[dict[str, Any]] = [
    *({"in_h": 5, "in_w": 7, "in_c": size, "output_size": (2, 3)} for size in SIZES),
    *({"in_h": size, "in_w": 3, "in_c": 2, "output_size": (3, 2)} for size in SIZES if size < 66),
    *({"in_h": 2, "in_w": size, "in_c": 2, "output_size": (1, 4)} for size in SIZES if size < 66),
    *(
        {"in_h": 6, "in_w": 4, "in_c": 3, "output_size": out}
        for out in ((1, 1), (6, 4), (9, 13), (4, 3))
    ),
    *(
        {"in_h": 5, "in_w": 4, "in_c": 3, "output_size": (2, 3), "zx": zx, "zo": zo, "same": 0}
        for zx in ZERO_POINTS
        for zo in ZERO_POINTS
    ),
]

GRID += wide(GRID, 5)

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "overflow_codes_at_both_ends": [
        {"in_h": 40, "in_w": 33, "in_c": 2, "output_size": (1, 1), "x": x, "zx": zx, "same": same}
        for x, zx in ((127, -128), (-128, 127))
        for same in (0, 1)
    ],
    "overflow_int16_largest_sums": [
        {"in_h": 255, "in_w": 257, "in_c": 1, "output_size": (1, 1), "x": x, "same": same}
        | {"dtype": "int16"}
        for x in (-32768, 32767)
        for same in (0, 1)
    ],
    "batch_items": [
        {"in_h": 5, "in_w": 6, "in_c": 4, "output_size": (2, 2), "batch": batch, "same": same}
        for batch in (1, 2, 3)
        for same in (0, 1)
    ],
}
