# SPDX-License-Identifier: BSD-3-Clause
"""Cases of masked_softmax (parameters: tests/support/from_spec.py)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.support.grid import LARGE_SIZES, ZERO_POINTS

CONTRACT = (1 / 256, -128)


def _mask(shape: tuple[int, ...], seed: int, share: float = 0.5) -> Any:
    """True for about `share` of the elements."""
    return (np.random.default_rng(seed).random(shape) < share).tolist()


def _case(shape: tuple[int, ...], dim: int, mask: Any = None, **others: Any) -> dict[str, Any]:
    """On the contract's grid unless `out` says otherwise; a mask of x's own shape."""
    s_out, zo = others.pop("out", CONTRACT)
    s_in, zx = others.pop("s_in", 0.05), others.pop("zx", 3)
    grid = {"scales": (s_in, s_out), "zero_points": (zx, zo)}
    given = _mask(shape, math.prod(shape)) if mask is None else mask
    source = "input" if others.pop("computed", False) else "tensor"
    attributes = ({source: given}, dim, others.pop("keeps", False))
    return {
        "op": "masked_softmax",
        "shapes": (shape,),
        "attributes": attributes,
        **grid,
        **others,
    }


_CAUSAL = np.triu(np.ones((5, 7), bool), 1).tolist()
_BROADCAST = ((3, 4, 5), (1, 4, 5), (3, 1, 5), (1, 1, 5), (4, 1), (5,), (), (2, 1, 1, 1))

GRID: list[dict[str, Any]] = [
    *(_case((2, size), -1) for size in (*range(1, 18), *LARGE_SIZES)),
    *(_case((batch, 3, 4, 5), dim) for batch in (1, 2, 3) for dim in (0, 1, -1, -2)),
    *(
        _case((2, 3, 4, 5), dim, _mask(shape, 7 + len(shape)))
        for shape in _BROADCAST
        for dim in (-1, 1)
    ),
    *(
        _case((2, 5, 7), -1, _CAUSAL, zx=zx, out=(1 / 128, zo))
        for zx in (-128, 127)
        for zo in ZERO_POINTS
    ),
    *(_case((4, 9), 1, s_in=s_in, bounds=(-128, 127)) for s_in in (2**-8, 0.1, 1.0, 7.5)),
    *(_case((4, 9), 0, out=(s_out, zo)) for s_out in (0.005, 0.02, 1.0) for zo in (-128, 0)),
    *(
        _case((2, 3, 4, 5), -1, _mask(shape, 9), keeps=keeps, computed=computed)
        for shape in _BROADCAST
        for keeps, computed in ((True, False), (False, True), (True, True))
    ),
    *(_case((2, 3, 4, 5), dim, _mask((2, 1, 4, 5), 9), computed=True) for dim in (0, 1, 2)),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "boundary_rows_left_out_wholly": [
        _case((3, 4), 1, [[True] * 4, [False] * 4, [True, True, False, True]], out=(s_out, zo))
        for s_out, zo in (CONTRACT, (0.01, 5))
    ],
    "range_the_largest_is_left_out": [
        _case((2, 3), 1, [True, False, False], codes=([[127, -128, low]] * 2,), s_in=s_in)
        for low in (-128, -127)
        for s_in in (2.0**-100, 0.05, 2.0**100)
    ],
    "overflow_longest_sums": [
        _case((1, 65536), 1, [True] + [False] * 65535, codes=([[code] * 65536],), s_in=2**-10)
        for code in (-128, 127)
    ],
    "zero_point_of_the_output": [_case((2, 6), 1, zx=77, out=(0.01, zo)) for zo in (-128, -5, 127)],
}
