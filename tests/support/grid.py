# SPDX-License-Identifier: BSD-3-Clause
"""Sizes and values that case files are made of."""

from __future__ import annotations

from typing import Any

# Accumulators of int16 activations: around int32, and up to 2^47.
WIDE_ACCUMULATORS = tuple(
    sign * (2**exponent + more)
    for sign in (-1, 1)
    for exponent in (0, 15, 31, 32, 40, 46, 47)
    for more in (-1, 0, 1)
    if exponent < 47 or more < 1
)
# Every size up to 40 (vector bodies of up to 32 elements and each tail), then around powers of two.
SIZES = (*range(1, 41), 63, 64, 65, 127, 128, 129, 255, 256, 257)
LARGE_SIZES = (63, 64, 65, 127, 128, 129)
END_ZERO_POINTS = (-128, 127)
ZERO_POINTS = (-128, -1, 0, 37, 127)
ACCUMULATORS = (
    -(2**31),
    -(2**31) + 1,
    -(2**30) - 1,
    -(2**30),
    -3,
    -2,
    -1,
    0,
    1,
    2,
    3,
    2**30 - 1,
    2**30,
    2**31 - 2,
    2**31 - 1,
)
MULTIPLIERS = (0, 1, 2**30 - 1, 2**30, 2**30 + 1, 3 * 2**29, 2**31 - 1)


def int16(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same cases of int16 activations, whose zero points are 0."""
    kept = [{k: v for k, v in case.items() if k not in ("zx", "zo")} for case in cases]
    return [{**case, "dtype": "int16"} for case in kept]


_OF_INT8 = {"zero_points", "codes", "zx", "zo", "za", "zb", "x", "bounds"}


def wide(cases: list[dict[str, Any]], every: int = 1) -> list[dict[str, Any]]:
    """Of the cases without given codes and zero points, every so many-th, with int16 codes."""
    free = [case for case in cases if not _OF_INT8 & case.keys()]
    return [{**case, "dtype": "int16"} for case in free[::every]]


def pairs(op: str) -> list[dict[str, Any]]:
    """Parameters of from_spec.py: sizes, zero points and broadcasts of an operator of two."""
    shapes = [
        *(((size,), (size,)) for size in SIZES),
        *(((2, size), (size,)) for size in SIZES),
        *(((size, 1), (size, 3)) for size in SIZES if size < 66),
        *(((batch, 3, 4, 5), (batch, 3, 4, 5)) for batch in (1, 2, 3)),
        *(((2, 3, 4, 5), shape) for shape in ((5,), (4, 1), (3, 1, 1), (1, 3, 1, 5), ())),
    ]
    ends = [
        {"zero_points": (za, zb, zo)}
        for za in ZERO_POINTS
        for zb in ZERO_POINTS
        for zo in (-128, 12, 127)
    ]
    return [
        *({"op": op, "shapes": given} for given in shapes),
        *({"op": op, "shapes": ((3, 7), (3, 7)), **others} for others in ends),
    ]
