# SPDX-License-Identifier: BSD-3-Clause
"""Cases of hardswish on int16 codes (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES

_CODES = [-32768, -32767, -12289, -12288, -12287, -1, 0, 1, 12287, 12288, 12289, 32767]


def _case(shape: tuple[int, ...], **others: Any) -> dict[str, Any]:
    scales = others.pop("scales", (2.0**-12, 2.0**-12))
    return {"op": "hardswish", "shapes": (shape,), "dtype": "int16", "scales": scales, **others}


GRID: list[dict[str, Any]] = [
    *(_case((size,)) for size in SIZES),
    *(_case(shape) for shape in ((), (1, 1), (3, 1, 2), (2, 3, 4, 5))),
    *(_case((12,), codes=(_CODES,), scales=(s, s)) for s in (2.0**-13, 0.00037, 0.01, 1.0, 5.0)),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "overflow_largest_products": [
        _case((12,), codes=(_CODES,), scales=(float(3 / 32768), s_out)) for s_out in (1e-4, 1.0)
    ],
    "range_hostile_scales": [
        _case((12,), codes=(_CODES,), scales=scales)
        for scales in ((2.0**126, 2.0**126), (2.0**-12, 2.0**126), (2.0**10, 2.0**-10))
    ],
    "rounding_ties": [_case((2, 40), scales=(0.5, s_out)) for s_out in (1.0, 4.0)],
    "batch_items": [_case((batch, 3, 5)) for batch in (1, 2, 3)],
}
