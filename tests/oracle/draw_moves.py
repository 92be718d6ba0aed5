# SPDX-License-Identifier: BSD-3-Clause
"""Random parameters of operators that move data; see draw.py."""

from __future__ import annotations

from typing import Any

import numpy as np

Parameters = dict[str, Any]
Rng = np.random.Generator


def _shape(rng: Rng, least: int = 1, most: int = 4) -> tuple[int, ...]:
    return tuple(rng.integers(1, 7, int(rng.integers(least, most + 1))).tolist())


def cat(rng: Rng) -> Parameters:
    """One to four tensors along any axis."""
    shape = _shape(rng)
    axis = int(rng.integers(len(shape)))
    sizes = rng.integers(1, 6, int(rng.integers(1, 5))).tolist()
    shapes = tuple((*shape[:axis], size, *shape[axis + 1 :]) for size in sizes)
    return {"op": "cat", "shapes": shapes, "attributes": (axis,)}


def pad(rng: Rng) -> Parameters:
    """Amounts of -1 to 3 around any number of dimensions."""
    shape = tuple(size + 2 for size in _shape(rng))
    amounts = rng.integers(-1, 4, 2 * int(rng.integers(1, len(shape) + 1))).tolist()
    value = float(rng.choice([0.0, 0.75, -3.0, 1e6]))
    return {"op": "constant_pad_nd", "shapes": (shape,), "attributes": (amounts, value)}


def strided(rng: Rng) -> Parameters:
    """A slice, a flip or a repetition."""
    shape = _shape(rng)
    dim = int(rng.integers(len(shape)))
    start = int(rng.integers(shape[dim]))
    end = int(rng.integers(start + 1, shape[dim] + 1))
    flipped = [axis for axis in range(len(shape)) if rng.integers(2)]
    moves = (
        ("slice.Tensor", (dim, start, end, 1)),
        ("flip", (flipped or [dim],)),
        ("repeat", ([int(rng.integers(1, 4)) if a == dim else 1 for a in range(len(shape))],)),
    )
    move, arguments = moves[int(rng.integers(3))]
    return {"shape": shape, "move": move, "arguments": arguments}


def gather(rng: Rng) -> Parameters:
    """Picks along any axis."""
    shape = _shape(rng)
    axis = int(rng.integers(len(shape)))
    return {"shape": shape, "axis": axis, "picks": (int(rng.integers(1, 9)),)}


def _axis(rng: Rng, align: bool) -> tuple[int, int, tuple[int, int, int, int]]:
    """Size, output size and RESIZE's numerator, denominator, offset and border."""
    size, power = int(rng.integers(2, 6)), 2 ** int(rng.integers(0, 4))
    if align:
        return size, power + 1, (power, size - 1, 0, 0)
    return size, size * power, (2 * power, 2, 1 - power, power - 1)


def bilinear(rng: Rng) -> Parameters:
    """Sizes whose weights need few bits, so that RESIZE can state them."""
    align = bool(rng.integers(2))
    (h, out_h, rows), (w, out_w, columns) = _axis(rng, align), _axis(rng, align)
    shape = (*rng.integers(1, 4, 2).tolist(), h, w)
    attributes = ([out_h, out_w], align, None, None)
    resize = ([*rows[:2], *columns[:2]], [rows[2], columns[2]], [rows[3], columns[3]])
    found = {"op": "upsample_bilinear2d", "shapes": (shape,), "attributes": attributes}
    return {**found, "resize": resize}


def wide_bilinear(rng: Rng) -> Parameters:
    """The same of int16, by a ratio of scales of 15 bits: RESCALE has no more of RESIZE's sums."""
    out = 2.0 ** int(rng.integers(-12, 0))
    x = int(rng.integers(2**14, 2**15)) * out * 2.0 ** int(rng.integers(-17, -12))
    return {**bilinear(rng), "dtype": "int16", "scales": (x, out)}


def permute(rng: Rng) -> Parameters:
    """Any order of the axes."""
    shape = _shape(rng)
    return {"shape": shape, "perm": tuple(rng.permutation(len(shape)).tolist())}
