# SPDX-License-Identifier: BSD-3-Clause
"""Cases of requantize (parameters: tests/support/elementwise.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, ZERO_POINTS

EVERY_CODE = list(range(-128, 128))
INT16_ENDS = [-32768, -32767, -129, -128, -1, 0, 1, 127, 128, 32766, 32767]

GRID: list[dict[str, Any]] = [
    *({"shape": (size,)} for size in SIZES),
    *({"shape": (2, size), "same": True} for size in SIZES),
    *(
        {"shape": (256,), "x": EVERY_CODE, "dtype": dtype, "unsigned": unsigned, "zx": zx}
        for dtype, unsigned in (("u8", ("out",)), ("u8", ("x", "out")), ("s8", ("x",)))
        for zx in ZERO_POINTS
    ),
    *(
        {"shape": (256,), "x": EVERY_CODE, "zx": zx, "zo": zo, "ratio": ratio}
        for zx in ZERO_POINTS
        for zo in ZERO_POINTS
        for ratio in (0.25, 0.3, 1.0, 1.7)
    ),
    *({"shape": (size,), "dtype": "int16"} for size in SIZES[::3]),
    *({"shape": (40,), "dtype": "int16", "narrow": ("out",), "ratio": r} for r in (2.0**-8, 0.003)),
    *(
        {
            "shape": (256,),
            "x": EVERY_CODE,
            "dtype": "int16",
            "narrow": ("x",),
            "zx": zx,
            "ratio": 200.0,
        }
        for zx in ZERO_POINTS
    ),
]
GRID += [
    {
        "op": "hardsigmoid",
        "shapes": ((11,),),
        "codes": (INT16_ENDS,),
        "scales": scales,
        "dtype": "int16",
    }
    for scales in ((2.0**-12, 2.0**-15), (0.0003, 2.0**-15), (0.01, 0.0001), (1.0, 2.0))
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "range_extreme_ratios": [
        {"shape": (256,), "x": EVERY_CODE, "ratio": ratio, "bounds": (-128, 127)}
        for ratio in (0.0, 2.0**-62, 2.0**-33, 2.0**-9, 0.5, 2.0**10, 2.0**28.9)
    ],
    "rounding_ties": [
        {"shape": (256,), "x": EVERY_CODE, "ratio": 2.0**-k, "zx": zx}
        for k in range(1, 8)
        for zx in (-128, 3, 127)
    ],
    "relu_alone": [
        {"shape": (256,), "x": EVERY_CODE, "same": True, "zx": zp, "bounds": (zp, high)}
        for zp, high in ((-128, 127), (-4, 92), (0, 6), (127, 127))
    ],
    "batch_items": [{"shape": (batch, 3, 5, 2)} for batch in (1, 2, 3)],
    "range_extreme_ratios_int16": [
        {"shape": (11,), "x": INT16_ENDS, "ratio": ratio, "dtype": "int16"}
        for ratio in (0.0, 2.0**-62, 2.0**-33, 2.0**-17, 0.5, 1.0, 2.0**10, 2.0**28.9)
    ],
    "rounding_ties_int16": [
        {"shape": (11,), "x": INT16_ENDS, "ratio": 2.0**-k, "dtype": "int16"} for k in range(1, 9)
    ],
}
