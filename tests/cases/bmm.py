# SPDX-License-Identifier: BSD-3-Clause
"""Cases of bmm (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import LARGE_SIZES, SIZES, ZERO_POINTS


def _case(batch: int, m: int, k: int, n: int, **others: Any) -> dict[str, Any]:
    return {"op": "bmm", "shapes": ((batch, m, k), (batch, k, n)), **others}


GRID: list[dict[str, Any]] = [
    *(_case(1, 2, size, 3) for size in SIZES),
    *(_case(2, 3, 5, size) for size in SIZES if size < 66),
    *(_case(1, size, 3, 2) for size in SIZES if size < 66),
    *(
        _case(1, 2, 7, 3, zero_points=(za, zb, zo))
        for za in ZERO_POINTS
        for zb in ZERO_POINTS
        for zo in (-128, 12, 127)
    ),
    *(_case(batch, 3, 4, 5, real=real) for batch in (1, 2, 3) for real in (False, True)),
    *(_case(2, 2, size, 3, real=True) for size in LARGE_SIZES),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "overflow_longest_dot_product": [
        {
            "op": "bmm",
            "shapes": ((1, 1, 33025), (1, 33025, 1)),
            "codes": ([a] * 33025, [b] * 33025),
            "zero_points": (za, zb, 0),
            "scales": (2.0**-10, 2.0**-10, 2.0**-1),
            "real": real,
        }
        for a, za in ((127, -128), (-128, 127))
        for b, zb in ((127, -128), (-128, 127))
        for real in (False, True)
    ],
    "rounding_ties": [
        _case(2, 5, 9, 6, scales=(1.0, 1.0, 2.0**e), zero_points=(0, 0, zo), bounds=(-128, 127))
        for zo in (-3, 0)
        for e in (1, 8)
    ],
    "range_of_scales": [
        _case(1, 3, 4, 2, scales=scales)
        for scales in ((2.0**-60, 2.0**-60, 2.0**-126), (2.0**-100, 2.0**-20, 2.0**126))
    ]
    + [_case(1, 3, 4, 2, scales=(s, s, 1.0), real=True) for s in (2.0**-63, 2.0**63)],
    "broadcast_batch": [
        {"op": "bmm", "shapes": shapes, "real": real}
        for shapes in (((1, 2, 3), (3, 3, 4)), ((3, 2, 3), (1, 3, 4)))
        for real in (False, True)
    ],
    "batch_items": [_case(batch, 4, 3, 2) for batch in (1, 2, 3)],
}
