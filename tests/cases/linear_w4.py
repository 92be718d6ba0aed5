# SPDX-License-Identifier: BSD-3-Clause
"""Cases of linear_w4 (parameters: tests/support/dot_w4.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import END_ZERO_POINTS, SIZES, ZERO_POINTS

GRID: list[dict[str, Any]] = [
    *({"rows": (2,), "in_c": size, "out_c": 3} for size in (*SIZES, 511, 512, 513)),
    *({"rows": (2,), "in_c": 5, "out_c": size} for size in SIZES),
    *({"rows": (3,), "in_c": 2 * size, "out_c": 3, "group": size} for size in SIZES if size < 130),
    *({"rows": (2,), "in_c": 32 * n, "out_c": 5, "group": 32} for n in (1, 2, 3, 4, 8, 17)),
    *({"rows": (2,), "in_c": size, "out_c": 2, "group": 1} for size in (1, 2, 3, 8, 33)),
    *(
        {"rows": (batch,), "in_c": 9, "out_c": 4, "zx": zx, "zo": zo, **group}
        for zx in ZERO_POINTS
        for zo in END_ZERO_POINTS
        for batch in (1, 2, 3)
        for group in ({}, {"group": 3})
    ),
    *(
        {"rows": (2,), "in_c": 33, "out_c": 7, "bias": bias, "style": style, **group}
        for bias in (True, False)
        for group in ({}, {"group": 11}, {"per_channel": False})
        for style in ("typical", "tie", "tiny", "large")
    ),
]

# 2^31 - 1 less the 255 * 8 that one product reaches.
ROOM = 2**31 - 1 - 255 * 8

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "packing_every_code_at_both_halves_and_an_odd_end": [
        {
            "in_c": 1,
            "out_c": count,
            "w": [[c] for c in codes[:count]],
            "x": 1,
            "zx": 0,
            "ratio": 1.0,
        }
        | {"bias": False, "bounds": (-128, 127)}
        for codes in ([*range(-8, 8)], [*range(7, -9, -1)])
        for count in (1, 2, 15, 16)
    ],
    "packing_rows_that_start_in_the_middle_of_a_byte": [
        {"rows": (2,), "in_c": size, "out_c": 5, **group}
        for size in (1, 3, 5, 7, 31)
        for group in ({}, {"group": size}, {"group": 1})
    ],
    "shape_leading_dimensions_are_rows": [
        {"rows": rows, "in_c": 6, "out_c": 4, **group}
        for rows in ((), (1,), (30,), (2, 5), (2, 3, 4))
        for group in ({}, {"group": 2})
    ],
    "overflow_sums_of_groups_beyond_int32_and_near_2_to_62": [
        {"in_c": 4, "out_c": 2, "group": 1, "x": x, "w": w, "zx": zx, "zo": 0}
        | {"multipliers": [[m, m, m, m], [m, 1, m, 0]], "shifts": [shift, shift]}
        | {"bias_values": [sign * (ROOM - 3 * 2040), sign * ROOM // 2], "bounds": (-128, 127)}
        for x, zx in ((127, -128), (-128, 127))
        for w in (-8, 7)
        for sign in (-1, 1)
        for m, shift in ((2**31 - 1, 62), (2**31 - 1, 2), (2**30, 55))
    ],
    "overflow_longest_dot_product": [
        {"in_c": 65536, "out_c": 1, "x": x, "w": w, "zx": zx, "bias": False}
        | {"group": 32768, "multipliers": [[2**31 - 1, 2**30]], "shifts": [55], "zo": 0}
        for x, zx in ((127, -128), (-128, 127))
        for w in (-8, 7)
    ],
    "rounding_every_shift": [
        {"in_c": 2, "out_c": 2, "group": 1, "zo": zo, "bounds": (-128, 127)}
        | {"multipliers": [[2**31 - 1, 2**30], [3, 0]], "shifts": [shift, shift]}
        for shift in range(2, 63)
        for zo in (-128, 127)
    ],
    "rounding_exact_halves_go_up": [
        {"rows": (16,), "in_c": 2, "out_c": 1, "x": [[a, 0] for a in range(-8, 8)], "w": [[1, 1]]}
        | {"group": 1, "multipliers": [[m, 2**30]], "shifts": [shift], "zx": 0, "zo": -1}
        | {"bias": False, "bounds": (-128, 127)}
        for m, shift in ((2**30, 31), (2**30, 32), (3 * 2**29, 31))
    ],
    "float_result": [
        {"rows": (2, 3), "in_c": size, "out_c": 4, "real": True, "per_channel": per_channel}
        for size in (1, 7, 64)
        for per_channel in (True, False)
    ],
}
