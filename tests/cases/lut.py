# SPDX-License-Identifier: BSD-3-Clause
"""Cases of lut (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import END_ZERO_POINTS, SIZES, ZERO_POINTS

EVERY_CODE = list(range(-128, 128))


def _case(op: str, shape: tuple[int, ...], **others: Any) -> dict[str, Any]:
    return {"op": op, "shapes": (shape,), **others}


def _every(op: str, **others: Any) -> dict[str, Any]:
    return _case(op, (256,), codes=(EVERY_CODE,), **others)


GRID: list[dict[str, Any]] = [
    *(_case("sigmoid", (size,)) for size in SIZES),
    *(_case("tanh", (2, size)) for size in (1, 15, 16, 17, 31, 33)),
    *(_every("silu", zero_points=(zi, zo)) for zi in ZERO_POINTS for zo in ZERO_POINTS),
    *(_case("abs", shape) for shape in ((), (1, 1), (3, 1, 2), (2, 3, 4, 5, 2, 2))),
    *(_every("add.Scalar", attributes=(c, alpha)) for c in (0.3, -1000.0) for alpha in (1.0, 0.5)),
    *(_every("mul.Scalar", attributes=(-0.3,), zero_points=(zi, -128)) for zi in ZERO_POINTS),
    *(_every("pow", attributes=(exponent,)) for exponent in (3.0, 0.5, -1.0)),
]


_WIDE_CODES = [-32768, -32767, -129, -128, -127, -1, 0, 1, 127, 128, 129, 32639, 32640, 32767]


def _wide(op: str, shape: tuple[int, ...] = (14,), **others: Any) -> dict[str, Any]:
    scales = others.pop("scales", (2.0**-12, 2.0**-13))
    return _case(op, shape, dtype="int16", scales=scales, **others)


GRID += [
    *(_wide("sigmoid", (size,), scales=(2.0**-12, 2.0**-15)) for size in SIZES),
    *(
        _wide(op, codes=(_WIDE_CODES,), scales=scales)
        for op in ("tanh", "silu", "mish", "erf", "sin")
        for scales in ((2.0**-12, 2.0**-13), (0.0003, 0.00023), (2.0**-4, 2.0**-5))
    ),
    *(_wide("add.Scalar", attributes=(c, alpha)) for c in (0.3, -1.5) for alpha in (1.0, 0.5)),
    *(_wide("pow", attributes=(exponent,)) for exponent in (3.0, 0.5)),
    *(_wide("gelu", (batch, 3, 5, 2), attributes=("tanh",)) for batch in (1, 2, 3)),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "saturation_nan_and_infinity": [
        _every(op, zero_points=(0, zo), scales=(0.125, 0.25))
        for op in ("log", "sqrt", "rsqrt", "reciprocal", "acosh", "atanh")
        for zo in END_ZERO_POINTS
    ],
    "range_hostile_scales": [
        _every("exp", scales=scales)
        for scales in ((2.0**-126, 2.0**126), (2.0**126, 2.0**-126), (2.0**126, 2.0**126))
    ],
    "rounding_ties": [
        _every("abs", scales=(1.0, 2.0), zero_points=(zi, zo)) for zi in (0, 1) for zo in (-3, 0)
    ],
    "batch_items": [_case("gelu", (batch, 3, 5, 2), attributes=("tanh",)) for batch in (1, 2, 3)],
    "range_int16_hostile_scales": [
        _wide("silu", codes=(_WIDE_CODES,), scales=scales)
        for scales in ((2.0**-126, 2.0**126), (2.0**-10, 2.0**126), (2.0**-126, 2.0**-126))
    ],
    "rounding_int16_ties": [
        _wide("sub.Scalar", (2, 40), attributes=(0.5, 1.0), scales=(1.0, s_out))
        for s_out in (2.0, 256.0)
    ],
}
