# SPDX-License-Identifier: BSD-3-Clause
"""Cases of mean and argmax. Parameters: shape, axes, keepdim, s_in, s_out, zx, zo, bounds, x."""

from __future__ import annotations

import math

import numpy as np

from fused_quant import numerics as nm
from fused_quant import schema_generated as schema
from tests.support import quant
from tests.support.built import Built, tensor


def build_mean(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """Mean over any set of axes."""
    x = quant.codes_of(rng, p, "x", p["shape"])
    axes = sorted(p["axes"])
    zx, zo = quant.zero_point(rng, p, "zx"), quant.zero_point(rng, p, "zo")
    s_in = float(p.get("s_in", quant.scale(rng)))
    s_out = float(p.get("s_out", np.float32(s_in * 2.0 ** float(rng.integers(-6, 3)))))
    m = nm.average_multiplier(s_in, math.prod(x.shape[axis] for axis in axes), s_out)
    lo, hi = quant.bounds(rng, p, zo)
    keepdim = bool(p.get("keepdim", rng.integers(2)))
    expected = nm.mean(tensor(x), zx, axes, keepdim, m, zo, lo, hi, tensor(x).dtype).numpy()
    params = schema.ReduceParamsT(
        axes=axes,
        inputZeroPoint=zx,
        outputZeroPoint=zo,
        multiplier=m.multiplier,
        shift=m.shift,
        clampMin=lo,
        clampMax=hi,
    )
    tosa = {"kind": "mean", "x": x, "axes": axes, "zx": zx, "zo": zo, "lo": lo, "hi": hi}
    tosa |= {"multiplier": [m.multiplier], "shift": [m.shift], "dtype": x.dtype.name}
    return Built(opcode, [x], [], params, np.ascontiguousarray(expected), tosa)


def build_argmax(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """Position of the first largest code; parameters: shape, axis (None: of all), keepdim, x."""
    x, axis = quant.codes_of(rng, p, "x", p["shape"]), p["axis"]
    keepdim = bool(p.get("keepdim", rng.integers(2)))
    axes = list(range(x.ndim)) if axis is None else [axis]
    expected = np.argmax(x, axis, keepdims=keepdim)
    params = schema.ReduceParamsT(axes=axes)
    tosa = {"kind": "argmax", "x": x, "axis": axis}
    return Built(opcode, [x], [], params, np.ascontiguousarray(expected, np.int64), tosa)
