# SPDX-License-Identifier: BSD-3-Clause
"""Cases of conv2d (parameters: tests/support/dot.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES, ZERO_POINTS, int16

BASE = {"in_h": 4, "in_w": 3, "in_c": 2, "out_c": 3, "kernel": (2, 3), "padding": (1, 1, 0, 1)}
POINT = {"in_h": 3, "in_w": 2, "kernel": (1, 1)}

GRID: list[dict[str, Any]] = [
    *({**BASE, "in_c": size} for size in SIZES),
    *({**BASE, "out_c": size} for size in SIZES),
    *({**POINT, "in_c": size, "out_c": 5} for size in SIZES),
    *({**BASE, "in_h": size + 1} for size in SIZES if size < 66),
    *({**BASE, "in_w": size + 1} for size in SIZES if size < 66),
    *({**BASE, "batch": batch, "stride": (1, 2)} for batch in (1, 2, 3)),
    *({**BASE, "zx": zx, "zo": zo} for zx in ZERO_POINTS for zo in ZERO_POINTS),
    *(
        {
            "in_h": 9,
            "in_w": 11,
            "in_c": 3,
            "out_c": 4,
            "kernel": kernel,
            "stride": stride,
            "dilation": dilation,
            "padding": (2, 0, 1, 3),
            "batch": 2,
        }
        for kernel in ((1, 1), (1, 3), (3, 1), (3, 2), (4, 4), (5, 1))
        for stride in ((1, 1), (2, 1), (1, 3), (3, 2))
        for dilation in ((1, 1), (2, 1), (1, 2), (2, 2))
    ),
    *(
        {
            **BASE,
            "in_c": groups * group_c,
            "out_c": groups * group_out,
            "groups": groups,
            "batch": 2,
        }
        for groups in (2, 3, 4, 7)
        for group_c, group_out in ((1, 1), (1, 2), (2, 1), (2, 3), (5, 4))
    ),
    *(
        {**BASE, "bias": bias, "per_channel": per_channel, "style": style, "batch": 2}
        for bias in (True, False)
        for per_channel in (True, False)
        for style in ("typical", "tie", "tiny", "large")
    ),
]
GRID += int16(GRID[::8])

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "zero_point_border": [
        {
            "in_h": 4,
            "in_w": 4,
            "in_c": 1,
            "out_c": 1,
            "kernel": (3, 3),
            "padding": padding,
            "stride": stride,
            "zx": zx,
            "w": 7,
            "bias": False,
        }
        for zx in ZERO_POINTS
        for padding, stride in (
            ((1, 1, 1, 1), (1, 1)),
            ((0, 0, 1, 1), (2, 2)),
            ((1, 0, 0, 1), (2, 1)),
        )
    ],
    "zero_point_dilation": [
        {"in_h": 1, "in_w": 8, "in_c": 1, "out_c": 1, "kernel": (1, 3), "dilation": (1, 2), "x": 1}
        | {"padding": (0, 2, 0, 2), "zx": zx}
        for zx in ZERO_POINTS
    ]
    + [
        {
            "in_h": 6,
            "in_w": 7,
            "in_c": 2,
            "out_c": 2,
            "kernel": (3, 3),
            "dilation": (1, 2),
            "zx": zx,
        }
        | {"padding": (1, 2, 1, 2)}
        for zx in ZERO_POINTS
    ],
    "padding_same_even_kernel": [
        {"in_h": 1, "in_w": 16, "in_c": 2, "out_c": 4, "kernel": (1, 4), "padding": (0, 1, 0, 2)},
        {
            "in_h": 256,
            "in_w": 1,
            "in_c": 1,
            "out_c": 16,
            "kernel": (32, 1),
            "padding": (15, 0, 16, 0),
        },
    ],
    "padding_beyond_the_kernel": [
        {"in_h": 2, "in_w": 1, "in_c": 3, "out_c": 2, "kernel": (1, 2), "padding": (3, 4, 2, 5)},
        {"in_h": 1, "in_w": 2, "in_c": 2, "out_c": 3, "kernel": (2, 1), "padding": (5, 2, 4, 3)}
        | {"stride": (3, 2), "dilation": (2, 3)},
    ],
    "fast_path_shapes": [
        {"in_h": 6, "in_w": 7, "in_c": 4, "out_c": 8, "kernel": kernel, "stride": stride}
        | {"padding": padding, "batch": batch}
        for kernel, stride, padding in (
            ((5, 1), (1, 1), (0, 0, 0, 0)),
            ((1, 5), (1, 1), (0, 0, 0, 0)),
            ((1, 1), (2, 2), (0, 0, 0, 0)),
            ((1, 1), (1, 1), (1, 1, 1, 1)),
            ((2, 2), (1, 1), (0, 0, 0, 0)),
        )
        for batch in (1, 2)
    ],
    "per_channel_grouped": [
        {"in_h": 5, "in_w": 4, "in_c": 8, "out_c": 12, "kernel": (3, 3), "groups": 4},
        {"in_h": 5, "in_w": 4, "in_c": 6, "out_c": 3, "kernel": (3, 3), "groups": 3},
        {"in_h": 5, "in_w": 4, "in_c": 1, "out_c": 4, "kernel": (3, 3)},
    ],
    "per_channel_three_outputs_of_a_2x2_kernel": [
        {"in_h": 4, "in_w": 5, "in_c": 8, "out_c": 3, "kernel": (2, 2), "zx": -1}
    ],
    "length_is_not_the_kernel_width": [
        {"in_h": 1, "in_w": 17, "in_c": 3, "out_c": 5, "kernel": (1, 3), "stride": (1, 2)}
        | {"padding": (0, 1, 0, 1), "dilation": (1, 2), "batch": 2}
    ],
    "range_ratio_of_one_and_more": [
        {"in_h": 2, "in_w": 2, "in_c": 4, "out_c": 2, "ratio": ratio, "w": 1}
        for ratio in (0.052 * 2.39 / 0.112, 4.64, 37.5, 2.0**-31, 2.0**-40, 0.0)
    ],
    "range_zero_channel_gives_the_bias": [
        {"in_h": 2, "in_w": 3, "in_c": 2, "out_c": 3, "w": [[[[5, 9]]], [[[0, 0]]], [[[1, -1]]]]}
        | {"zx": zx, "ratio": 2.0**-4}
        for zx in ZERO_POINTS
    ],
    "overflow_weights_at_both_ends": [
        {"in_h": 3, "in_w": 3, "in_c": 64, "out_c": 2, "kernel": (3, 3), "w": w, "x": x, "zx": zx}
        | {"padding": (1, 1, 1, 1)}
        for w in (-127, 127)
        for x, zx in ((127, -128), (-128, 127), (-128, 0))
    ],
    "zero_point_relu_clamps_at_zero": [
        {**BASE, "zo": zo, "bounds": (zo, 127)} for zo in (-128, -4, 0, 100)
    ],
    "clamp_of_one_code": [{**BASE, "bounds": (code, code)} for code in (-128, 0, 127)],
    "batch_items": [{**BASE, "batch": batch, "in_c": 5} for batch in (1, 2, 3)],
    "overflow_int16_beyond_int32": [
        {"in_h": 3, "in_w": 3, "in_c": 64, "out_c": 2, "kernel": (3, 3), "w": w, "x": x}
        | {"padding": (1, 1, 1, 1), "dtype": "int16", "ratio": 2.0**-18, "real": real}
        for w in (-127, 127)
        for x in (-32768, 32767)
        for real in (False, True)
    ],
    "padding_int16_adds_nothing": [
        {"in_h": 1, "in_w": 2, "in_c": 2, "out_c": 3, "kernel": (2, 1), "padding": (5, 2, 4, 3)}
        | {"stride": (3, 2), "dilation": (2, 3), "dtype": "int16"}
    ],
    "int16_bias_is_added_before_rescaling": [
        {"in_h": 2, "in_w": 2, "in_c": 2, "out_c": 2, "kernel": (1, 1), "dtype": "int16", "w": 1}
        | {"bias_values": bias, "multipliers": [(2**30, 47), (2**30, 47)]}
        for bias in ((2**46, -(2**46)), (2**31, -(2**31) - 1), (-(2**16), 2**16 - 1))
    ],
    "one_dimension": [
        {"size": (size,), "in_c": 3, "out_c": 5, "kernel": (3,), "stride": (2,), "batch": batch}
        | {"padding": (1, 2), "dilation": (dilation,)}
        for size in (3, 16, 17, 33)
        for batch in (1, 2)
        for dilation in (1, 2)
    ],
    "float_result": [
        {**BASE, "real": True, "bias": bias, "per_channel": per_channel, "batch": 2}
        for bias in (True, False)
        for per_channel in (True, False)
    ]
    + [{"size": (5,), "in_c": 2, "out_c": 4, "kernel": (2,), "real": True}]
    + [{**BASE, "real": True, "dtype": "int16", "bias": bias} for bias in (True, False)],
}
