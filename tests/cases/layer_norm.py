# SPDX-License-Identifier: BSD-3-Clause
"""Cases of layer_norm: layer norms and group norms (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.support.grid import LARGE_SIZES, ZERO_POINTS


def reals(*shape: int, largest: float = 1.5) -> dict[str, Any]:
    """Numbers of both signs that differ."""
    count = math.prod(shape)
    values = [largest * math.sin(2.3 * (i + 1)) for i in range(count)]
    return {"tensor": np.array(values, np.float32).reshape(shape)}


def _case(shape: tuple[int, ...], norm: tuple[int, ...], **others: Any) -> dict[str, Any]:
    affine = others.pop("affine", (reals(*norm), reals(*norm, largest=0.7)))
    eps = others.pop("eps", 1e-5)
    scales = {"scales": others.pop("scales", (0.04, 0.03))}
    attributes = (list(norm), *affine, eps)
    op = "native_layer_norm"
    return {"op": op, "shapes": (shape,), "attributes": attributes, **scales, **others}


def _group(shape: tuple[int, ...], groups: int, **others: Any) -> dict[str, Any]:
    batch, channels, *sizes = shape
    affine = others.pop("affine", (reals(channels), reals(channels, largest=0.7)))
    attributes = (*affine, batch, channels, math.prod(sizes), groups, others.pop("eps", 1e-5))
    scales = {"scales": others.pop("scales", (0.04, 0.03))}
    op = "native_group_norm"
    return {"op": op, "shapes": (shape,), "attributes": attributes, **scales, **others}


_ABSENT = ((None, None), (None, reals(6)), (reals(6), None))

GRID: list[dict[str, Any]] = [
    *(_case((2, size), (size,)) for size in (*range(1, 18), *LARGE_SIZES, 257)),
    *(_case((batch, 3, 4, 5), norm) for batch in (1, 2, 3) for norm in ((5,), (4, 5), (3, 4, 5))),
    *(_case((3, 7), (7,), zero_points=(zx, zo)) for zx in (-128, 127) for zo in ZERO_POINTS),
    *(_case((3, 6), (6,), affine=affine) for affine in _ABSENT),
    *(_group((batch, 6, 4, 5), groups) for batch in (1, 2) for groups in (1, 2, 6)),
    *(_group((2, 6, *sizes), 3) for sizes in ((), (5,), (2, 2, 2))),
    *(_group((2, 6, 3), 2, affine=affine) for affine in _ABSENT),
]


_WIDE: dict[str, Any] = {"dtype": "int16", "scales": (2.0**-11, 2.0**-12)}
GRID += [
    *(_case((2, size), (size,), **_WIDE) for size in (1, 2, 3, 7, 16, 33, 129)),
    *(_case((2, 3, 4, 5), norm, **_WIDE) for norm in ((5,), (4, 5), (3, 4, 5))),
    *(_case((3, 6), (6,), affine=affine, **_WIDE) for affine in _ABSENT),
    *(_group((2, 6, 4, 5), groups, **_WIDE) for groups in (1, 2, 6)),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "overflow_largest_sums": [
        _case((1, 4096), (4096,), codes=([[low] * 2048 + [high] * 2048],), affine=(None, None))
        for low, high in ((-128, 127), (127, 127), (-128, -128), (126, 127))
    ],
    "overflow_largest_bias": [
        _case(
            (2, 8),
            (8,),
            affine=(reals(8, largest=2**-13), reals(8, largest=0.0025)),
            scales=(0.04, 2**-15),
        )
    ],
    "range_hostile_scales": [
        _case((2, 9), (9,), scales=scales, eps=eps)
        for scales in ((2.0**-100, 0.03), (2.0**100, 0.03), (0.04, 2.0**-20), (0.04, 2.0**90))
        for eps in (0.0, 1e-5)
    ],
    "rounding_constant_rows": [
        _case((2, n), (n,), codes=([[code] * n] * 2,)) for n in (3, 64) for code in (-128, 5)
    ],
    "batch_items": [_case((batch, 2, 9), (9,)) for batch in (1, 2, 3)],
    "overflow_int16_largest_sums": [
        _case((1, 16384), (16384,), codes=([[low] * 8192 + [high] * 8192],), affine=(None, None))
        | _WIDE
        for low, high in ((-32768, 32767), (32767, 32767), (-32768, -32768))
    ],
    "range_int16_hostile_scales": [
        _case((2, 9), (9,), scales=scales, eps=eps, dtype="int16")
        for scales in ((2.0**-100, 0.03), (2.0**100, 0.03), (0.04, 2.0**-30), (0.04, 2.0**90))
        for eps in (0.0, 1e-5)
    ],
    "rounding_int16_constant_rows": [
        _case((2, n), (n,), codes=([[code] * n] * 2,), **_WIDE)
        for n in (3, 64)
        for code in (-32768, 5)
    ],
}
