# SPDX-License-Identifier: BSD-3-Clause
"""Cases of rms_norm (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

from typing import Any

from tests.cases.layer_norm import reals
from tests.support.grid import LARGE_SIZES, ZERO_POINTS


def _case(shape: tuple[int, ...], norm: tuple[int, ...], **others: Any) -> dict[str, Any]:
    weight = others.pop("weight", reals(*norm))
    attributes = (list(norm), weight, others.pop("eps", 1e-5))
    scales = {"scales": others.pop("scales", (0.04, 0.03))}
    return {"op": "rms_norm", "shapes": (shape,), "attributes": attributes, **scales, **others}


GRID: list[dict[str, Any]] = [
    *(_case((2, size), (size,)) for size in (*range(1, 18), *LARGE_SIZES, 257)),
    *(_case((batch, 3, 4, 5), norm) for batch in (1, 2, 3) for norm in ((5,), (4, 5), (3, 4, 5))),
    *(_case((3, 7), (7,), zero_points=(zx, zo)) for zx in ZERO_POINTS for zo in ZERO_POINTS),
    *(_case((3, 6), (6,), weight=None, zero_points=(zx, 0)) for zx in (-128, 0, 127)),
]


_WIDE: dict[str, Any] = {"dtype": "int16", "scales": (2.0**-11, 2.0**-12)}
GRID += [
    *(_case((2, size), (size,), **_WIDE) for size in (1, 2, 3, 7, 16, 33, 129)),
    *(_case((2, 3, 4, 5), norm, **_WIDE) for norm in ((5,), (4, 5), (3, 4, 5))),
    _case((3, 6), (6,), weight=None, **_WIDE),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "overflow_largest_sums": [
        _case((1, 4096), (4096,), codes=([[code] * 4096],), weight=None, zero_points=(zx, 0))
        for zx, code in ((-128, 127), (127, -128), (0, 0), (0, 1))
    ],
    "range_hostile_scales": [
        _case((2, 9), (9,), scales=scales, eps=eps)
        for scales in ((2.0**-100, 0.03), (2.0**100, 0.03), (0.04, 2.0**-20), (0.04, 2.0**90))
        for eps in (0.0, 1e-5)
    ],
    "batch_items": [_case((batch, 2, 9), (9,)) for batch in (1, 2, 3)],
    "overflow_int16_largest_sums": [
        _case((1, 16384), (16384,), codes=([[code] * 16384],), weight=None, **_WIDE)
        for code in (-32768, 32767, 0)
    ],
}
