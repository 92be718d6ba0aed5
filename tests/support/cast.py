# SPDX-License-Identifier: BSD-3-Clause
"""Cases of quantize and dequantize, permute and copy.

Parameters: shape, perm, scale, zx, bounds, dtype, x as given values or codes.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch

from fused_quant import numerics as nm
from fused_quant import schema_generated as schema
from tests.support import quant
from tests.support.built import Array, Built, tensor

SPECIAL = (math.inf, -math.inf, math.nan, 2.0**32, -(2.0**32), 1e30, -1e30, -0.0, 1e-45, 3.4e38)


def _floats(
    rng: np.random.Generator, p: quant.Parameters, scale: float, zp: int
) -> npt.NDArray[np.float32]:
    """Values around the code range: ordinary ones, exact halves of a step, and special ones."""
    shape = tuple(p["shape"])
    if "x" in p:
        return np.ascontiguousarray(np.broadcast_to(np.array(p["x"], np.float32), shape))
    reach = quant.limits(quant.dtype_of(p))[1] + 13
    steps = rng.uniform(-reach, reach, shape) - zp
    halves = rng.integers(-2 * reach, 2 * reach, shape) / 2 - zp
    x = np.where(rng.integers(2, size=shape) == 0, halves, steps) * scale
    x = np.where(rng.integers(12, size=shape) == 0, rng.choice(SPECIAL, shape), x)
    with np.errstate(over="ignore"):  # the largest scales reach infinity
        return x.astype(np.float32)


def _stored_perm(perm: tuple[int, ...]) -> list[int]:
    return list(perm)


def _permuted(array: Array, p: quant.Parameters) -> Array:
    perm = p.get("perm")
    return np.ascontiguousarray(array if perm is None else array.transpose(perm))


def build_quantize(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """float32 to codes, written in the permuted order."""
    scale = float(np.float32(p.get("scale", quant.scale(rng))))
    zp = quant.zero_point(rng, p, "zx")
    dtype = quant.dtype_of(p)
    low, high = quant.limits(dtype)
    lo, hi = p.get("bounds", (low, high) if rng.integers(2) else (min(zp, low + 1), high))
    x = _floats(rng, p, scale, zp)
    codes = getattr(torch, dtype.name)
    result = nm.quantize(tensor(x), scale, zp, lo, hi, codes).numpy()
    params = schema.CastParamsT(
        scale=scale,
        inverseScale=nm.inverse_scale(scale),
        zeroPoint=zp,
        clampMin=lo,
        clampMax=hi,
        perm=_stored_perm(p.get("perm", ())),
    )
    return Built(opcode, [x], [], params, _permuted(result, p))


def build_dequantize(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """Codes to float32, written in the permuted order."""
    scale = float(np.float32(p.get("scale", quant.scale(rng))))
    zp = quant.zero_point(rng, p, "zx")
    x = quant.codes_of(rng, p, "x", p["shape"])
    result = nm.dequantize(tensor(x), scale, zp).numpy()
    params = schema.CastParamsT(
        scale=scale,
        inverseScale=nm.inverse_scale(scale),
        zeroPoint=zp,
        clampMin=quant.limits(x.dtype)[0],
        clampMax=quant.limits(x.dtype)[1],
        perm=_stored_perm(p.get("perm", ())),
    )
    return Built(opcode, [x], [], params, _permuted(result, p))


def _elements(rng: np.random.Generator, p: quant.Parameters) -> Array:
    """Random bytes seen as the wanted dtype (a copy must not interpret what it moves)."""
    dtype = np.dtype(p.get("dtype", "int8"))
    shape = tuple(p["shape"])
    count = math.prod(shape) * dtype.itemsize
    return np.frombuffer(rng.bytes(count), dtype).reshape(shape).copy()


def build_layout(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """Permute or copy."""
    x = _elements(rng, p)
    params = schema.LayoutParamsT(perm=_stored_perm(p.get("perm", ())))
    tosa = {"kind": opcode, "x": x, "perm": params.perm}
    return Built(opcode, [x], [], params, _permuted(x, p), tosa)
