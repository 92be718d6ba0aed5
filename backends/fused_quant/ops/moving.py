# SPDX-License-Identifier: BSD-3-Clause
"""How a data movement is serialized: a strided copy, or picks by constant indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from fused_quant.ops.source_map import Apply, Map, Order, picks, source_map, strided

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

Index: TypeAlias = npt.NDArray[np.int32]

LOOP_RANK = 6  # dimensions of a strided copy


def emit(builder: Builder, source: int, before: Order, apply: Apply) -> None:
    """Emit the steps that make the result of `apply` from a stored tensor.

    source: a tensor of the program, stored in the order `before`. The result is stored in the
    order its users want where one copy can do that at the same time.
    """
    stored = builder.program.tensors[source].shape
    shape = tuple(stored[before.index(axis)] for axis in range(len(before)))
    after = builder.wanted_order()
    loops = strided(source_map(apply, shape, before, after), LOOP_RANK)
    if loops is not None:
        params = builder.schema.SliceParamsT()
        params.offset, params.size, params.stride = loops
        builder.emit("slice", [source], [builder.result(after, source)], params)
        return
    chosen = picks(apply, shape)
    if chosen is None:
        _emit_free(builder, source, source_map(apply, shape, before, after), after)
    else:
        _emit_picks(builder, source, before, chosen)


def _emit_picks(builder: Builder, source: int, before: Order, chosen: list[Index]) -> None:
    """One gather for each dimension that changes; the order in memory stays."""
    sizes = list(builder.program.tensors[source].shape)
    changed = [
        axis
        for axis, index in enumerate(chosen)
        if not np.array_equal(index, np.arange(sizes[before.index(axis)]))
    ]
    for axis in changed:
        place = before.index(axis)
        sizes[place] = len(chosen[axis])
        index = builder.constant(f"index{axis}", chosen[axis], "s32")
        if axis == changed[-1]:
            target = builder.result(before, source)
        else:
            target = builder.temporary(source, tuple(sizes), before, f"picked{axis}")
        _emit_gather(builder, source, index, target, place)
        source = target


def _emit_free(builder: Builder, source: int, elements: Map, after: Order) -> None:
    """A gather of single elements from the input seen as one long row."""
    result = builder.result(after, source)
    shape = builder.program.tensors[result].shape
    index = builder.constant("index", elements.astype(np.int32).reshape(shape), "s32")
    _emit_gather(builder, builder.flat(source), index, result, 0)


def _emit_gather(builder: Builder, source: int, index: int, target: int, axis: int) -> None:
    params = builder.schema.GatherParamsT()
    params.axis = axis
    builder.emit("gather", [source, index], [target], params)
