# SPDX-License-Identifier: BSD-3-Clause
"""Cases of log_softmax (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import LARGE_SIZES, ZERO_POINTS


def _case(shape: tuple[int, ...], dim: int, **others: Any) -> dict[str, Any]:
    s_in, s_out = others.pop("s_in", 0.05), others.pop("s_out", 0.06)
    grid = {"scales": (s_in, s_out), "zero_points": (others.pop("zx", 3), others.pop("zo", 127))}
    return {"op": "log_softmax", "shapes": (shape,), "attributes": (dim,), **grid, **others}


GRID: list[dict[str, Any]] = [
    *(_case((2, size), -1) for size in (*range(1, 18), *LARGE_SIZES)),
    *(_case((batch, 3, 4, 5), dim) for batch in (1, 2, 3) for dim in (0, 1, -1, -2)),
    *(_case((3, 7), 1, zx=zx, zo=zo) for zx in (-128, 127) for zo in ZERO_POINTS),
    *(_case((4, 9), 1, s_in=s_in, s_out=s_in) for s_in in (2**-8, 0.1, 1.0, 7.5)),
]


def _wide(shape: tuple[int, ...], dim: int, **others: Any) -> dict[str, Any]:
    scales = (others.pop("s_in", 2.0**-12), others.pop("s_out", 2.0**-11))
    case = {"op": "log_softmax", "shapes": (shape,), "attributes": (dim,), "scales": scales}
    return {**case, "dtype": "int16", **others}


GRID += [
    *(_wide((2, size), -1) for size in (1, 2, 3, 7, 16, 17, 64, 129)),
    *(_wide((batch, 3, 4, 5), dim) for batch in (1, 2) for dim in (0, 1, -1, -2)),
    *(_wide((4, 9), 0, s_out=s_out) for s_out in (2.0**-14, 0.02, 1.0)),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "zero_point_any_axis": [_case((2, 3, 4), dim, zx=77, zo=-5) for dim in (0, 1, -1, -2)],
    "overflow_longest_sums": [
        _case((1, 65536), 1, codes=([[code] * 65536],), s_in=2**-10) for code in (-128, 127)
    ],
    "range_hostile_scales": [
        _case((3, 40), 1, s_in=s_in, s_out=s_out)
        for s_in, s_out in (
            (2.0**-100, 0.05),
            (2.0**100, 2.0**100),
            (0.05, 2.0**100),
            (4.0, 2**-20),
        )
    ],
    "rounding_ties_single_element": [_case((5, 1), 1, zo=zo) for zo in (-128, 0, 127)],
    "overflow_int16_longest_sums": [
        _wide((1, 65536), 1, codes=([[code] * 65536],)) for code in (-32768, 32767)
    ],
    "range_int16_hostile_scales": [
        _wide((3, 40), 1, s_in=s_in, s_out=s_out)
        for s_in, s_out in ((2.0**-100, 0.05), (2.0**100, 2.0**100), (4.0, 2**-10))
    ],
}
