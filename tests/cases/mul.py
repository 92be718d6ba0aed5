# SPDX-License-Identifier: BSD-3-Clause
"""Cases of mul (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, pairs


def _case(shape_a: tuple[int, ...], shape_b: tuple[int, ...], **others: Any) -> dict[str, Any]:
    return {"op": "mul", "shapes": (shape_a, shape_b), **others}


# Scales that keep typical products of 30 bits within the codes of the output.
_WIDE: dict[str, Any] = {"dtype": "int16", "scales": (2.0**-12, 0.0003, 0.003)}
GRID: list[dict[str, Any]] = [
    *pairs("mul"),
    *(_case((2, size), (size,), **_WIDE) for size in SIZES[::3]),
    *(_case((batch, 3, 4), (batch, 3, 4), **_WIDE) for batch in (1, 2, 3)),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "overflow_largest_products": [
        _case(
            (4,),
            (4,),
            codes=([-128, -128, 127, 127], [-128, 127, -128, 127]),
            zero_points=(za, zb, zo),
            scales=(0.5, 0.25, 0.125),
        )
        for za in (-128, 127)
        for zb in (-128, 127)
        for zo in (-128, 0, 127)
    ],
    "rounding_ties": [
        _case((2, 40), (2, 40), scales=(1.0, 1.0, 2.0), zero_points=(0, 0, zo)) for zo in (-3, 0)
    ],
    "batch_items": [_case((batch, 2, 3, 5), (batch, 2, 3, 5)) for batch in (1, 2, 3)],
    "overflow_int16_largest_products": [
        _case(
            (4,),
            (4,),
            codes=([-32768, -32768, 32767, 32767], [-32768, 32767, -32768, 32767]),
            scales=scales,
            dtype="int16",
        )
        for scales in (
            (1.0, 1.0, 2.0**15),
            (1.0, 1.0, 1.0),
            (0.5, 2.0**-14, 1.0),
            (1.0, 1.0, 3.0e4),
        )
    ],
    "rounding_ties_int16": [
        _case((2, 40), (2, 40), scales=(1.0, 1.0, 2.0**k), dtype="int16") for k in (1, 14, 16)
    ],
}
