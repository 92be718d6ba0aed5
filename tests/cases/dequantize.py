# SPDX-License-Identifier: BSD-3-Clause
"""Cases of dequantize (parameters: tests/support/cast.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, ZERO_POINTS

EVERY_CODE = list(range(-128, 128))

GRID: list[dict[str, Any]] = [
    *({"shape": (size,)} for size in SIZES),
    *({"shape": (2, size, 3), "perm": (0, 2, 1)} for size in SIZES if size < 66),
    *({"shape": (batch, 4, 5, 3), "perm": (0, 3, 1, 2)} for batch in (1, 2, 3)),
    *({"shape": (256,), "x": EVERY_CODE, "zx": zx, "scale": 0.1} for zx in ZERO_POINTS),
    {"shape": (2, 3, 2, 1, 3, 2), "perm": (5, 3, 1, 0, 2, 4)},
    {"shape": ()},
    *({"shape": (size,), "dtype": "int16"} for size in SIZES[::3]),
    {"shape": (2, 3, 4), "perm": (0, 2, 1), "dtype": "int16"},
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "overflow_zero_point_is_not_subtracted_in_int8": [
        {"shape": (3,), "x": [-128, -50, 127], "zx": zx, "scale": 1.0} for zx in (-128, 100)
    ],
    "range_extreme_scales": [
        {"shape": (256,), "x": EVERY_CODE, "zx": zx, "scale": scale}
        for scale in (2.0**-126, 1.1754944e-38, 2.0**119, 2.0**126)
        for zx in (-128, 0, 127)
    ],
    "range_extreme_scales_int16": [
        {"shape": (3,), "x": [-32768, 1, 32767], "scale": scale, "dtype": "int16"}
        for scale in (2.0**-126, 0.1, 2.0**112)
    ],
}
