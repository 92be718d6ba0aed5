# SPDX-License-Identifier: BSD-3-Clause
"""Cases of depthwise_conv2d (parameters: tests/support/dot.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, ZERO_POINTS, int16

BASE = {"in_h": 4, "in_w": 5, "kernel": (3, 2), "padding": (1, 0, 1, 1)}

GRID: list[dict[str, Any]] = [
    *({**BASE, "in_c": size, "out_c": size} for size in SIZES),
    *({**BASE, "in_c": size, "out_c": 3 * size, "batch": 2} for size in SIZES if size < 66),
    *({**BASE, "in_c": 1, "out_c": size} for size in SIZES),
    *({**BASE, "in_c": 3, "out_c": 3, "in_h": size + 1} for size in SIZES if size < 66),
    *({**BASE, "in_c": 3, "out_c": 3, "in_w": size + 1} for size in SIZES if size < 66),
    *(
        {**BASE, "in_c": 4, "out_c": 4, "zx": zx, "zo": zo}
        for zx in ZERO_POINTS
        for zo in ZERO_POINTS
    ),
    *(
        {
            "in_h": 9,
            "in_w": 11,
            "in_c": 5,
            "out_c": 10,
            "kernel": kernel,
            "stride": stride,
            "dilation": dilation,
            "padding": (1, 2, 3, 0),
            "batch": 2,
        }
        for kernel in ((1, 1), (1, 3), (3, 1), (3, 3), (5, 2))
        for stride in ((1, 1), (2, 1), (1, 3), (2, 2))
        for dilation in ((1, 1), (2, 1), (1, 2))
    ),
    *(
        {**BASE, "in_c": 7, "out_c": 7, "bias": bias, "per_channel": per_channel, "style": style}
        for bias in (True, False)
        for per_channel in (True, False)
        for style in ("typical", "tie", "tiny", "large")
    ),
]
GRID += int16(GRID[::8])

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "per_channel_multiplier": [
        {"in_h": 5, "in_w": 4, "in_c": in_c, "out_c": out_c, "kernel": (3, 3), "batch": batch}
        for in_c, out_c in ((3, 12), (1, 4), (4, 4), (3, 6), (2, 10))
        for batch in (1, 3)
    ],
    "zero_point_border": [
        {"in_h": 4, "in_w": 4, "in_c": 2, "out_c": 2, "kernel": (3, 3), "w": 5, "zx": zx}
        | {"padding": padding, "stride": stride, "bias": False}
        for zx in ZERO_POINTS
        for padding, stride in (((1, 1, 1, 1), (1, 1)), ((0, 0, 1, 1), (2, 2)))
    ],
    "zero_point_dilation": [
        {
            "in_h": 7,
            "in_w": 6,
            "in_c": 3,
            "out_c": 6,
            "kernel": (3, 3),
            "dilation": (1, 2),
            "zx": zx,
        }
        | {"padding": (1, 2, 1, 2)}
        for zx in ZERO_POINTS
    ],
    "padding_beyond_the_kernel": [
        {"in_h": 1, "in_w": 2, "in_c": 3, "out_c": 3, "kernel": (2, 1), "padding": (4, 3, 5, 2)}
    ],
    "overflow_codes_at_both_ends": [
        {"in_h": 6, "in_w": 6, "in_c": 8, "out_c": 8, "kernel": (5, 5), "w": w, "x": x, "zx": zx}
        for w in (-127, 127)
        for x, zx in ((127, -128), (-128, 127))
    ],
    "one_dimension": [
        {"size": (size,), "in_c": 3, "out_c": 6, "kernel": (3,), "stride": (2,), "batch": batch}
        | {"padding": (1, 2), "dilation": (dilation,)}
        for size in (3, 16, 17, 33)
        for batch in (1, 2)
        for dilation in (1, 2)
    ],
    "overflow_int16_beyond_int32": [
        {"in_h": 30, "in_w": 30, "in_c": 2, "out_c": 4, "kernel": (25, 25), "w": w, "x": -32768}
        | {"stride": (5, 5), "padding": (1, 1, 1, 1), "dtype": "int16", "real": real}
        for w in (-127, 127)
        for real in (False, True)
    ],
    "float_result": [
        {
            **BASE,
            "in_c": 3,
            "out_c": 6,
            "real": True,
            "bias": bias,
            "per_channel": per_channel,
            "batch": 2,
        }
        for bias in (True, False)
        for per_channel in (True, False)
    ]
    + [{"size": (5,), "in_c": 2, "out_c": 4, "kernel": (2,), "real": True}],
}
