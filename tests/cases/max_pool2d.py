# SPDX-License-Identifier: BSD-3-Clause
"""Cases of max_pool2d (parameters: tests/support/window.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, ZERO_POINTS, wide

BASE = {"in_h": 5, "in_w": 6, "kernel": (2, 3), "stride": (1, 2), "padding": (1, 1)}

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
        {"in_h": 9, "in_w": 11, "in_c": 3, "kernel": kernel, "stride": stride, "padding": (1, 0)}
        | {"dilation": dilation, "ceil_mode": ceil_mode}
        for kernel in ((2, 1), (3, 2), (4, 5))
        for stride in ((1, 1), (2, 3), (3, 2))
        for dilation in ((1, 1), (2, 1), (1, 2))
        for ceil_mode in (False, True)
    ),
]

GRID += wide(GRID, 5)

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "ceil_mode": [
        {"in_h": 23, "in_w": 23, "in_c": 3, "kernel": (2, 2), "ceil_mode": True, "batch": batch}
        for batch in (1, 2)
    ],
    "zero_point_padding_never_wins": [
        {**BASE, "in_c": 2, "x": x, "zx": zx} for x in (-128, -127) for zx in (-128, 0, 127)
    ],
    "memory_global_window": [
        {"in_h": size, "in_w": size + 1, "in_c": 5, "kernel": (size, size + 1)}
        for size in (1, 4, 9)
    ],
    "overflow_int16_largest_sums": [
        {"in_h": 255, "in_w": 257, "in_c": 1, "kernel": (255, 257), "x": x, "same": same}
        | {"dtype": "int16"}
        for x in (-32768, 32767)
        for same in (0, 1)
    ],
    "batch_items": [{**BASE, "in_c": 4, "batch": batch} for batch in (1, 2, 3)],
}
