# SPDX-License-Identifier: BSD-3-Clause
"""Cases of upsample_bilinear2d (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, ZERO_POINTS, wide

Shape = tuple[int, ...]


def _case(
    shape: Shape,
    out: tuple[int, int],
    align: bool = False,
    factors: Any = (None, None),
    **others: Any,
) -> dict[str, Any]:
    attributes = (list(out), align, *factors)
    return {"op": "upsample_bilinear2d", "shapes": (shape,), "attributes": attributes, **others}


GRID: list[dict[str, Any]] = [
    *(_case((1, 1, 2, size), (3, 2 * size), align) for size in SIZES for align in (False, True)),
    *(
        _case((1, 2, size, 2), (size + 3, 3), align)
        for size in SIZES[:20]
        for align in (False, True)
    ),
    *(
        _case((1, 2, 3, 3), (5, 6), zero_points=(zi, zo))
        for zi in ZERO_POINTS
        for zo in (-128, 12, 127)
    ),
    *(_case((batch, 3, 4, 5), (8, 10), factors=(2.0, 2.0)) for batch in (1, 2, 3)),
    _case((1, 1, 5, 7), (2, 3)),
    _case((1, 1, 5, 7), (7, 10), factors=(1.5, 1.5)),
    _case((1, 1, 1, 1), (3, 4), True),
    _case((1, 2, 4, 4), (1, 1), True),
]

GRID += wide(GRID, 5)

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "overflow_int16_largest_sums": [
        _case((1, 1, 2, 2), (4, 4), codes=([code] * 4,), scales=(1.0, out), dtype="int16")
        for code in (-32768, 32767)
        for out in (2.0**-8, 1.0, 4.0)
    ],
    "overflow_largest_sums": [
        _case((1, 1, 2, 2), (4, 4), codes=([code] * 4,), zero_points=(zi, zo), scales=(1.0, out))
        for code, zi in ((-128, 127), (127, -128))
        for zo in (-128, 0, 127)
        for out in (2.0**-5, 1.0, 4.0)
    ],
    "rounding_ties": [
        _case((1, 1, 3, 3), (6, 6), scales=(1.0, out), zero_points=(0, zo))
        for out in (0.5, 1.0, 2.0)
        for zo in (-3, 0)
    ],
    "batch_items": [_case((batch, 2, 3, 3), (5, 4)) for batch in (1, 2, 3)],
}
