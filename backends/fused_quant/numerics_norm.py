# SPDX-License-Identifier: BSD-3-Clause
"""softmax, log_softmax, layer norm and rms norm of int8 codes, in integers.

Notation as in `numerics`; clz32(v) counts the leading zeros of a positive 32-bit number; `x div y`
floors. All functions work along the last dimension.

softmax, output scale 1/256 and zero point -128:

    d = xmax - x;  e = E[d],  E[d] = min(32767, RNE(2^15 * exp(-d * s)))
    S = sum e;  h = clz32(S);  Sn = ((S << (h - 1)) + 2^14) >> 15;  r = (2^31 - 1) div Sn
    q = C(-128 + ((e * r + 2^(38 - h)) >> (39 - h)))

log_softmax, any output grid; si = 2^-F, F = 29 - e, 2^(e-1) <= max(256 * s, 16) < 2^e:

    d = xmax - x;  S = sum E[d],  E[d] = RNE(2^30 * exp(-d * s))
    k = floor(log2 S) - 30;  m = S >> k;  i = (m >> 23) - 128;  f = m & (2^23 - 1)
    l = k * L[128] + L[i] + (((L[i + 1] - L[i]) * f + 2^22) >> 23)
    L[i] = RNE(2^26 * ln(1 + i / 128)), i = 0..128
    q = C(zo + R(-(R(d; M(s / si)) + R(l; M(2^-26 / si))); M(si / so)))

layer norm over N codes, t = max(1, ceil(log2 N)):

    mu = R(sum x; M(2^7 / N));  d = (x << 7) - mu
    A = sum((d * d + 2^(t - 1)) >> t) + clip(RNE(eps * N * 4^7 / (s^2 * 2^t)), 1, 2^29)
    h = (clz32(A) - 1) & ~1;  r = rsqrt(((A << h) >> 15) - 32768)     by table, below
    u = sat16((d * r + 2^(v - 1)) >> v),  v = 19 - h / 2
    q = C(zo + R(u * g + b; M(sacc / so)))

with integer affine parameters from `affine_parameters`. rms norm is the same with mu = z << 7 and
b = 0. `rsqrt` interpolates between 513 entries
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
_LOG_BITS = 26
_LOG_SEGMENTS = 128
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
    return masked_softmax(x, torch.zeros((), dtype=torch.bool), scale, lo, hi)


def masked_softmax(x: Tensor, hidden: Tensor, scale: float, lo: int, hi: int) -> Tensor:
    """`softmax` of the elements where `hidden` is False; 0, the code -128, for the others; int8."""
    codes = x.to(torch.int64)
    largest = codes.masked_fill(hidden, -129).amax(-1, keepdim=True)
    e = exponentials(scale)[(largest - codes).clamp(0, 255)].masked_fill(hidden, 0)
    total = e.sum(-1, keepdim=True).clamp(min=1)  # 0 if every element is left out
    h = _clz32(total)
    normalized = ((total << (h - 1)) + 2**14) >> 15
    r = (2**31 - 1) // normalized
    one = torch.ones_like(h)
    q = ((e * r + (one << (38 - h))) >> (39 - h)) + SOFTMAX_ZERO_POINT
    return q.clamp(lo, hi).to(torch.int8)


def log_exponentials(scale: float) -> Tensor:
    """E[d] = RNE(2^30 * exp(-d * scale)) of d = 0..255, int64."""
    return torch.tensor([round(2**30 * math.exp(-d * scale)) for d in range(256)])


def logarithms() -> Tensor:
    """L[i] = RNE(2^26 * ln(1 + i / 128)) of i = 0..128, int64."""
    steps = range(_LOG_SEGMENTS + 1)
    return torch.tensor([round(2**_LOG_BITS * math.log1p(i / _LOG_SEGMENTS)) for i in steps])


@dataclasses.dataclass(frozen=True)
class LogMultipliers:
    """Multipliers of a log_softmax: of a code's distance from the largest, of l, of their sum."""

    distance: numerics.Multiplier
    level: numerics.Multiplier
    output: numerics.Multiplier


def log_multipliers(s_in: float, s_out: float, farthest: int = 256) -> LogMultipliers:
    """Both terms on the grid 2^-F, which keeps each below 2^29. ValueError without a multiplier.

    farthest: above every distance of two codes.
    """
    fraction = 29 - math.frexp(max(farthest * s_in, 16.0))[1]
    return LogMultipliers(
        numerics.multiplier_from_ratio(math.ldexp(s_in, fraction)),
        numerics.multiplier_from_ratio(math.ldexp(1.0, fraction - _LOG_BITS)),
        numerics.multiplier_from_ratio(math.ldexp(1.0, -fraction) / s_out),
    )


def log_softmax(
    x: Tensor, s_in: float, s_out: float, zero_point: int, lo: int, hi: int, dtype: torch.dtype
) -> Tensor:
    """Logarithm of the softmax of int8 codes along the last dimension, on any grid."""
    if x.shape[-1] > MAX_SOFTMAX_ELEMENTS:
        raise ValueError(f"log_softmax: got {x.shape[-1]} elements, supported: 65536")
    codes = x.to(torch.int64)
    d = codes.amax(-1, keepdim=True) - codes
    total = log_exponentials(s_in)[d].sum(-1, keepdim=True)
    acc, multiplier = log_terms(d, total, log_multipliers(s_in, s_out))
    return numerics.requantize(acc, multiplier, zero_point, lo, hi, dtype)


def log_terms(
    d: Tensor, total: Tensor, multipliers: LogMultipliers
) -> tuple[Tensor, numerics.Multiplier]:
    """-(R(d) + R(l)) of distances d and sums S = `total` of exponentials, and what scales it."""
    table = logarithms()
    k = torch.frexp(total.to(torch.float64)).exponent.to(torch.int64) - 31
    mantissa = total >> k
    i, fraction = (mantissa >> 23) - _LOG_SEGMENTS, mantissa & (2**23 - 1)
    between = ((table[i + 1] - table[i]) * fraction + 2**22) >> 23
    level = k * table[_LOG_SEGMENTS] + table[i] + between
    terms = numerics.rescale(d, multipliers.distance) + numerics.rescale(level, multipliers.level)
    return -terms, multipliers.output


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


def mean_multiplier(count: int) -> numerics.Multiplier:
    """M(2^7 / count), of a sum of codes."""
    return numerics.multiplier_from_ratio(2.0**_FRACTION / count)


def layer_norm(
    x: Tensor, affine: Affine, zero_point: int, lo: int, hi: int, dtype: torch.dtype
) -> Tensor:
    """Layer norm of int8 codes [..., count] along the last dimension.

    gamma and beta of `affine` may have any shape that broadcasts to that of x.
    """
    codes = x.to(torch.int64)
    scale = mean_multiplier(codes.shape[-1])
    d = (codes << _FRACTION) - numerics.rescale(codes.sum(-1, keepdim=True), scale)
    return _standardize(d, affine, zero_point, lo, hi, dtype)


def rms_norm(
    x: Tensor, zx: int, affine: Affine, zero_point: int, lo: int, hi: int, dtype: torch.dtype
) -> Tensor:
    """Rms norm of int8 codes [..., count] of zero point zx along the last dimension."""
    return _standardize((x.to(torch.int64) - zx) << _FRACTION, affine, zero_point, lo, hi, dtype)


def _standardize(
    d: Tensor, affine: Affine, zero_point: int, lo: int, hi: int, dtype: torch.dtype
) -> Tensor:
    rounding = 1 << (affine.shift - 1)
    a = ((d * d + rounding) >> affine.shift).sum(-1, keepdim=True) + affine.epsilon
    h = (_clz32(a) - 1) & ~1
    r = rsqrt(((a << h) >> 15) - 32768)
    v = 29 - _PRECISION - h // 2
    one = torch.ones_like(v)
    u = ((d * r + (one << (v - 1))) >> v).clamp(-(2**15), 2**15 - 1)
    acc = u * affine.gamma + affine.beta
    return numerics.requantize(acc, affine.multiplier, zero_point, lo, hi, dtype)
