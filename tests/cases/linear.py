# SPDX-License-Identifier: BSD-3-Clause
"""Cases of linear (parameters: tests/support/dot.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import (
    ACCUMULATORS,
    MULTIPLIERS,
    SIZES,
    WIDE_ACCUMULATORS,
    ZERO_POINTS,
    int16,
)

GRID: list[dict[str, Any]] = [
    *({"rows": (2,), "in_c": size, "out_c": 3} for size in (*SIZES, 511, 512, 513)),
    *({"rows": (2,), "in_c": 5, "out_c": size} for size in SIZES),
    *({"rows": (size,), "in_c": 4, "out_c": 3} for size in SIZES if size < 66),
    *(
        {"rows": (3,), "in_c": 9, "out_c": 4, "zx": zx, "zo": zo}
        for zx in ZERO_POINTS
        for zo in ZERO_POINTS
    ),
    *(
        {"rows": (2,), "in_c": 33, "out_c": 7, "bias": bias, "per_channel": per_channel}
        | {"style": style}
        for bias in (True, False)
        for per_channel in (True, False)
        for style in ("typical", "tie", "tiny", "large")
    ),
]
GRID += int16(GRID[::5])

# Halfway between two float32, rounded down and up, and neighbours; a mantissa that carries.
NEAR_FLOATS = [
    sign * value
    for sign in (-1, 1)
    for exponent in (24, 25, 30)
    for base in (2**exponent, 3 * 2 ** (exponent - 1))
    for half in (2 ** (exponent - 24), 3 * 2 ** (exponent - 24))
    for value in (base + half - 1, base + half, base + half + 1)
] + [2**24 - 1, 2**25 - 1, 2**31 - 64, 2**31 - 65]
WIDE_NEAR_FLOATS = [
    sign * (2**exponent + part * 2 ** (exponent - 24) + more)
    for sign in (-1, 1)
    for exponent in (32, 39, 46)
    for part in (1, 3)
    for more in (-1, 0, 1)
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "shape_leading_dimensions_are_rows": [
        {"rows": rows, "in_c": 5, "out_c": 4} for rows in ((), (1,), (30,), (2, 5), (2, 3, 4))
    ],
    "overflow_pair_sums_beyond_int16": [
        {
            "rows": (1,),
            "in_c": 3,
            "out_c": 1,
            "x": [[82, 70, 106]],
            "w": [[-81, -80, 127]],
            "zx": -128,
            "ratio": 2.0**-9,
        },
        {"rows": (1,), "in_c": 64, "out_c": 2, "x": 127, "w": 127, "zx": -128},
        {"rows": (1,), "in_c": 64, "out_c": 2, "x": -128, "w": -127, "zx": 127},
    ],
    "overflow_longest_dot_product": [
        {"in_c": 66311, "out_c": 1, "x": x, "w": w, "zx": zx, "bias": False, "ratio": 2.0**-25}
        for x, zx in ((127, -128), (-128, 127))
        for w in (-127, 127)
    ],
    "zero_point_codes_beyond_int8": [
        {"rows": (3,), "in_c": 1, "out_c": 1, "x": [[-128], [-50], [127]], "w": 1, "zx": zx}
        | {"bias": False, "ratio": 0.5}
        for zx in (-128, 100)
    ],
    "rounding_every_accumulator_edge": [
        {
            "acc": ACCUMULATORS,
            "multipliers": [(multiplier, shift)] * len(ACCUMULATORS),
            "zo": zo,
            "bounds": (-128, 127),
        }
        for multiplier in MULTIPLIERS
        for shift, zo in zip(range(2, 63), [-128, 127, 0, -1, 37] * 13, strict=False)
    ],
    "rounding_quarter_of_small_accumulators": [
        {"acc": tuple(range(-8, 9)), "multipliers": [(2**30, 32)] * 17, "zo": zo}
        | {"bounds": (-128, 127)}
        for zo in (0, -3)
    ],
    "per_channel_one_multiplier_for_all": [
        {"acc": ACCUMULATORS, "multipliers": [(2**30 + 12345, 40)], "zo": 5}
    ],
    "batch_rows": [{"rows": (batch,), "in_c": 17, "out_c": 6} for batch in (1, 2, 3)],
    "float_result": [
        {"rows": (2, 3), "in_c": size, "out_c": 4, "real": True, "per_channel": per_channel}
        for size in (1, 7, 64, 257)
        for per_channel in (True, False)
    ],
    "overflow_int16_beyond_int32": [
        {"rows": (2,), "in_c": in_c, "out_c": 2, "dtype": "int16", "x": x, "w": w, "ratio": ratio}
        | {"real": real}
        for in_c in (511, 512, 513, 516, 517, 4096)
        for x, w in ((-32768, -127), (-32768, 127), (32767, -127))
        for ratio, real in ((2.0**-20, False), (1.0, True))
    ],
    "shape_int16_leading_dimensions_are_rows": [
        {"rows": rows, "in_c": 5, "out_c": 5, "dtype": "int16"}
        for rows in ((), (1,), (1, 30), (2, 3, 4))
    ],
    "rounding_int16_every_accumulator_edge": [
        {
            "acc": WIDE_ACCUMULATORS,
            "multipliers": [(multiplier, shift)] * len(WIDE_ACCUMULATORS),
            "bounds": (-32768, 32767),
            "dtype": "int16",
        }
        for multiplier in (0, 2**30, 2**30 + 1, 2**31 - 1)
        for shift in (2, 31, 32, 33, 34, 46, 47, 48, 61, 62)
    ],
    "float_result_of_int16_accumulator_edges": [
        {
            "acc": (*WIDE_ACCUMULATORS, *WIDE_NEAR_FLOATS),
            "real": True,
            "real_scales": [scale] * (len(WIDE_ACCUMULATORS) + len(WIDE_NEAR_FLOATS)),
            "dtype": "int16",
        }
        for scale in (2.0**-126, 1.0, 0.3333333432674408)
    ],
    "float_result_of_every_accumulator_edge": [
        {
            "acc": (*ACCUMULATORS, *NEAR_FLOATS),
            "real": True,
            "real_scales": [scale] * (len(ACCUMULATORS) + len(NEAR_FLOATS)),
        }
        for scale in (2.0**-126, 2.0**126, 1.0, 1.1920928955078125e-07, 0.3333333432674408)
    ],
}
