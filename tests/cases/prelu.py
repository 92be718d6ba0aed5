# SPDX-License-Identifier: BSD-3-Clause
"""Cases of prelu, the channel innermost (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import END_ZERO_POINTS, SIZES, ZERO_POINTS, wide


def _slopes(channels: int) -> list[float]:
    """Of both signs, 0 among them, some steeper than 1."""
    return [(0.25, -0.5, 0.0, 1.5, 0.013, -2.25, 1.0)[c % 7] for c in range(channels)]


def _case(rows: int, channels: int, **others: Any) -> dict[str, Any]:
    weight = {"tensor": others.pop("slopes", _slopes(channels))}
    return {"op": "prelu", "shapes": ((rows, channels),), "attributes": (weight,), **others}


EVERY_CODE = [code for code in range(-128, 128) for _ in range(7)]
TENTH = [0.1, 0.25, 0.5, -0.5, -0.1, 0.0, 1.0]

GRID: list[dict[str, Any]] = [
    *(_case(3, size) for size in SIZES if size > 1),
    *(_case(size, 2) for size in (1, 2, 15, 16, 17, 33)),
    *(
        _case(256, 7, codes=(EVERY_CODE,), zero_points=(zi, zo))
        for zi in ZERO_POINTS
        for zo in ZERO_POINTS
    ),
]

GRID += wide(GRID, 2)


def _sloped(op: str, *attributes: Any, **others: Any) -> dict[str, Any]:
    """Functions of int16 codes with a slope on either side of zero."""
    codes = [-32768, -32767, -3, -2, -1, 0, 1, 2, 3, 32767]
    case = {"op": op, "shapes": ((10,),), "codes": (codes,), "attributes": attributes}
    return {**case, "dtype": "int16", **others}


GRID += [
    _sloped(op, *attributes, scales=(1.0, s_out))
    for op, attributes in (
        ("abs", ()),
        ("neg", ()),
        ("leaky_relu", (0.01,)),
        ("leaky_relu", (-0.5,)),
        ("mul.Scalar", (-0.3,)),
        ("prelu", ({"tensor": [-0.25]},)),
    )
    for s_out in (1.0, 2.0, 0.7)
]
GRID += [
    {"op": "abs", "shapes": (shape,), "attributes": (), "dtype": "int16"}
    for shape in ((), (1, 1), (3, 1, 2), (2, 3, 4, 5))
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "rounding_ties": [
        _case(256, 7, codes=(EVERY_CODE,), scales=(1.0, s_out), zero_points=(zi, 3), slopes=TENTH)
        for s_out in (2.0, 8.0)
        for zi in (0, 1)
    ],
    "range_extreme_ratios": [
        _case(256, 7, codes=(EVERY_CODE,), scales=(s_in, 1.0), slopes=slopes)
        for s_in in (2.0**-40, 2.0**-9, 2.0**28)
        for slopes in ([1.0] * 7, [2.0**-30, -(2.0**-60), 0.0, -0.0, 1.25, -1.25, 1e-45])
    ],
    "zero_point_at_an_end": [
        _case(256, 7, codes=(EVERY_CODE,), zero_points=(zi, zo), scales=(0.5, 0.25))
        for zi in END_ZERO_POINTS
        for zo in END_ZERO_POINTS
    ],
    "batch_items": [_case(batch, 6) for batch in (1, 2, 3)],
}
