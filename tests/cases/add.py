# SPDX-License-Identifier: BSD-3-Clause
"""Cases of add (parameters: tests/support/elementwise.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, ZERO_POINTS

GRID: list[dict[str, Any]] = [
    *({"shape_a": (size,)} for size in SIZES),
    *({"shape_a": (2, size), "shape_b": (size,)} for size in SIZES),
    *({"shape_a": (size, 1), "shape_b": (size, 3)} for size in SIZES if size < 66),
    *(
        {"shape_a": (3, 7), "za": za, "zb": zb, "zo": zo}
        for za in ZERO_POINTS
        for zb in ZERO_POINTS
        for zo in (-128, 12, 127)
    ),
    *({"shape_a": (batch, 3, 4, 5), "sign": sign} for batch in (1, 2, 3) for sign in (1, -1)),
    *(
        {"shape_a": shape_a, "shape_b": shape_b}
        for shape_a, shape_b in (
            ((2, 3, 4, 5), (5,)),
            ((5,), (2, 3, 4, 5)),
            ((2, 1, 4, 1), (1, 3, 1, 5)),
            ((2, 3, 4), (1, 1, 1)),
            ((), (3, 2)),
            ((), ()),
            ((1, 1, 5), (5,)),
            ((2, 3, 2, 2, 3, 2), (3, 1, 2, 1, 2)),
        )
    ),
    *({"shape_a": (size,), "dtype": "int16"} for size in SIZES[::3]),
    *({"shape_a": (batch, 3, 4), "shape_b": (4,), "dtype": "int16"} for batch in (1, 2, 3)),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "arg_order_six_different_qparams": [
        {
            "shape_a": (6,),
            "a": [-128, -7, 0, 5, 100, 127],
            "b": [127, 12, -1, 77, -128, 3],
            "za": -7,
            "zb": 12,
            "zo": 40,
            "s_a": 0.5,
            "s_b": 0.03125,
            "s_out": 0.75,
            "sign": sign,
        }
        for sign in (1, -1)
    ],
    "overflow_near_cancel": [
        {
            "shape_a": (6,),
            "a": [127, -128, 5, 5, 6, 0],
            "b": [-128, 127, 5, 6, 5, 0],
            "za": 0,
            "zb": 0,
            "zo": zo,
            "s_a": 1.0,
            "s_b": 1.0,
            "s_out": 2.0**-24,
            "sign": -1,
            "bounds": (-128, 127),
        }
        for zo in (-128, 3, 127)
    ],
    "range_one_operand_vanishes": [
        {"shape_a": (40,), "s_a": 2.0**30, "s_b": 2.0**-30, "s_out": 2.0**30},
        {"shape_a": (40,), "s_a": 2.0**-30, "s_b": 2.0**30, "s_out": 2.0**30},
        {"shape_a": (40,), "s_a": 2.0**-20, "s_b": 2.0**-20, "s_out": 2.0**20},
    ],
    "rounding_ties": [
        {"shape_a": (2, 40), "s_a": 1.0, "s_b": 1.0, "s_out": 2.0, "sign": sign} for sign in (1, -1)
    ],
    "batch_items": [{"shape_a": (batch, 2, 3, 5)} for batch in (1, 2, 3)],
    "overflow_int16_ends": [
        {
            "shape_a": (4,),
            "a": [-32768, -32768, 32767, 32767],
            "b": [-32768, 32767, -32768, 32767],
            "s_a": s_a,
            "s_b": s_b,
            "s_out": s_out,
            "sign": sign,
            "dtype": "int16",
        }
        for s_a, s_b, s_out in ((1.0, 1.0, 2.0), (1.0, 2.0**-20, 1.0), (0.3, 0.7, 2.0**-24))
        for sign in (1, -1)
    ],
    "rounding_ties_int16": [
        {"shape_a": (2, 40), "s_a": 1.0, "s_b": 1.0, "s_out": 4.0, "sign": sign, "dtype": "int16"}
        for sign in (1, -1)
    ],
}
