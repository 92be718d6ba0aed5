# SPDX-License-Identifier: BSD-3-Clause
"""Cases of weights of 4 bits: linear_w4 and conv2d_w4.

Parameters: those of tests/support/dot.py (a convolution has in_h), and `group`: input channels with
a multiplier of their own. The expected codes of groups are computed in Python's integers.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from fused_quant import numerics as nm
from fused_quant import schema_generated as schema
from tests.support import dot, quant
from tests.support.built import Array, Built

LOW, HIGH = -8, 7


def _weight(rng: np.random.Generator, p: quant.Parameters, shape: tuple[int, ...]) -> Array:
    """All 16 codes, or only the ends and their neighbours; the oracle's have no -8."""
    low = p.get("w_low", LOW)
    if "w" in p:
        return np.ascontiguousarray(np.broadcast_to(np.array(p["w"], np.int8), shape))
    if rng.integers(4) == 0:
        return rng.choice(np.array([low, low + 1, HIGH - 1, HIGH], np.int8), shape)
    return rng.integers(low, HIGH + 1, shape, dtype=np.int8)


def _shape(p: quant.Parameters) -> tuple[int, ...]:
    """Of the weight as stored."""
    out_c, in_c = p["out_c"], p["in_c"] // p.get("groups", 1)
    return (out_c, *p.get("kernel", (1, 1)), in_c) if "in_h" in p else (out_c, in_c)


def build(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """As the operator with weights of 8 bits of the same codes, or with groups."""
    given = {**p, "w": _weight(rng, p, _shape(p))}
    if "group" in p:
        return _grouped(opcode, given, rng)
    base = dot.build_conv if "in_h" in p else dot.build_linear
    built = base(opcode.removesuffix("_w4"), given, rng)
    built.opcode, built.packed = opcode, True
    if built.tosa:
        built.tosa = {**built.tosa, "kind": opcode, "weight_bits": 4}
    return built


def _products(x: Array, w: Array, p: quant.Parameters, zx: int) -> Array:
    """(x - zx) * w of each output and input channel, summed over taps: [places, out_c, depth].

    x: [batch, height, width, channels]; a linear is a convolution of one tap. Loops over taps, and
    copies x with its border into a larger array: nothing of the kernel's or the reference's.
    """
    out_c, kernel_h, kernel_w, depth = w.shape
    (top, left, bottom, right), (step_h, step_w) = p["padding"], p["stride"]
    batch, height, width, channels = x.shape
    padded = np.zeros((batch, height + top + bottom, width + left + right, channels), np.int64)
    padded[:, top : top + height, left : left + width] = x.astype(np.int64) - zx
    extents = [d * (k - 1) + 1 for d, k in zip(p["dilation"], (kernel_h, kernel_w), strict=True)]
    rows, columns = (
        (size - extent) // step + 1
        for size, extent, step in zip(padded.shape[1:3], extents, (step_h, step_w), strict=True)
    )
    groups = channels // depth
    reads = np.repeat(np.arange(groups), out_c // groups)[:, None] * depth + np.arange(depth)
    total = np.zeros((batch, rows, columns, out_c, depth), np.int64)
    for i, j in itertools.product(range(kernel_h), range(kernel_w)):
        first = (i * p["dilation"][0], j * p["dilation"][1])
        taps = padded[
            :,
            first[0] : first[0] + (rows - 1) * step_h + 1 : step_h,
            first[1] : first[1] + (columns - 1) * step_w + 1 : step_w,
        ]
        total += taps[..., reads] * w[:, i, j].astype(np.int64)
    return total.reshape(-1, out_c, depth)


def _multipliers(
    rng: np.random.Generator, p: quant.Parameters, out_c: int, groups: int, taps: int
) -> tuple[list[list[int]], list[int]]:
    """Multipliers of each group, below 2^31, and a shift per channel."""
    if "multipliers" in p:
        return [list(row) for row in p["multipliers"]], list(p["shifts"])
    drawn = quant.ratios(rng, p, out_c, spread=74 * 4 * taps**0.5)
    largest = nm.multipliers_from_ratios(drawn)
    rows = []
    for m in largest:
        row = (m.multiplier * 2.0 ** rng.uniform(-6, 0, groups)).astype(np.int64)
        row[rng.integers(groups)] = m.multiplier
        rows.append([0 if rng.integers(20) == 0 else int(value) for value in row])
    return rows, [m.shift for m in largest]


def _fitting_bias(rng: np.random.Generator, p: quant.Parameters, w: Array, zx: int) -> list[int]:
    """Of each channel, as large as the rule allows in one of eight cases."""
    out_c = len(w)
    if "bias_values" in p:
        return list(p["bias_values"])
    reach = np.abs(w.astype(np.int64)).reshape(out_c, -1).sum(1) * max(127 - zx, zx + 128)
    room = 2**31 - 1 - reach
    if rng.integers(8) == 0:
        return [int(value) for value in room * rng.choice([-1, 1], out_c)]
    return [int(v) for v in np.minimum(room, 2 * reach + 1) * rng.uniform(-1, 1, out_c)]


def _grouped(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    image = "in_h" in p
    size = p["group"]
    zx, zo = quant.zero_point(rng, p, "zx"), quant.zero_point(rng, p, "zo")
    rows = tuple(p.get("rows", (1,)))
    shape = (p.get("batch", 1), p["in_h"], p["in_w"]) if image else rows
    x = quant.codes_of(rng, p, "x", (*shape, p["in_c"]))
    geometry = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), **p}
    w = p["w"] if image else p["w"][:, None, None]
    sums = _products(x if image else x.reshape(-1, 1, 1, p["in_c"]), w, geometry, zx)
    out_c, depth = sums.shape[1:]
    multipliers, shifts = _multipliers(rng, p, out_c, depth // size, int(w[0].size))
    has_bias = p.get("bias", True)
    bias = _fitting_bias(rng, p, w, zx) if has_bias else [0] * out_c
    lo, hi = quant.bounds(rng, p, zo)
    codes = np.empty(sums.shape[:2], np.int8)
    for place, channel in np.ndindex(codes.shape):
        acc = sums[place, channel].reshape(-1, size).sum(1).tolist()
        m, shift = multipliers[channel], shifts[channel]
        value = bias[channel] * max(m) + sum(a * b for a, b in zip(acc, m, strict=True))
        codes[place, channel] = min(max(zo + ((value + 2 ** (shift - 1)) >> shift), lo), hi)
    by_group = w.astype(np.int64).reshape(out_c, -1, depth).sum(1).reshape(out_c, -1, size).sum(2)
    folded = [
        b * max(m) - zx * sum(s * k for s, k in zip(row, m, strict=True))
        for b, m, row in zip(bias, multipliers, by_group.tolist(), strict=True)
    ]
    stored = np.array(folded, np.int64) if has_bias or any(folded) else None
    params = schema.DotParamsT(
        inputZeroPoint=zx,
        outputZeroPoint=zo,
        multiplier=[m for row in multipliers for m in row],
        shift=shifts,
        clampMin=lo,
        clampMax=hi,
        groupSize=size,
        **(_places(geometry, w) if image else {}),
    )
    expected = codes.reshape(_result_shape(x, w, geometry) if image else (*rows, out_c))
    return Built(opcode, [x], [p["w"], stored], params, expected, packed=True)


def _result_shape(x: Array, w: Array, p: quant.Parameters) -> tuple[int, ...]:
    sizes = []
    for axis in (0, 1):
        extent = p["dilation"][axis] * (w.shape[axis + 1] - 1) + 1
        padded = x.shape[axis + 1] + p["padding"][axis] + p["padding"][axis + 2]
        sizes.append((padded - extent) // p["stride"][axis] + 1)
    return (len(x), *sizes, len(w))


def _places(p: quant.Parameters, w: Array) -> dict[str, Any]:
    """Fields of DotParams."""
    names = ("padTop", "padLeft", "padBottom", "padRight")
    return {
        "kernelH": w.shape[1],
        "kernelW": w.shape[2],
        "strideH": p["stride"][0],
        "strideW": p["stride"][1],
        "dilationH": p["dilation"][0],
        "dilationW": p["dilation"][1],
        "groups": p.get("groups", 1),
        **dict(zip(names, p["padding"], strict=True)),
    }
