# SPDX-License-Identifier: BSD-3-Clause
"""Cases of slice and gather.

slice: shape, move (an ATen operator that moves data) and its arguments, dtype, before and after
(the orders in memory). The expected bytes are what the operator gives on the codes themselves.
gather: shape, axis, picks (shape of the indices) or values, index (their dtype), dtype, constant.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch

from fused_quant import schema_generated as schema
from fused_quant.ops import source_map
from tests.support import quant
from tests.support.built import Array, Built


def _codes(rng: np.random.Generator, p: quant.Parameters, shape: tuple[int, ...]) -> Array:
    wanted = quant.dtype_of(p)
    return quant.codes(rng, shape, dtype=wanted).view(p.get("dtype", "int8"))


def build_slice(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """A movement that is one strided copy."""
    shape = tuple(p["shape"])
    name = p["move"] if "." in p["move"] else f"{p['move']}.default"
    op = operator.attrgetter(name)(torch.ops.aten)

    def move(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = op(x, *p.get("arguments", ()))
        return result

    x = _codes(rng, p, shape)
    moved = move(torch.from_numpy(x)).numpy()
    before = p.get("before", tuple(range(x.ndim)))
    after = p.get("after", tuple(range(moved.ndim)))
    loops = source_map.strided(source_map.source_map(move, shape, before, after), 6)
    assert loops is not None
    params = schema.SliceParamsT(offset=loops[0], size=loops[1], stride=loops[2])
    stored = np.ascontiguousarray(x.transpose(before))
    expected = np.ascontiguousarray(moved.transpose(after))
    tosa = {"kind": opcode, "x": stored, "move": p["move"], "arguments": p.get("arguments", ())}
    return Built(opcode, [stored], [], params, expected, tosa)


def build_gather(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """Picks along an axis; Python's own integers bring an index into range."""
    shape, axis = tuple(p["shape"]), p["axis"]
    size = shape[axis]
    x = _codes(rng, p, shape)
    if "values" in p:
        index = np.array(p["values"], p.get("index", "int32"))
    else:
        drawn = rng.integers(0, size, p["picks"])
        index = np.asarray(drawn, p.get("index", "int32"))
    near = np.reshape([min(max(int(i), 0), size - 1) for i in index.flatten()], index.shape)
    expected = np.array(np.take(x, near.astype(np.int64), axis), order="C")
    params: Any = schema.GatherParamsT(axis=axis)
    constant = p.get("constant", True)
    tosa = {"kind": opcode, "x": x, "index": index.astype(np.int32), "axis": axis}
    if constant:
        return Built(opcode, [x], [index], params, expected, tosa)
    return Built(opcode, [x, index], [], params, expected, tosa)
