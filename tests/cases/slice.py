# SPDX-License-Identifier: BSD-3-Clause
"""Cases of slice (parameters: tests/support/moves.py)."""

from __future__ import annotations

from typing import Any

from tests.support.grid import SIZES

GRID: list[dict[str, Any]] = [
    *(
        {"shape": (3, size), "move": "slice.Tensor", "arguments": (1, 0, size, step)}
        for size in SIZES
        for step in (1, 2)
    ),
    *({"shape": (size, 3), "move": "flip", "arguments": ([0],)} for size in SIZES if size < 40),
    *({"shape": (2, size), "move": "flip", "arguments": ([1],)} for size in SIZES if size < 40),
    *({"shape": (3, 5), "move": "repeat", "arguments": (counts,)} for counts in ([1, 3], [2, 1])),
    *(
        {
            "shape": (2, 3, 4, 5),
            "move": "slice.Tensor",
            "arguments": (dim, 1, 99, 1),
            "dtype": dtype,
        }
        for dim in range(4)
        for dtype in ("int8", "uint8")
    ),
    *(
        {"shape": (2, 3, 4, 5), "move": "select.int", "arguments": (dim, index)}
        for dim in range(4)
        for index in (0, -1)
    ),
    {"shape": (3, 1, 5), "move": "expand", "arguments": ([3, 4, 5],)},
    {"shape": (3, 1, 1), "move": "expand", "arguments": ([2, 3, 4, 5],)},
    {"shape": (2, 8, 3, 3), "move": "pixel_shuffle", "arguments": (2,)},
    {"shape": (2, 2, 4, 6), "move": "pixel_unshuffle", "arguments": (2,)},
    {"shape": (2, 6, 3, 3), "move": "channel_shuffle", "arguments": (3,)},
    {"shape": (2, 3, 1, 4, 2, 3), "move": "flip", "arguments": ([0, 1, 3, 4, 5],)},
    {"shape": (4, 4), "move": "diagonal", "arguments": (1,)},
    {"shape": (2, 3, 4), "move": "rot90", "arguments": (1, [1, 2])},
    {"shape": (1,), "move": "slice.Tensor", "arguments": (0, 0, 1, 1)},
    {"shape": (7,), "move": "select.int", "arguments": (0, 6)},
    *(
        {"shape": (2, 3, 5), "move": move, "arguments": arguments, "dtype": "int16"}
        for move, arguments in (
            ("slice.Tensor", (1, 0, 3, 2)),
            ("flip", ([2],)),
            ("repeat", ([1, 1, 2],)),
            ("select.int", (2, -1)),
        )
    ),
]

PITFALLS: dict[str, list[dict[str, Any]]] = {
    "batch_items": [
        {"shape": (batch, 3, 4, 5), "move": "slice.Tensor", "arguments": (2, 1, 4, 2)}
        for batch in (1, 2, 3)
    ],
    "layout_orders_may_differ": [
        {
            "shape": (2, 3, 4, 5),
            "move": "slice.Tensor",
            "arguments": (1, 0, 3, 2),
            "before": before,
            "after": after,
        }
        for before in ((0, 1, 2, 3), (0, 2, 3, 1))
        for after in ((0, 1, 2, 3), (0, 2, 3, 1))
    ],
    "negative_and_zero_strides": [
        {"shape": (5, 6), "move": "flip", "arguments": ([0, 1],)},
        {"shape": (1, 6), "move": "expand", "arguments": ([5, 6],)},
        {"shape": (2, 3), "move": "repeat_interleave.self_int", "arguments": (3, 1)},
    ],
}
