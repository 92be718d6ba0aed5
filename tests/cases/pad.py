# SPDX-License-Identifier: BSD-3-Clause
"""Cases of pad (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, ZERO_POINTS

Shape = tuple[int, ...]


def _case(shape: Shape, pad: tuple[int, ...], value: float = 0.0, **others: Any) -> dict[str, Any]:
    attributes = (list(pad), value)
    return {"op": "constant_pad_nd", "shapes": (shape,), "attributes": attributes, **others}


GRID: list[dict[str, Any]] = [
    *(_case((2, size), (1, 2)) for size in SIZES),
    *(_case((size, 3), (0, 0, 2, 1), 0.75) for size in SIZES if size < 40),
    *(
        _case((2, 3), (1, 1, 1, 1), value, zero_points=(zi, zo))
        for value in (0.0, -1.5, 1e30)
        for zi in ZERO_POINTS
        for zo in ZERO_POINTS
    ),
    *(_case((batch, 2, 3, 4), (1, 0, 2, 3, 1, 1)) for batch in (1, 2, 3)),
    *(_case((2, 3, 4, 5), (0, 0, 0, 0, left, right)) for left in (0, 2) for right in (0, 3)),
    _case((2, 1, 2, 2, 1, 3), (1, 1, 0, 2, 1, 0, 0, 1, 2, 2, 0, 1)),
    _case((3,), (0, 0)),
    *(
        _case((2, 5), pad, value, dtype="int16")
        for pad in ((1, 2), (-1, 1, 2, 0))
        for value in (0.0, 1e30)
    ),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "negative_amounts_crop": [
        _case((3, 5, 6), pad)
        for pad in ((-1, 0), (-2, -3), (-1, 2), (3, -5), (-1, -1, -2, 1), (2, 2, -1, -3, 1, -2))
    ],
    "qparam_match_is_copied": [
        _case((2, 9), (1, 1), value, scales=(0.5, 0.5), zero_points=(zo, zo), bounds=bounds)
        for value in (0.0, 200.0, -200.0)
        for zo in (-128, 3, 127)
        for bounds in ((-128, 127), (-127, 100))
    ],
    "rounding_ties_of_the_value": [
        _case((2, 2), (1, 1), value, scales=(1.0, 1.0), zero_points=(0, 0))
        for value in (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)
    ],
    "batch_items": [_case((batch, 2, 3), (1, 2)) for batch in (1, 2, 3)],
}
