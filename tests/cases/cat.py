# SPDX-License-Identifier: BSD-3-Clause
"""Cases of cat (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, ZERO_POINTS

Shape = tuple[int, ...]


def _case(shapes: list[Shape], dim: int, **others: Any) -> dict[str, Any]:
    return {"op": "cat", "shapes": tuple(shapes), "attributes": (dim,), **others}


GRID: list[dict[str, Any]] = [
    *(_case([(2, size), (2, 3)], 1) for size in SIZES),
    *(_case([(size, 3), (2, 3), (1, 3)], 0) for size in SIZES if size < 40),
    *(
        _case([(2, 3, 4, 5), (2, 3, 4, 5)], dim, zero_points=(za, zb, zo))
        for dim in (0, 1, -1)
        for za in ZERO_POINTS
        for zb, zo in ((-128, 127), (12, 12), (127, -128))
    ),
    *(_case([(batch, 3, 2, 2), (batch, 1, 2, 2)], 1) for batch in (1, 2, 3)),
    *(_case([(2, 1, 2, 1, 3, 2), (2, 1, 2, 2, 3, 2)], dim) for dim in (3, -3)),
    _case([(5,)], 0),
    _case([(1, n % 4 + 1) for n in range(40)], 1),
    *(_case([(2, size), (2, 3)], 1, dtype="int16") for size in SIZES[::4]),
    *(_case([(2, 3), (2, 3)], dim, dtype="int16", scales=(0.5,) * 3) for dim in (0, 1)),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "qparam_mismatch_each_input_has_its_own": [
        _case([(2, 40)] * 3, 1, scales=(1.0, 100.0, 0.01, 1.0), zero_points=(0, -7, 12, zo))
        for zo in (-128, 0, 127)
    ],
    "qparam_match_is_copied": [
        _case([(2, 9), (2, 9)], dim, scales=(0.5,) * 3, zero_points=(zo,) * 3, bounds=bounds)
        for dim in (0, 1)
        for zo in (-128, 3)
        for bounds in ((-128, 127), (-127, 100))
    ],
    "rounding_ties": [
        _case([(40,), (40,)], 0, scales=(1.0, 2.0, 4.0), zero_points=(0, 1, zo)) for zo in (-3, 0)
    ],
    "range_ratios_at_both_ends": [
        _case([(40,), (40,)], 0, scales=scales)
        for scales in ((2.0**-60, 2.0**20, 1.0), (2.0**28, 1.0, 1.0))
    ],
    "batch_items": [_case([(batch, 2, 3), (batch, 4, 3)], 1) for batch in (1, 2, 3)],
}
