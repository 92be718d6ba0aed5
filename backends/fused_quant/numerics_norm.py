# SPDX-License-Identifier: BSD-3-Clause
"""softmax and layer norm of int8 codes in 32-bit integers.

Notation as in `numerics`; clz32(v) counts the leading zeros of a positive 32-bit number; `x div y`
floors. All functions work along the last dimension.

softmax, output scale 1/256 and zero point -128:

    d = xmax - x;  e = E[d],  E[d] = min(32767, RNE(2^15 * exp(-d * s)))
    S = sum e;  h = clz32(S);  Sn = ((S << (h - 1)) + 2^14) >> 15;  r = (2^31 - 1) div Sn
    q = C(-128 + ((e * r + 2^(38 - h)) >> (39 - h)))

layer norm over N codes, t = max(1, ceil(log2 N)):

    mu = R(sum x; M(2^7 / N));  d = (x << 7) - mu
    A = sum((d * d + 2^(t - 1)) >> t) + clip(RNE(eps * N * 4^7 / (s^2 * 2^t)), 1, 2^29)
    h = (clz32(A) - 1) & ~1;  r = rsqrt(((A << h) >> 15) - 32768)     by table, below
    u = sat16((d * r + 2^(v - 1)) >> v),  v = 19 - h / 2
    q = C(zo + R(u * g + b; M(sacc / so)))

with integer affine parameters from `affine_parameters`. `rsqrt` interpolates between 513 entries
T[i] = min(32767, RNE(32767 / sqrt(max(i / 128, 1)))), i = (x + 32768) >> 7.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from fused_quant import numerics

SOFTMAX_SCALE = 1.0 / 256
SOFTMAX_ZERO_POINT = -128
MAX_SOFTMAX_ELEMENTS = 65536
MAX_NORM_ELEMENTS = 4096
MAX_BETA = 2**30  # steps of sacc; u * g stays below 2^30, so the sum fits int32
_FRACTION = 7  # F: fractional bits of the mean
_PRECISION = 10  # P: fractional bits of the normalized value
_RSQRT = torch.tensor(
    [min(32767, round(32767 / math.sqrt(max(i / 128, 1)))) for i in range(513)], dtype=torch.int64
)


def _clz32(v: Tensor) -> Tensor:
    """32 - bit length, of positive integers below 2^32."""
    return 32 - torch.frexp(v.to(torch.float64)).exponent.to(torch.int64)


def exponentials(scale: float) -> Tensor:
    """E[d] = min(32767, RNE(2^15 * exp(-d * scale))) of d = 0..255, int64."""
    entries = [min(32767, round(2**15 * math.exp(-d * scale))) for d in range(256)]
    return torch.tensor(entries, dtype=torch.int64)


def softmax(x: Tensor, scale: float, lo: int, hi: int) -> Tensor:
    """Softmax of int8 codes along the last dimension, on the grid 1/256, -128; int8.

    At most 65,536 elements in that dimension, so that S fits 31 bits; else ValueError.
    """
    if x.shape[-1] > MAX_SOFTMAX_ELEMENTS:
        raise ValueError(f"softmax: got {x.shape[-1]} elements, supported: {MAX_SOFTMAX_ELEMENTS}")
    codes = x.to(torch.int64)
    e = exponentials(scale)[codes.amax(-1, keepdim=True) - codes]
    total = e.sum(-1, keepdim=True)
    h = _clz32(total)
    normalized = ((total << (h - 1)) + 2**14) >> 15
    r = (2**31 - 1) // normalized
    one = torch.ones_like(h)
    q = ((e * r + (one << (38 - h))) >> (39 - h)) + SOFTMAX_ZERO_POINT
    return q.clamp(lo, hi).to(torch.int8)


def rsqrt(x: Tensor) -> Tensor:
    """32767 / sqrt((x + 32768) / 2^14) of int16 x >= -16384, by interpolation; int64."""
    i = (x + 32768) >> 7
    low, high = _RSQRT[i], _RSQRT[i + 1]
    return ((low << 7) + (high - low) * (x & 127) + 64) >> 7


@dataclasses.dataclass(frozen=True)
class Affine:
    """Integer gamma, beta and output multiplier of a layer norm, and the constant of eps."""

    gamma: Tensor
    beta: Tensor
    multiplier: numerics.Multiplier
    epsilon: int
    shift: int


def accumulator_scale(count: int, gamma: Tensor | None) -> tuple[float, float]:
    """(sg, sacc): sg = max |gamma| / 32767, sacc = sg * sqrt(N / 2^(t+1)) * 32768/32767 * 2^-10.

    Without gamma, or with one that is all zeros, max |gamma| counts as 1.
    """
    largest = 1.0 if gamma is None else float(gamma.abs().max()) or 1.0
    s_gamma = largest / 32767
    c = math.sqrt(count / 2 ** (_shift(count) + 1)) * 32768 / 32767
    return s_gamma, s_gamma * c * 2.0**-_PRECISION


def _shift(count: int) -> int:
    return max(1, (count - 1).bit_length())


def affine_parameters(
    count: int, gamma: Tensor | None, beta: Tensor | None, eps: float, s_in: float, s_out: float
) -> Affine:
    """Ahead of time, in float64: gamma / sg as int16, beta / sacc clipped to +-2^30, both RNE.

    gamma, beta: [count] or None. ValueError if sacc / s_out has no multiplier.
    """
    s_gamma, s_acc = accumulator_scale(count, gamma)
    ones = torch.ones(count, dtype=torch.float64)
    g = torch.round((ones if gamma is None else gamma.to(torch.float64)) / s_gamma)
    b = torch.round((0 * ones if beta is None else beta.to(torch.float64)) / s_acc)
    shift = _shift(count)
    steps = eps * count * 4.0**_FRACTION / (s_in * s_in * 2.0**shift)
    return Affine(
        g.to(torch.int64),
        b.clamp(-float(MAX_BETA), float(MAX_BETA)).to(torch.int64),
        numerics.multiplier_from_ratio(s_acc / s_out),
        int(max(1, min(2**29, round(min(steps, 2.0**30))))),
        shift,
    )


def layer_norm(
    x: Tensor, affine: Affine, zero_point: int, lo: int, hi: int, dtype: torch.dtype
) -> Tensor:
    """Layer norm of int8 codes [..., count] along the last dimension."""
    codes = x.to(torch.int64)
    count = codes.shape[-1]
    scale = numerics.multiplier_from_ratio(2.0**_FRACTION / count)
    d = (codes << _FRACTION) - numerics.rescale(codes.sum(-1, keepdim=True), scale)
    rounding = 1 << (affine.shift - 1)
    a = ((d * d + rounding) >> affine.shift).sum(-1, keepdim=True) + affine.epsilon
    h = (_clz32(a) - 1) & ~1
    r = rsqrt(((a << h) >> 15) - 32768)
    v = 29 - _PRECISION - h // 2
    one = torch.ones_like(v)
    u = ((d * r + (one << (v - 1))) >> v).clamp(-(2**15), 2**15 - 1)
    acc = u * affine.gamma + affine.beta
    return numerics.requantize(acc, affine.multiplier, zero_point, lo, hi, dtype)
