# SPDX-License-Identifier: BSD-3-Clause
"""Cases of quantize (parameters: tests/support/cast.py)."""

from __future__ import annotations

import math
from typing import Any

from tests.support.grid import SIZES, ZERO_POINTS

SPECIAL = [
    math.inf,
    -math.inf,
    math.nan,
    2.0**32,
    -(2.0**32),
    1e30,
    -1e30,
    0.0,
    -0.0,
    1e-45,
    -1e-45,
]
HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, -126.5, 127.5, -128.5]

GRID: list[dict[str, Any]] = [
    *({"shape": (size,)} for size in SIZES),
    *({"shape": (2, size, 3), "perm": (0, 2, 1)} for size in SIZES if size < 66),
    *(
        {"shape": (batch, 3, 4, 5), "perm": (0, 2, 3, 1), "zx": zx}
        for batch in (1, 2, 3)
        for zx in ZERO_POINTS
    ),
    *({"shape": (2, 3, 4), "perm": perm} for perm in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2))),
    {"shape": (2, 3, 2, 1, 3, 2), "perm": (5, 3, 1, 0, 2, 4)},
    {"shape": ()},
    *({"shape": (size,), "dtype": "int16"} for size in SIZES[::3]),
    {"shape": (2, 3, 4), "perm": (0, 2, 1), "dtype": "int16"},
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "saturation_special_values": [
        {"shape": (length,), "x": (SPECIAL * 4)[:length], "scale": scale, "zx": 3}
        for length in range(1, 41)
        for scale in (0.5, 2.0**-126)
    ],
    "rounding_ties_to_even": [
        {"shape": (10,), "x": [half * scale for half in HALVES], "scale": scale, "zx": zx}
        for scale in (1.0, 0.25, 2.0**10)
        for zx in (0, 3, -128, 127)
    ],
    "range_extreme_scales": [
        {"shape": (40,), "scale": scale, "zx": zx}
        for scale in (2.0**-126, 2.0**-100, 2.0**100, 2.0**126)
        for zx in (-128, 127)
    ],
    "range_subnormal_products": [
        {"shape": (4,), "x": [1e-45, -1e-45, 1e-38, 2.0**-126], "scale": 2.0**126, "zx": 0},
        {"shape": (4,), "x": [1e-45, 3e-45, -1e-40, 1e-39], "scale": 2.0**-126, "zx": 0},
    ],
    "saturation_nan_under_a_clamp": [
        {"shape": (3,), "x": [math.nan, 0.0, 1.0], "scale": 1.0, "zx": -100, "bounds": (-20, 50)}
    ],
    "saturation_int16": [
        {"shape": (11,), "x": SPECIAL, "scale": scale, "dtype": "int16"}
        for scale in (0.5, 2.0**-126)
    ],
    "rounding_ties_int16": [
        {
            "shape": (6,),
            "x": [0.5, -0.5, 32766.5, -32767.5, 32767.5, -32768.5],
            "scale": 1.0,
            "dtype": "int16",
        }
    ],
}
