# SPDX-License-Identifier: BSD-3-Clause
"""Expected codes in Python integers and fractions, written from the contract alone."""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

HALF = Fraction(1, 2)


def float32(value: float) -> float:
    """The nearest float32."""
    return float(torch.tensor(value, dtype=torch.float32))


def multiplier(ratio: float) -> Fraction:
    """A ratio as the contract keeps it: 31 bits of mantissa, no finer than 2^-62."""
    mantissa, exponent = math.frexp(ratio)
    value = Fraction(round(mantissa * 2**31)) * Fraction(2) ** (exponent - 31)
    finest = Fraction(1, 2**62)
    return value if value >= Fraction(2**30) * finest else math.floor(value / finest) * finest


def rescale(acc: int, ratio: float, zero_point: int, low: int = -128, high: int = 127) -> int:
    """clamp(zero_point + floor(acc * ratio + 1/2)): one rounding, ties up."""
    return min(high, max(low, zero_point + math.floor(acc * multiplier(ratio) + HALF)))


def half_away(value: Fraction) -> int:
    """The nearest integer, ties away from zero."""
    magnitude = math.floor(abs(value) + HALF)
    return magnitude if value >= 0 else -magnitude


def convolve(
    x: Tensor,
    weight: Tensor,
    zero_point: int,
    stride: tuple[int, int],
    sides: tuple[int, int, int, int],
    dilation: tuple[int, int],
    groups: int,
) -> list[list[list[list[int]]]]:
    """Sums over (code - zero_point) * weight; taps in the padding count as real 0.

    sides: top, bottom, left, right. Plain loops over the definition.
    """
    batch, in_c, in_h, in_w = x.shape
    out_c, group_c, kernel_h, kernel_w = weight.shape
    top, bottom, left, right = sides
    out_h = (in_h + top + bottom - dilation[0] * (kernel_h - 1) - 1) // stride[0] + 1
    out_w = (in_w + left + right - dilation[1] * (kernel_w - 1) - 1) // stride[1] + 1
    codes, taps = x.tolist(), weight.tolist()

    def total(n: int, o: int, row: int, column: int) -> int:
        first = o // (out_c // groups) * group_c
        result = 0
        for c in range(group_c):
            for i in range(kernel_h):
                for j in range(kernel_w):
                    y = row * stride[0] - top + i * dilation[0]
                    z = column * stride[1] - left + j * dilation[1]
                    if 0 <= y < in_h and 0 <= z < in_w:
                        result += (codes[n][first + c][y][z] - zero_point) * taps[o][c][i][j]
        return result

    assert in_c == group_c * groups
    return [
        [[[total(n, o, h, w) for w in range(out_w)] for h in range(out_h)] for o in range(out_c)]
        for n in range(batch)
    ]
