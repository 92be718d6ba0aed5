# SPDX-License-Identifier: BSD-3-Clause
"""Cases of conv3d (parameters: tests/support/dot_nd.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import LARGE_SIZES, SIZES, ZERO_POINTS, int16

BASE = {"size": (2, 4, 3), "in_c": 2, "out_c": 3, "kernel": (2, 2, 3)}
PADDED = {**BASE, "padding": (0, 1, 1, 0, 1, 1)}
POINT = {"size": (1, 2, 2)}

GRID: list[dict[str, Any]] = [
    *({**POINT, "in_c": size, "out_c": 3} for size in SIZES),
    *({**POINT, "in_c": 3, "out_c": size} for size in SIZES),
    *({**PADDED, "in_c": size} for size in LARGE_SIZES),
    *({**PADDED, "batch": batch, "stride": (1, 2, 2)} for batch in (1, 2, 3)),
    *({**PADDED, "zx": zx, "zo": zo} for zx in ZERO_POINTS for zo in ZERO_POINTS),
    *(
        {
            "size": (4, 6, 5),
            "in_c": 2,
            "out_c": 3,
            "kernel": kernel,
            "stride": stride,
            "dilation": dilation,
            "padding": (1, 0, 0, 2, 1, 1),
            "batch": 2,
        }
        for kernel in ((1, 1, 1), (2, 1, 3), (1, 3, 2), (3, 2, 1))
        for stride in ((1, 1, 1), (2, 1, 3), (1, 3, 2))
        for dilation in ((1, 1, 1), (2, 1, 1), (1, 2, 2))
    ),
    *(
        {**PADDED, "in_c": groups * group_c, "out_c": groups * group_out, "groups": groups}
        for groups in (2, 3)
        for group_c, group_out in ((1, 1), (1, 2), (3, 1), (2, 3))
    ),
    *(
        {**PADDED, "bias": bias, "per_channel": per_channel, "style": style, "batch": 2}
        for bias in (True, False)
        for per_channel in (True, False)
        for style in ("typical", "tie", "tiny", "large")
    ),
    *({**PADDED, "real": True, "per_channel": per_channel} for per_channel in (True, False)),
]
GRID += int16(GRID[::5])

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "zero_point_border": [
        {**BASE, "size": (2, 2, 2), "padding": (1, 1) * 3, "zx": zx, "w": 7, "bias": False}
        for zx in ZERO_POINTS
    ],
    "padding_beyond_the_kernel": [
        {**BASE, "size": (1, 2, 1), "padding": (3, 4, 2, 5, 4, 3), "stride": (2, 3, 2)},
    ],
    "range_ratio_of_one_and_more": [
        {"size": (1, 2, 2), "in_c": 4, "out_c": 2, "ratio": ratio, "w": 1}
        for ratio in (4.64, 37.5, 2.0**-31, 2.0**-40, 0.0)
    ],
    "overflow_weights_at_both_ends": [
        {"size": (2, 3, 3), "in_c": 64, "out_c": 2, "kernel": (2, 3, 3), "w": w, "x": x, "zx": zx}
        for w in (-127, 127)
        for x, zx in ((127, -128), (-128, 127), (-128, 0))
    ],
    "overflow_int16_beyond_int32": [
        {"size": (2, 3, 3), "in_c": 64, "out_c": 2, "kernel": (2, 3, 3), "w": w, "x": -32768}
        | {"dtype": "int16", "real": real}
        for w in (-127, 127)
        for real in (False, True)
    ],
    "clamp_of_one_code": [{**PADDED, "bounds": (code, code)} for code in (-128, 0, 127)],
    "batch_items": [{**PADDED, "batch": batch, "in_c": 5} for batch in (1, 2, 3)],
}
