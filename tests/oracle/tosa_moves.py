# SPDX-License-Identifier: BSD-3-Clause
"""Operators that move data as TOSA graphs, and bilinear upsampling; see tosa_ops.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tosa_serializer as ts
from tosa_graph import Array, Graph, Value

Case = dict[str, Any]


def _shape(graph: Graph, values: Any) -> Value:
    return graph.const(np.array(values, np.int64), "int64")


def _slice(graph: Graph, x: Value, start: list[int], size: list[int]) -> Value:
    operands = [x, _shape(graph, start), _shape(graph, size)]
    return graph.op(ts.Op.SLICE, operands, tuple(size), x.dtype, "SliceAttribute")


def cat(case: Case, out: tuple[int, ...]) -> Array:
    """RESCALE and CLAMP of each input, CONCAT."""
    graph, parts = Graph(), []
    for k, x in enumerate(case["operands"]):
        m, s, zp = (case[name][k] for name in ("multiplier", "shift", "zero_points"))
        part = graph.rescale(graph.input(x), [m], [s], zp, case["zo"], case["dtype"])
        parts.append(graph.clamp(part, case["lo"], case["hi"]))
    return graph.run(
        graph.op(ts.Op.CONCAT, parts, out, case["dtype"], "ConcatAttribute", case["axis"])
    )


def pad(case: Case, out: tuple[int, ...]) -> Array:
    """RESCALE, CLAMP, SLICE of what is cropped, PAD."""
    graph, x = Graph(), case["operands"][0]
    zp, m, s = case["zero_points"][0], case["multiplier"], case["shift"]
    q = graph.rescale(graph.input(x), m, s, zp, case["zo"], case["dtype"])
    q = graph.clamp(q, case["lo"], case["hi"])
    start = [max(-b, 0) for b in case["before"]]
    ends = [min(n, o - b) for n, o, b in zip(x.shape, out, case["before"], strict=True)]
    size = [end - begin for begin, end in zip(start, ends, strict=True)]
    before = [max(b, 0) for b in case["before"]]
    after = [o - b - n for o, b, n in zip(out, before, size, strict=True)]
    amounts = [n for pair in zip(before, after, strict=True) for n in pair]
    q = _slice(graph, q, start, size)
    operands = [q, _shape(graph, amounts), graph.const([case["value"]], case["dtype"])]
    return graph.run(graph.op(ts.Op.PAD, operands, out, case["dtype"], "PadAttribute"))


def strided(case: Case, out: tuple[int, ...]) -> Array:
    """SLICE, REVERSE or TILE, by the name of the movement."""
    graph = Graph()
    x = graph.input(case["x"])
    name, arguments = case["move"], case["arguments"]
    if name == "slice.Tensor":
        dim, start, _, _ = arguments
        starts = [start if axis == dim else 0 for axis in range(len(out))]
        return graph.run(_slice(graph, x, starts, list(out)))
    if name == "flip":
        for axis in arguments[0]:
            x = graph.op(ts.Op.REVERSE, [x], x.shape, x.dtype, "ReverseAttribute", axis)
        return graph.run(x)
    operands = [x, _shape(graph, arguments[0])]
    return graph.run(graph.op(ts.Op.TILE, operands, out, x.dtype, "TileAttribute"))


def permute(case: Case, out: tuple[int, ...]) -> Array:
    """TRANSPOSE."""
    graph, perm = Graph(), list(case["perm"])
    x = graph.input(case["x"])
    return graph.run(graph.op(ts.Op.TRANSPOSE, [x], out, x.dtype, "TransposeAttribute", perm))


def gather(case: Case, out: tuple[int, ...]) -> Array:
    """GATHER [N, K, C]: what is in front of the axis is the batch, and has the same indices."""
    graph, x, axis = Graph(), case["x"], case["axis"]
    outer = int(np.prod(x.shape[:axis], dtype=np.int64))
    values = x.reshape(outer, x.shape[axis], -1)
    index = np.repeat(case["index"].reshape(1, -1), outer, 0)
    shape = (outer, index.shape[1], values.shape[2])
    operands = [graph.input(values), graph.input(index)]
    result = graph.run(graph.op(ts.Op.GATHER, operands, shape, x.dtype.name, "GatherAttribute"))
    return result.reshape(out)


def upsample_bilinear2d(case: Case, out: tuple[int, ...]) -> Array:
    """RESIZE to int32 or int48, the zero point's share taken off, RESCALE.

    Exact for weights of few bits. RESIZE weighs with integers below its two numerators, we with
    2^11: the shift is that much less.
    """
    graph, wide = Graph(), case["x"].dtype == np.int16
    x = np.ascontiguousarray(case["x"].transpose(0, 2, 3, 1))
    shape = (out[0], out[2], out[3], out[1])
    scale, offset, border = case["resize"]
    operands = [graph.input(x), *(_shape(graph, v) for v in (scale, offset, border))]
    mode = ts.ResizeMode.BILINEAR
    sums = "int48" if wide else "int32"
    acc = graph.op(ts.Op.RESIZE, operands, shape, sums, "ResizeAttribute", mode)
    weights = scale[0] * scale[2]
    if not wide:
        centre = graph.const([[[[case["zx"] * weights]]]], sums)
        acc = graph.op(ts.Op.SUB, [acc, centre], shape, sums, "SubAttribute")
    shift = case["shift"] - 22 + weights.bit_length() - 1
    q = graph.rescale(acc, [case["multiplier"]], [shift], 0, case["zo"], case["x"].dtype.name)
    return graph.run(graph.clamp(q, case["lo"], case["hi"])).transpose(0, 3, 1, 2)


OPERATORS: dict[str, Callable[[Case, tuple[int, ...]], Array]] = {
    "cat": cat,
    "pad": pad,
    "slice": strided,
    "gather": gather,
    "permute": permute,
    "upsample_bilinear2d": upsample_bilinear2d,
}
