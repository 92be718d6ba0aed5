# SPDX-License-Identifier: BSD-3-Clause
"""Cases of conv2d_w4 (parameters: tests/support/dot_w4.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import END_ZERO_POINTS, LARGE_SIZES, ZERO_POINTS

BASE = {"in_h": 4, "in_w": 3, "in_c": 2, "out_c": 3, "kernel": (2, 3), "padding": (1, 1, 0, 1)}
POINT = {"in_h": 3, "in_w": 2, "kernel": (1, 1)}
SIZES = (*range(1, 18), 31, 32, 33, *LARGE_SIZES)

GRID: list[dict[str, Any]] = [
    *({**BASE, "in_c": size} for size in SIZES),
    *({**BASE, "out_c": size} for size in SIZES),
    *({**POINT, "in_c": size, "out_c": 5} for size in SIZES),
    *({**BASE, "in_c": 2 * size, "group": size} for size in SIZES),
    *({**POINT, "in_c": 4 * n, "out_c": 3, "group": 4} for n in (1, 2, 3, 5, 9)),
    *({**BASE, "in_h": size + 1} for size in (1, 2, 3, 7, 8, 9, 17)),
    *({**BASE, "in_w": size + 1} for size in (1, 2, 3, 7, 8, 9, 17)),
    *(
        {**BASE, "batch": batch, "stride": (1, 2), **g}
        for batch in (1, 2, 3)
        for g in ({}, {"group": 1})
    ),
    *(
        {**BASE, "in_c": 6, "zx": zx, "zo": zo, **group}
        for zx in ZERO_POINTS
        for zo in END_ZERO_POINTS
        for group in ({}, {"group": 3})
    ),
    *(
        {
            "in_h": 9,
            "in_w": 11,
            "in_c": 4,
            "out_c": 3,
            "kernel": kernel,
            "stride": stride,
            "dilation": dilation,
            "padding": (2, 0, 1, 3),
            "batch": 2,
            **group,
        }
        for kernel in ((1, 1), (1, 3), (3, 2), (4, 4))
        for stride in ((1, 1), (2, 1), (3, 2))
        for dilation in ((1, 1), (2, 1), (1, 2))
        for group in ({}, {"group": 2})
    ),
    *(
        {
            **BASE,
            "in_c": groups * group_c,
            "out_c": groups * out,
            "groups": groups,
            "batch": 2,
            **group,
        }
        for groups in (2, 3, 7)
        for group_c, out in ((1, 1), (1, 2), (2, 1), (4, 3))
        for group in ({}, {"group": 1})
    ),
    *(
        {**BASE, "bias": bias, "per_channel": per_channel, "style": style, "batch": 2}
        for bias in (True, False)
        for per_channel in (True, False)
        for style in ("typical", "tie", "tiny", "large")
    ),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "zero_point_border": [
        {"in_h": 4, "in_w": 4, "in_c": 2, "out_c": 2, "kernel": (3, 3), "padding": padding}
        | {"stride": stride, "zx": zx, "w": 7, "bias": False, **group}
        for zx in ZERO_POINTS
        for padding, stride in (((1, 1, 1, 1), (1, 1)), ((0, 0, 1, 1), (2, 2)))
        for group in ({}, {"group": 1})
    ],
    "shape_windows_in_the_padding_alone": [
        {"in_h": 1, "in_w": 1, "in_c": 2, "out_c": 2, "kernel": (1, 2), "padding": (3, 4, 3, 4)}
        | {"zx": zx, **group}
        for zx in (-128, 0, 127)
        for group in ({}, {"group": 1})
    ],
    "packing_filters_that_start_in_the_middle_of_a_byte": [
        {"in_h": 3, "in_w": 3, "in_c": in_c, "out_c": 4, "kernel": kernel, **group}
        for in_c in (1, 3, 5)
        for kernel in ((1, 1), (3, 3), (1, 3))
        for group in ({}, {"group": 1})
    ],
    "overflow_sums_of_groups_near_2_to_62": [
        {"in_h": 2, "in_w": 2, "in_c": 2, "out_c": 1, "kernel": (2, 2), "x": x, "w": w, "zx": zx}
        | {"group": 1, "multipliers": [[2**31 - 1, 2**30]], "shifts": [shift], "zo": 0}
        | {"bias_values": [sign * (2**31 - 1 - 8 * 2040)], "bounds": (-128, 127)}
        for x, zx in ((127, -128), (-128, 127))
        for w in (-8, 7)
        for sign in (-1, 1)
        for shift in (2, 55, 62)
    ],
    "float_result": [
        {**BASE, "real": True, "per_channel": per_channel} for per_channel in (True, False)
    ],
}
