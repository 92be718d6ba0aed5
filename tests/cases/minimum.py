# SPDX-License-Identifier: BSD-3-Clause
"""Cases of minimum (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import pairs, wide

# The other half is in the cases of maximum, which shares the loop.
GRID: list[dict[str, Any]] = pairs("minimum")[1::2]

GRID += wide(GRID, 3)

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "qparam_mismatch": [
        {
            "op": "minimum",
            "shapes": ((16, 16), (16, 16)),
            "codes": (list(range(-128, 128)), list(range(127, -129, -1))),
            "scales": scales,
            "zero_points": zero_points,
        }
        for scales in ((0.5, 0.5, 0.5), (1.0, 0.5, 2.0), (0.3, 0.7, 0.011), (2.0**-9, 8.0, 1.0))
        for zero_points in ((0, 0, 0), (-128, 127, 5), (127, -128, -128), (3, 3, 127))
    ],
    "rounding_ties": [
        {
            "op": "minimum",
            "shapes": ((2, 40), (2, 40)),
            "scales": (1.0, 1.0, s),
            "zero_points": (0, 1, z),
        }
        for s in (2.0, 4.0)
        for z in (-3, 0)
    ],
    "range_extreme_ratios": [
        {"op": "minimum", "shapes": ((40,), (40,)), "scales": scales}
        for scales in ((2.0**-40, 1.0, 1.0), (2.0**28, 2.0**-20, 1.0), (2.0**-126, 2.0**-126, 1.0))
    ],
    "range_int16_ends": [
        {
            "op": "minimum",
            "shapes": ((4,), (4,)),
            "codes": ([-32768, -32768, 32767, 32767], [-32768, 32767, -32768, 32767]),
            "scales": scales,
            "dtype": "int16",
        }
        for scales in ((1.0, 1.0, 1.0), (0.5, 2.0, 1.0), (2.0**28, 2.0**-126, 1.0))
    ],
    "batch_items": [
        {"op": "minimum", "shapes": ((batch, 2, 3, 5), (batch, 2, 3, 5))} for batch in (1, 2, 3)
    ],
}
