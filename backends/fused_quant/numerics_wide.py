# SPDX-License-Identifier: BSD-3-Clause
"""What int16 codes need beyond `numerics`: 64-bit accumulators, interpolated tables, hardswish.

Notation as in `numerics`; int16 codes have the zero point 0.

rescale of a 64-bit accumulator, s >= 33 (with a smaller shift v is first saturated to int32):

    R(v; m, s) = ((v >> 32) * m + ((v mod 2^32) * m >> 32) + 2^(s-33)) >> (s - 32)

A function f of one code, T of 513 int16 entries made ahead of time in float64:

    T[i] = sat16(RNE(f((i - 256) * 128 * si) / so))
    q = C(((T[i] << 7) + (T[i+1] - T[i]) * (x & 127) + 64) >> 7),  i = (x + 32768) >> 7

hardswish, where h = max(1, RNE(3 / si)) is at most 2^15:

    q = C(R(x * min(max(x + h, 0), 2 * h); M(si / (2 * h * so))))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fused_quant import numerics
from fused_quant.numerics import Multiplier

LOWEST, HIGHEST = -32768, 32767
MAX_ACCUMULATOR = 2**47  # of a sum of products: 48 bits hold it, as TOSA's accumulators
MAX_STEP = 32767  # between neighbouring entries of a table
MAX_BEND_ERROR = 2.0  # codes that a table may be off for a function with kinks or jumps
_SEGMENTS = 512
_CODES_PER_SEGMENT = 128
MAX_HARDSWISH_OFFSET = 32768

Function = Callable[[Tensor], Tensor]


def rescale(acc: Tensor, m: Multiplier | Sequence[Multiplier], axis: int = -1) -> Tensor:
    """R(acc; m, s) of any int64 acc, int64; a sequence holds one multiplier per element of `axis`.

    Exact for shifts of 33 and more. Below, acc saturates to int32; its product with a multiplier of
    2^30 or more is then beyond 2^28 after the shift, so a code saturates all the same.
    """
    acc = acc.to(torch.int64)
    narrow = numerics.rescale(acc.clamp(numerics.INT32_MIN, numerics.INT32_MAX), m, axis)
    if isinstance(m, Multiplier):
        factor, shift = torch.tensor(m.multiplier), torch.tensor(m.shift)
    else:
        shape = [1] * acc.dim()
        shape[axis] = len(m)
        factor = torch.tensor([k.multiplier for k in m], dtype=torch.int64).reshape(shape)
        shift = torch.tensor([k.shift for k in m], dtype=torch.int64).reshape(shape)
    high = (acc >> 32) * factor + (((acc & 0xFFFFFFFF) * factor) >> 32)
    behind = (shift - 32).clamp(min=1)
    wide = (high + (torch.ones_like(behind) << (behind - 1))) >> behind
    return torch.where(shift < 33, narrow, wide)


def requantize(
    acc: Tensor, m: Multiplier | Sequence[Multiplier], lo: int, hi: int, axis: int = -1
) -> Tensor:
    """C(R(acc; m)) as int16, of any int64 acc."""
    return rescale(acc, m, axis).clamp(lo, hi).to(torch.int16)


def accumulator_fits(weight: Tensor, bias: Tensor | None) -> Tensor:
    """Per output channel: |b| + sum |w| * 32768 <= 2^47 (int16 activations); bool [out_c].

    weight: int8 codes [out_c, ...]; bias: [out_c] or None.
    """
    bound = weight.to(torch.int64).abs().flatten(1).sum(1) * -LOWEST
    if bias is not None:
        bound = bound + bias.to(torch.int64).abs()
    return bound <= MAX_ACCUMULATOR


def table(function: Function, s_in: float, s_out: float) -> Tensor:
    """The 513 entries of `function`, which is elementwise on float64; int16.

    A result that is NaN counts as 0; infinities saturate.
    """
    knots = (torch.arange(_SEGMENTS + 1) - _SEGMENTS // 2) * _CODES_PER_SEGMENT
    steps = torch.round(function(knots.to(torch.float64) * s_in) / s_out)
    return torch.nan_to_num(steps, nan=0.0).clamp(float(LOWEST), float(HIGHEST)).to(torch.int16)


def steepest(entries: Tensor) -> int:
    """The largest difference of neighbouring entries; beyond `MAX_STEP` no table is defined."""
    return int(entries.to(torch.int64).diff().abs().max())


def look_up(codes: Tensor, entries: Tensor, lo: int, hi: int) -> Tensor:
    """C of the interpolated entries at int16 codes of any shape; int16."""
    x, t = codes.to(torch.int64), entries.to(torch.int64)
    i = (x - LOWEST) >> 7
    between = (t[i + 1] - t[i]) * (x & (_CODES_PER_SEGMENT - 1))
    return (((t[i] << 7) + between + 64) >> 7).clamp(lo, hi).to(torch.int16)


def largest_error(function: Function, entries: Tensor, s_in: float, s_out: float) -> float:
    """How far in codes the table is from the function, at most, over all 65,536 codes."""
    codes = torch.arange(LOWEST, HIGHEST + 1)
    exact = torch.nan_to_num(function(codes.to(torch.float64) * s_in) / s_out, nan=0.0)
    got = look_up(codes, entries, LOWEST, HIGHEST).to(torch.float64)
    return float((got - exact.clamp(float(LOWEST), float(HIGHEST))).abs().max())


def hardswish_offset(s_in: float) -> int | None:
    """RNE(3 / s_in), at least 1; None where x + 3 is positive for every code but a few."""
    offset = max(1, round(min(3.0 / s_in, 2.0**17)))
    return offset if offset <= MAX_HARDSWISH_OFFSET else None


def hardswish_ratio(s_in: float, s_out: float, offset: int) -> float:
    """The real value of one unit of x * min(max(x + h, 0), 2 * h), in output codes."""
    return s_in / (2 * offset * s_out)


def hardswish(codes: Tensor, offset: int, m: Multiplier, lo: int, hi: int) -> Tensor:
    """Hardswish of int16 codes; |product| <= 32768 * 65535 < 2^31.

    Within a quarter of an input code, in real terms, of x * min(max(x + 3, 0), 6) / 6 before the
    last rounding: h is at most half a code off, and x * x / (2 * h) changes by half of that.
    """
    x = codes.to(torch.int64)
    product = x * (x + offset).clamp(0, 2 * offset)
    return numerics.requantize(product, m, 0, lo, hi, torch.int16)
