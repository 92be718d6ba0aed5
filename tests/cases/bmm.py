# SPDX-License-Identifier: BSD-3-Clause
"""Cases of bmm (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import LARGE_SIZES, SIZES, ZERO_POINTS


def _case(batch: int, m: int, k: int, n: int, **others: Any) -> dict[str, Any]:
    return {"op": "bmm", "shapes": ((batch, m, k), (batch, k, n)), **others}


# Scales that keep typical sums of products of 30 bits within the codes of the output.
_WIDE: dict[str, Any] = {"dtype": "int16", "scales": (2.0**-12, 0.0003, 0.003)}
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
    *(_case(1, 2, size, 3, **_WIDE) for size in SIZES[::3]),
    *(_case(2, 3, 5, size, **_WIDE) for size in SIZES[::5]),
    *(_case(batch, 3, 4, 5, real=real, **_WIDE) for batch in (1, 3) for real in (False, True)),
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
    "overflow_int16_long_dot_product": [
        {
            "op": "bmm",
            "shapes": ((1, 1, 16384), (1, 16384, 1)),
            "codes": ([a] * 16384, [b] * 16384),
            "dtype": "int16",
            "scales": (2.0**-15, 2.0**-15, scale),
            "real": real,
        }
        for a, b in ((-32768, -32768), (-32768, 32767))
        for scale, real in ((2.0**3, False), (1.0, True))
    ],
    "overflow_int16_beyond_int32": [
        _case(1, 1, k, 1, dtype="int16", scales=(1.0, 1.0, 2.0**e)) | {"codes": ([a] * k, [b] * k)}
        for k in (1, 2, 3, 5)
        for a, b in ((-32768, -32768), (-32768, 32767), (32767, 32767))
        for e in (1, 15, 17)
    ],
    "broadcast_batch_int16": [
        {"op": "bmm", "shapes": shapes, **_WIDE}
        for shapes in (((1, 2, 3), (3, 3, 4)), ((3, 2, 3), (1, 3, 4)))
    ],
    "rounding_ties_int16": [
        _case(2, 5, 9, 6, scales=(1.0, 1.0, 2.0**e), dtype="int16") for e in (1, 16, 18)
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
