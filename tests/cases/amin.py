# SPDX-License-Identifier: BSD-3-Clause
"""Cases of amin (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

from typing import Any

from tests.cases.mean import AXES
from tests.support.grid import SIZES, ZERO_POINTS, wide


def _case(
    shape: tuple[int, ...], dim: tuple[int, ...], keep: bool, **others: Any
) -> dict[str, Any]:
    return {"op": "amin", "shapes": (shape,), "attributes": (list(dim), keep), **others}


GRID: list[dict[str, Any]] = [
    *(_case((3, size), (dim,), False) for size in SIZES for dim in (0, 1)),
    *(_case((2, 3, 4, 5), axes, keep) for axes in AXES for keep in (False, True)),
    *(_case((3, 7), (1,), True, zero_points=(zx, zo)) for zx in ZERO_POINTS for zo in ZERO_POINTS),
    _case((2, 3, 2, 2, 3, 2), (1, 3, 5), False),
    _case((7,), (), False),
]

GRID += wide(GRID, 5)

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "zero_point_equal_grids": [
        _case((4, 9), (1,), False, scales=(0.5, 0.5), zero_points=(z, z)) for z in ZERO_POINTS
    ],
    "rounding_ties": [
        _case((1, 40), (0,), False, scales=(1.0, 2.0), zero_points=(0, zo)) for zo in (-3, 0)
    ],
    "range_hostile_scales": [
        _case((3, 5), (0,), False, scales=scales)
        for scales in ((2.0**-100, 2.0**-90), (2.0**100, 2.0**80), (2.0**100, 2.0**110))
    ],
    "overflow_codes_at_both_ends": [
        _case((2, 300), (1,), False, codes=([[code] * 300] * 2,)) for code in (-128, 127)
    ],
    "batch_items": [_case((batch, 3, 4, 5), (1, 2), False) for batch in (1, 2, 3)],
}
