# SPDX-License-Identifier: BSD-3-Clause
"""Cases of permute (parameters: tests/support/cast.py)."""

from __future__ import annotations

import itertools
from typing import Any

from tests.support.grid import SIZES

GRID: list[dict[str, Any]] = [
    *({"shape": (3, size), "perm": (1, 0)} for size in SIZES),
    *({"shape": (size, 3), "perm": (1, 0), "dtype": "float32"} for size in SIZES if size < 66),
    *(
        {"shape": (2, 3, 4, 5), "perm": perm, "dtype": dtype}
        for perm in itertools.permutations(range(4))
        for dtype in ("int8", "float32")
    ),
    {"shape": (2, 3, 1, 4, 2, 3), "perm": (5, 0, 4, 1, 3, 2)},
    {"shape": (7,), "perm": (0,)},
    *({"shape": (size, 3), "perm": (1, 0), "dtype": "int16"} for size in SIZES[::3]),
    {"shape": (2, 3, 4, 5), "perm": (0, 2, 3, 1), "dtype": "int16"},
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "batch_items": [{"shape": (batch, 3, 4, 5), "perm": (0, 2, 3, 1)} for batch in (1, 2, 3)],
    "layout_dimensions_of_size_one": [
        {"shape": (1, 1, 4, 5), "perm": (0, 2, 3, 1)},
        {"shape": (1, 5, 1, 1), "perm": (0, 2, 3, 1)},
        {"shape": (3, 2, 1, 4), "perm": (0, 2, 3, 1)},
    ],
}
