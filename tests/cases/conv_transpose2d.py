# SPDX-License-Identifier: BSD-3-Clause
"""Cases of conv_transpose2d (parameters: tests/support/dot_nd.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import LARGE_SIZES, SIZES, ZERO_POINTS, int16

BASE = {"size": (3, 2), "in_c": 2, "out_c": 3, "kernel": (2, 3), "stride": (2, 1)}
PADDED = {**BASE, "padding": (1, 1, 1, 1), "output_padding": (1, 0)}
POINT = {"size": (2, 2)}

GRID: list[dict[str, Any]] = [
    *({**POINT, "in_c": size, "out_c": 3} for size in SIZES),
    *({**POINT, "in_c": 3, "out_c": size} for size in SIZES),
    *({**PADDED, "in_c": size} for size in LARGE_SIZES),
    *({**BASE, "size": (size, 2)} for size in SIZES if size < 66),
    *({**BASE, "size": (2, size)} for size in SIZES if size < 66),
    *({**PADDED, "batch": batch} for batch in (1, 2, 3)),
    *({**PADDED, "zx": zx, "zo": zo} for zx in ZERO_POINTS for zo in ZERO_POINTS),
    *(
        {
            "size": (4, 5),
            "in_c": 2,
            "out_c": 3,
            "kernel": kernel,
            "stride": stride,
            "dilation": dilation,
            "padding": padding,
            "output_padding": tuple(max(s, d) - 1 for s, d in zip(stride, dilation, strict=True)),
            "batch": 2,
        }
        for kernel in ((1, 1), (1, 3), (3, 1), (3, 2), (4, 4))
        for stride in ((1, 1), (2, 1), (1, 3), (3, 2))
        for dilation in ((1, 1), (2, 1), (1, 2), (3, 2))
        for padding in ((0, 0, 0, 0), (1, 1, 0, 0), (0, 0, 1, 1))
        if (kernel[0] > 1 or padding[0] == 0) and (kernel[1] > 1 or padding[2] == 0)
    ),
    *(
        {**PADDED, "in_c": groups * group_c, "out_c": groups * group_out, "groups": groups}
        for groups in (2, 3, 4, 7)
        for group_c, group_out in ((1, 1), (1, 2), (2, 1), (2, 3))
    ),
    *(
        {**PADDED, "bias": bias, "per_channel": per_channel, "style": style, "batch": 2}
        for bias in (True, False)
        for per_channel in (True, False)
        for style in ("typical", "tie", "tiny", "large")
    ),
    *({**PADDED, "real": True, "per_channel": per_channel} for per_channel in (True, False)),
    *(
        {"size": (size,), "in_c": 3, "out_c": 2, "kernel": (3,), "stride": (2,), "batch": 2}
        | {"padding": (1, 1), "output_padding": (1,)}
        for size in (1, 2, 3, 16, 17, 33)
    ),
]
GRID += int16(GRID[::10])

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "zero_point_of_places_no_tap_reaches": [
        {"size": (3, 3), "in_c": 2, "out_c": 2, "kernel": (1, 2), "stride": (3, 4), "zx": zx}
        | {"output_padding": (2, 3), "bias": bias}
        for zx in ZERO_POINTS
        for bias in (True, False)
    ],
    "padding_cuts_all_of_a_tap": [
        {"size": (5, 6), "in_c": 2, "out_c": 2, "kernel": (2, 3), "padding": (2, 2, 3, 3)},
        {"size": (1, 1), "in_c": 2, "out_c": 2, "kernel": (5, 5), "padding": (2, 2, 2, 2)},
    ],
    "output_padding_of_a_dilation": [
        {"size": (2, 2), "in_c": 1, "out_c": 1, "kernel": (2, 2), "dilation": (3, 4)}
        | {"output_padding": (2, 3)}
    ],
    "per_channel_axis_one": [
        {"size": (2, 3), "in_c": 4, "out_c": 6, "groups": 2, "kernel": (2, 2), "stride": (2, 2)},
        {"size": (2, 3), "in_c": 6, "out_c": 4, "groups": 2, "kernel": (2, 2), "stride": (2, 2)},
    ],
    "range_ratio_of_one_and_more": [
        {"size": (2, 2), "in_c": 4, "out_c": 2, "ratio": ratio, "w": 1}
        for ratio in (4.64, 37.5, 2.0**-31, 2.0**-40, 0.0)
    ],
    "overflow_weights_at_both_ends": [
        {"size": (3, 3), "in_c": 64, "out_c": 2, "kernel": (3, 3), "w": w, "x": x, "zx": zx}
        | {"padding": (1, 1, 1, 1)}
        for w in (-127, 127)
        for x, zx in ((127, -128), (-128, 127), (-128, 0))
    ],
    "overflow_int16_beyond_int32": [
        {"size": (3, 3), "in_c": 64, "out_c": 2, "kernel": (3, 3), "w": w, "x": -32768}
        | {"padding": (1, 1, 1, 1), "dtype": "int16", "real": real}
        for w in (-127, 127)
        for real in (False, True)
    ],
    "clamp_of_one_code": [{**PADDED, "bounds": (code, code)} for code in (-128, 0, 127)],
    "batch_items": [{**PADDED, "batch": batch, "in_c": 5} for batch in (1, 2, 3)],
}
