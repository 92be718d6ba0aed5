# SPDX-License-Identifier: BSD-3-Clause
"""Where the elements of a data movement come from, found by moving their positions.

An operator that only moves elements is run on a tensor of element numbers; the result says, for
every output element, which input element it is. Whatever the operator, that map is a strided copy,
or picks along each dimension, or a free choice of elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Map = npt.NDArray[np.int64]
Order = tuple[int, ...]
Apply = Callable[[torch.Tensor], torch.Tensor]


def element_numbers(shape: tuple[int, ...], order: Order) -> torch.Tensor:
    """The place in memory of every element of a logical tensor stored in `order`."""
    stored = torch.arange(int(np.prod(shape, dtype=np.int64)))
    stored = stored.reshape([shape[axis] for axis in order])
    return stored.permute([order.index(axis) for axis in range(len(order))])


def source_map(apply: Apply, shape: tuple[int, ...], before: Order, after: Order) -> Map:
    """The input element behind every output element, both in memory order.

    shape: of the input, stored in order `before`; the output is stored in order `after`.
    """
    moved = apply(element_numbers(shape, before))
    result: Map = moved.permute(after).contiguous().flatten().numpy()
    return result


def strided(elements: Map, rank: int) -> tuple[int, list[int], list[int]] | None:
    """(offset, sizes, strides) of a loop nest that visits `elements` in order.

    None if there is none of at most `rank` dimensions. Each step takes the longest run of one
    stride from the front: if the map is a loop nest at all, that run is whole inner dimensions.
    """
    offset = int(elements[0])
    sizes: list[int] = []
    strides: list[int] = []
    while elements.size > 1:
        stride = int(elements[1] - elements[0])
        steps = np.diff(elements) != stride
        run = int(np.argmax(steps)) + 1 if steps.any() else elements.size
        if elements.size % run or len(sizes) == rank:
            return None
        rows = elements.reshape(-1, run)
        if not (rows == rows[:, :1] + stride * np.arange(run)).all():
            return None
        sizes.insert(0, run)
        strides.insert(0, stride)
        elements = rows[:, 0]
    return offset, sizes or [1], strides or [0]


def picks(apply: Apply, shape: tuple[int, ...]) -> list[npt.NDArray[Any]] | None:
    """For each dimension, which positions of it the result consists of, if they are independent.

    None if the result has another rank, or a dimension's choice depends on another dimension.
    """
    moved = apply(element_numbers(shape, tuple(range(len(shape))))).numpy()
    if moved.ndim != len(shape) or not shape:
        return None
    result = []
    for axis, positions in enumerate(np.unravel_index(moved, shape)):
        lines = np.moveaxis(positions, axis, 0).reshape(moved.shape[axis], -1)
        if (lines != lines[:, :1]).any():
            return None
        result.append(lines[:, 0].astype(np.int32))
    return result
