# SPDX-License-Identifier: BSD-3-Clause
"""Cases of div (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, ZERO_POINTS, wide

MODES = (None, "floor", "trunc")


def _case(
    shape_a: tuple[int, ...], shape_b: tuple[int, ...], mode: str | None = None, **others: Any
) -> dict[str, Any]:
    return {"op": "div", "shapes": (shape_a, shape_b), "attributes": (mode,), **others}


GRID: list[dict[str, Any]] = [
    *(_case((size,), (size,), MODES[size % 3]) for size in SIZES),
    *(_case((2, size), (size,), MODES[(size + 1) % 3]) for size in SIZES),
    *(
        _case((3, 7), (3, 7), mode, zero_points=(za, zb, zo))
        for mode in MODES
        for za in ZERO_POINTS
        for zb in ZERO_POINTS
        for zo in (-128, 12)
    ),
    *(_case((2, 3, 4, 5), shape) for shape in ((5,), (4, 1), (3, 1, 1), (1, 3, 1, 5), ())),
]

_ENDS = [-128, -128, 127, 127, 5, 5, 5, 0]
_DIVISORS = [-128, 127, -128, 127, 4, 5, 6, 5]
GRID += wide(GRID, 4)

_WIDE = [-32768, -32768, 32767, 32767, 0, 3]
_WIDE_DIVISORS = [-32768, 32767, -32768, 0, 0, -2]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "range_division_by_zero": [
        _case((8,), (8,), mode, codes=(_ENDS, _DIVISORS), zero_points=(5, 5, zo), scales=scales)
        for mode in MODES
        for zo in (-128, 3, 127)
        for scales in ((0.5, 0.25, 0.125), (2.0**-20, 1.0, 1.0))
    ],
    "range_int16_ends_and_zero": [
        _case((6,), (6,), mode, codes=(_WIDE, _WIDE_DIVISORS), scales=scales, dtype="int16")
        for mode in MODES
        for scales in ((0.5, 0.25, 0.125), (2.0**-20, 1.0, 1.0), (2.0**20, 2.0**-8, 1.0))
    ],
    "overflow_largest_quotients": [
        _case((4,), (4,), mode, zero_points=(-128, 0, zo), scales=scales)
        for mode in MODES
        for zo in (-128, 127)
        for scales in ((2.0**20, 2.0**-8, 1.0), (2.0**-30, 2.0**10, 1.0), (2.0**28, 1.0, 1.0))
    ],
    "rounding_ties": [
        _case((2, 40), (2, 40), mode, scales=(1.0, 1.0, 0.5), zero_points=(za, 0, 1))
        for mode in MODES
        for za in (0, -3)
    ],
    "batch_items": [
        _case((batch, 2, 3, 5), (batch, 2, 3, 5), mode) for batch in (1, 2, 3) for mode in MODES
    ],
}
