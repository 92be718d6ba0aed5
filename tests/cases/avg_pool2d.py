# SPDX-License-Identifier: BSD-3-Clause
"""Cases of avg_pool2d (parameters: tests/support/window.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, ZERO_POINTS, wide

BASE = {"in_h": 5, "in_w": 6, "kernel": (2, 3), "stride": (1, 2), "padding": (1, 1)}
# Pairs that add up to 1, -1, 3, -3, 5, -5: each average is an exact half.
HALVES = (1, 0, -1, 0, 1, 2, -1, -2, 2, 3, -3, -2)
FLAGS = [(ceil_mode, include) for ceil_mode in (False, True) for include in (False, True)]

GRID: list[dict[str, Any]] = [
    *({**BASE, "in_c": size} for size in SIZES),
    *({**BASE, "in_c": 2, "in_h": size} for size in SIZES if size < 66),
    *({**BASE, "in_c": 2, "in_w": size} for size in SIZES if size < 66),
    *({**BASE, "in_c": 3, "batch": batch, "same": same} for batch in (1, 2, 3) for same in (0, 1)),
    *(
        {**BASE, "in_c": 3, "zx": zx, "zo": zo, "same": 0}
        for zx in ZERO_POINTS
        for zo in ZERO_POINTS
    ),
    *(
        {"in_h": 9, "in_w": 11, "in_c": 3, "kernel": kernel, "stride": stride, "padding": padding}
        | {"ceil_mode": ceil_mode, "count_include_pad": include, "same": same}
        for kernel, padding in (((2, 1), (1, 0)), ((3, 2), (1, 1)), ((4, 5), (2, 2)))
        for stride in ((1, 1), (2, 3), (3, 2))
        for ceil_mode, include in FLAGS
        for same in (0, 1)
    ),
]

GRID += wide(GRID, 6)

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "attribute_dropped_ceil_overhang_is_not_counted": [
        {"in_h": 1, "in_w": 9, "in_c": 2, "kernel": (1, 7), "stride": (1, 3), "padding": (0, 3)}
        | {"ceil_mode": True, "count_include_pad": True, "same": same}
        for same in (0, 1)
    ],
    "attribute_dropped_flags": [
        {"in_h": 6, "in_w": 7, "in_c": 3, "kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}
        | {"ceil_mode": ceil_mode, "count_include_pad": include, "divisor_override": override}
        | {"same": same}
        for ceil_mode, include in FLAGS
        for override in (None, 1, 2, 1000)
        for same in (0, 1)
    ],
    "rounding_half_away_from_zero": [
        {"in_h": 1, "in_w": 12, "in_c": 1, "kernel": (1, 2), "zx": zp, "same": 1}
        | {"x": [[[[zp + code] for code in HALVES]]], "bounds": (-128, 127)}
        for zp in (0, -3)
    ],
    "saturation_divisor_override_below_the_count": [
        {"in_h": 4, "in_w": 4, "in_c": 2, "kernel": (4, 4), "divisor_override": 1, "x": x, "zx": zx}
        | {"same": same}
        for x, zx in ((127, -128), (-128, 127))
        for same in (0, 1)
    ],
    "overflow_int16_largest_sums": [
        {"in_h": 255, "in_w": 257, "in_c": 1, "kernel": (255, 257), "x": x, "same": same}
        | {"dtype": "int16"}
        for x in (-32768, 32767)
        for same in (0, 1)
    ],
    "batch_items": [{**BASE, "in_c": 4, "batch": batch} for batch in (1, 2, 3)],
}
