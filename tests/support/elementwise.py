# SPDX-License-Identifier: BSD-3-Clause
"""Cases of add and requantize.

Parameters: shape (requantize) or shape_a and shape_b (add, broadcast), zx / za and zb, zo, s_a,
s_b, s_out, sign, ratio or style (requantize), bounds, dtype, x / a and b as given codes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fused_quant import numerics as nm
from fused_quant import schema_generated as schema
from tests.support import quant
from tests.support.built import Built, tensor


def build_add(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """A sum or difference of two quantized tensors."""
    a = quant.codes_of(rng, p, "a", p["shape_a"])
    b = quant.codes_of(rng, p, "b", p.get("shape_b", p["shape_a"]))
    za, zb = quant.zero_point(rng, p, "za"), quant.zero_point(rng, p, "zb")
    zo = quant.zero_point(rng, p, "zo")
    s_a = float(p.get("s_a", quant.scale(rng)))
    near = float(np.float32(s_a * 2.0 ** rng.uniform(-3, 3)))
    s_b = float(p.get("s_b", rng.choice([s_a, 2 * s_a, near, quant.scale(rng)])))
    largest = 2 * max(s_a, s_b)
    drawn = [largest, largest / 2, float(np.float32(largest * 2.0 ** rng.uniform(-4, 8)))]
    s_out = float(p.get("s_out", rng.choice(drawn)))
    sign = int(p.get("sign", rng.choice([1, 1, 1, -1])))
    ma, mb, mo = nm.add_multipliers(s_a, s_b, s_out, 8 * a.itemsize)
    lo, hi = quant.bounds(rng, p, zo)
    terms = (tensor(a), za, tensor(b), zb)
    expected = nm.add(*terms, ma, mb, sign, mo, zo, lo, hi, terms[0].dtype).numpy()
    params = schema.ElementwiseParamsT(
        inputZeroPoint=[za, zb],
        multiplier=[ma.multiplier, mb.multiplier],
        shift=[ma.shift, mb.shift],
        negate=[False, sign < 0],
        outputMultiplier=mo.multiplier,
        outputShift=mo.shift,
        outputZeroPoint=zo,
        clampMin=lo,
        clampMax=hi,
    )
    tosa = {"kind": "add", "a": a, "b": b, "za": za, "zb": zb, "zo": zo, "sign": sign}
    tosa |= {"multiplier": [ma.multiplier, mb.multiplier, mo.multiplier]}
    tosa |= {"shift": [ma.shift, mb.shift, mo.shift], "lo": lo, "hi": hi}
    tosa["dtype"] = expected.dtype.name
    return Built(opcode, [a, b], [], params, np.ascontiguousarray(expected), tosa)


def build_requantize(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """Codes in one quantization to codes in another; ratio 1 and equal zero points are a clamp.

    unsigned: which of "x" and "out" are uint8, with code and zero point larger by 128. dtype
    "int16": both are int16, but those named in `narrow`.
    """
    before, after = (
        {**p, "dtype": None} if name in p.get("narrow", ()) else p for name in ("x", "out")
    )
    x = quant.codes_of(rng, before, "x", p["shape"])
    zx = quant.zero_point(rng, before, "zx")
    zo = zx if p.get("same") else quant.zero_point(rng, after, "zo")
    m = nm.multiplier_from_ratio(1.0 if p.get("same") else quant.ratios(rng, p, 1, 60.0)[0])
    lo, hi = quant.bounds(rng, after, zo)
    centred = tensor(x).to(torch.int64) - zx
    dtype = getattr(torch, quant.dtype_of(after).name)
    expected = nm.requantize(centred, m, zo, lo, hi, dtype).numpy()
    params = schema.ElementwiseParamsT(
        inputZeroPoint=[zx],
        multiplier=[m.multiplier],
        shift=[m.shift],
        negate=[False],
        outputZeroPoint=zo,
        clampMin=lo,
        clampMax=hi,
    )
    unsigned = p.get("unsigned", ())
    if unsigned:
        return _unsigned_requantize(opcode, x, params, expected, unsigned)
    tosa = {"kind": "requantize", "x": x, "zx": zx, "zo": zo, "lo": lo, "hi": hi}
    tosa |= {"multiplier": [m.multiplier], "shift": [m.shift], "dtype": expected.dtype.name}
    return Built(opcode, [x], [], params, expected, tosa)


def _unsigned_requantize(
    opcode: str, x: quant.Codes, params: Any, expected: Any, unsigned: tuple[str, ...]
) -> Built:
    inputs, result = x, expected
    if "x" in unsigned:
        inputs = (x.astype(np.int16) + 128).astype(np.uint8)
        params.inputZeroPoint = [params.inputZeroPoint[0] + 128]
    if "out" in unsigned:
        result = (expected.astype(np.int16) + 128).astype(np.uint8)
        params.outputZeroPoint += 128
        params.clampMin, params.clampMax = params.clampMin + 128, params.clampMax + 128
    return Built(opcode, [inputs], [], params, result)
