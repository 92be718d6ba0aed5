# SPDX-License-Identifier: BSD-3-Clause
"""softmax, log_softmax, layer norm and rms norm of int16 codes, in 64-bit integers.

Notation as in `numerics`; zero points are 0; `x div y` floors. All functions work along the last
dimension.

exponentials, in units of 2^-30, of a distance d = 0..65535 between codes:

    F[j] = RNE(2^30 * exp(-j * s)),  G[i] = RNE(2^30 * exp(-256 * i * s)),  i, j = 0..255
    exp30(d) = (F[d mod 256] * G[d div 256] + 2^29) >> 30

softmax, output scale 2^-15:

    S = sum exp30(xmax - x);  k = floor(log2 S) - 30;  r = 2^61 div (S >> k)
    q = C((exp30(xmax - x) * r + 2^(45 + k)) >> (46 + k))

log_softmax: as of int8 codes (`numerics_norm`) with this S, and 65,536 * s in place of 256 * s.

layer norm over N <= 2^14 codes:

    W = N * sum x^2 - (sum x)^2 + clip(RNE(eps * N^2 / s^2), 1, 2^60)
    h even with 2^60 <= W << h < 2^62;  r = min(2^61 div isqrt(W << h), 2^31 - 1)
    u = ((N * x - sum x) * r + 2^(v - 1)) >> v,  v = 45 - h / 2
    q = C(R(u * g + b; M(sg * 2^-16 / so)))

with sg = max |gamma| / 32767, g = RNE(gamma / sg), b = RNE(beta / (sg * 2^-16)). rms norm is the
same without the two terms in sum x, and b = 0.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from fused_quant import numerics, numerics_norm, numerics_wide

SOFTMAX_SCALE = 2.0**-15
MAX_NORM_ELEMENTS = 2**14
MAX_BETA = 2**46
_FARTHEST = 65536  # above every distance of two codes
_MAX_EPSILON = 2**60
_PRECISION = 16  # fractional bits of the normalized value


def exponentials(scale: float) -> Tensor:
    """F and then G, 512 entries, int64."""
    steps = (*range(256), *range(0, _FARTHEST, 256))
    return torch.tensor([round(2**30 * math.exp(-d * scale)) for d in steps])


def _decay(x: Tensor, scale: float) -> Tensor:
    table, codes = exponentials(scale), x.to(torch.int64)
    d = codes.amax(-1, keepdim=True) - codes
    return (table[d & 255] * table[256 + (d >> 8)] + 2**29) >> 30


def _excess(total: Tensor) -> Tensor:
    """floor(log2 total) - 30 of sums from 2^30 to 2^46."""
    return torch.frexp(total.to(torch.float64)).exponent.to(torch.int64) - 31


def _check_count(x: Tensor, what: str) -> None:
    if x.shape[-1] > numerics_norm.MAX_SOFTMAX_ELEMENTS:
        limit = numerics_norm.MAX_SOFTMAX_ELEMENTS
        raise ValueError(f"{what}: got {x.shape[-1]} elements, supported: {limit}")


def softmax(x: Tensor, scale: float, lo: int, hi: int) -> Tensor:
    """Softmax of int16 codes on the grid 2^-15, int16; at most 65,536 elements, else ValueError."""
    _check_count(x, "softmax")
    e = _decay(x, scale)
    total = e.sum(-1, keepdim=True)
    k = _excess(total)
    r = 2**61 // (total >> k)
    one = torch.ones_like(k)
    return ((e * r + (one << (45 + k))) >> (46 + k)).clamp(lo, hi).to(torch.int16)


def log_multipliers(s_in: float, s_out: float) -> numerics_norm.LogMultipliers:
    """As `numerics_norm.log_multipliers`, for distances up to 65,535."""
    return numerics_norm.log_multipliers(s_in, s_out, _FARTHEST)


def log_softmax(x: Tensor, s_in: float, s_out: float, lo: int, hi: int) -> Tensor:
    """Logarithm of the softmax of int16 codes, on any grid of zero point 0; int16."""
    _check_count(x, "log_softmax")
    codes = x.to(torch.int64)
    d = codes.amax(-1, keepdim=True) - codes
    total = _decay(x, s_in).sum(-1, keepdim=True)
    acc, multiplier = numerics_norm.log_terms(d, total, log_multipliers(s_in, s_out))
    return numerics.requantize(acc, multiplier, 0, lo, hi, torch.int16)


@dataclasses.dataclass(frozen=True)
class Affine:
    """Integer gamma, beta and output multiplier of a norm, and the constant of eps."""

    gamma: Tensor
    beta: Tensor
    multiplier: numerics.Multiplier
    epsilon: int


def accumulator_scale(gamma: Tensor | None) -> tuple[float, float]:
    """(sg, sg * 2^-16); without gamma, or with one of zeros, max |gamma| counts as 1."""
    largest = 1.0 if gamma is None else float(gamma.abs().max()) or 1.0
    return largest / 32767, largest / 32767 * 2.0**-_PRECISION


def affine_parameters(
    count: int, gamma: Tensor | None, beta: Tensor | None, eps: float, s_in: float, s_out: float
) -> Affine:
    """Ahead of time, in float64; beta is clipped to +-2^46 steps. ValueError without a multiplier.

    gamma, beta: [count] or None.
    """
    s_gamma, s_acc = accumulator_scale(gamma)
    ones = torch.ones(count, dtype=torch.float64)
    g = torch.round((ones if gamma is None else gamma.to(torch.float64)) / s_gamma)
    b = torch.round((0 * ones if beta is None else beta.to(torch.float64)) / s_acc)
    steps = eps * count * count / (s_in * s_in)
    return Affine(
        g.to(torch.int64),
        b.clamp(-float(MAX_BETA), float(MAX_BETA)).to(torch.int64),
        numerics.multiplier_from_ratio(s_acc / s_out),
        max(1, round(min(steps, float(_MAX_EPSILON)))),
    )


def _reciprocals(w: list[int]) -> tuple[list[int], list[int]]:
    """(r, v) of each W."""
    shifts = [(62 - value.bit_length()) & ~1 for value in w]
    roots = [math.isqrt(value << h) for value, h in zip(w, shifts, strict=True)]
    return [min(2**61 // root, 2**31 - 1) for root in roots], [45 - h // 2 for h in shifts]


def standardize(x: Tensor, affine: Affine, centred: bool, lo: int, hi: int) -> Tensor:
    """Layer norm (`centred`) or rms norm of int16 codes [..., count] along the last dimension.

    gamma and beta of `affine` may have any shape that broadcasts to that of x.
    """
    codes, count = x.to(torch.int64), x.shape[-1]
    total = codes.sum(-1, keepdim=True) * int(centred)
    w = count * (codes * codes).sum(-1, keepdim=True) - total * total + affine.epsilon
    r, v = (torch.tensor(k).reshape(w.shape) for k in _reciprocals(w.flatten().tolist()))
    u = ((count * codes - total) * r + (torch.ones_like(v) << (v - 1))) >> v
    return numerics_wide.requantize(u * affine.gamma + affine.beta, affine.multiplier, lo, hi)
