# SPDX-License-Identifier: BSD-3-Clause
"""Cases of mean, and of sum, whose step it is (parameters: tests/support/reduce.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, ZERO_POINTS, wide

AXES = [tuple(axis for axis in range(4) if mask >> axis & 1) for mask in range(1, 16)]


def _sum(axes: tuple[int, ...], keepdim: bool) -> dict[str, Any]:
    return {"op": "sum", "shapes": ((2, 3, 4, 5),), "attributes": (list(axes), keepdim)}


GRID: list[dict[str, Any]] = [
    *({"shape": (3, size), "axes": (0,)} for size in SIZES),
    *({"shape": (3, size), "axes": (1,)} for size in SIZES),
    *({"shape": (1, size, 3, 5), "axes": (1, 2)} for size in SIZES if size < 66),
    *(
        {"shape": (batch, 3, 4, 5), "axes": axes, "keepdim": keepdim}
        for batch in (1, 2, 3)
        for axes in AXES
        for keepdim in (False, True)
    ),
    *(
        {"shape": (2, 3, 2), "axes": (1,), "zx": zx, "zo": zo}
        for zx in ZERO_POINTS
        for zo in ZERO_POINTS
    ),
    {"shape": (2, 3, 2, 2, 3, 2), "axes": (1, 3, 5)},
    {"shape": (2, 3, 2, 2, 3, 2), "axes": (0, 2, 4)},
    {"shape": (7,), "axes": (0,)},
    *(_sum(axes, keepdim) for axes in ((), *AXES) for keepdim in (False, True)),
]

GRID += wide(GRID, 5)

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "rounding_ties": [
        {"shape": (2, 40), "axes": (0,), "s_in": 1.0, "s_out": 1.0, "zx": zx, "zo": 0}
        for zx in (0, -3)
    ],
    "overflow_codes_at_both_ends": [
        {"shape": (500, 700), "axes": (0, 1), "x": x, "zx": zx, "s_in": 1.0, "s_out": 2.0}
        for x, zx in ((127, -128), (-128, 127))
    ],
    "overflow_int16_largest_sums": [
        {"shape": (1, 65535), "axes": (1,), "x": x, "s_in": 1.0, "s_out": 1.0, "dtype": "int16"}
        for x in (-32768, 32767)
    ],
    "batch_items": [{"shape": (batch, 3, 4, 5), "axes": (1, 2)} for batch in (1, 2, 3)],
}
