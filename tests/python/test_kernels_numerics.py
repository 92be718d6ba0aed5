# SPDX-License-Identifier: BSD-3-Clause
"""The C++ requantize against Python big integers."""

from __future__ import annotations

import itertools

import numpy as np

from tests.support import capi
from tests.support.grid import ACCUMULATORS, MULTIPLIERS

INT32 = (-(2**31), 2**31 - 1)


def expected(acc: list[int], m: list[int], s: list[int], zp: int, lo: int, hi: int) -> list[int]:
    """The contract in exact integers."""
    return [
        min(hi, max(lo, zp + ((v * k + (1 << (shift - 1))) >> shift)))
        for v, k, shift in zip(acc, m, s, strict=True)
    ]


def compare(acc: list[int], m: list[int], s: list[int], zp: int, lo: int, hi: int) -> None:
    operands = (np.array(acc), np.array(m), np.array(s))
    got = capi.requantize(*operands, zp, lo, hi).tolist()
    wanted = expected(acc, m, s, zp, lo, hi)
    for row in zip(acc, m, s, got, wanted, strict=True):
        assert row[3] == row[4], f"acc {row[0]}, multiplier {row[1]}, shift {row[2]}"


def test_rounding_on_every_edge() -> None:
    grid = list(itertools.product(ACCUMULATORS, MULTIPLIERS, range(2, 63)))
    acc, m, s = (list(column) for column in zip(*grid, strict=True))
    for zp, lo, hi in ((0, -128, 127), (-128, -128, 127), (127, -5, 9), (0, -32768, 32767)):
        compare(acc, m, s, zp, lo, hi)


def test_rounding_of_random_values() -> None:
    rng = np.random.default_rng(7)
    count = 50_000
    acc = np.trunc(2.0 ** rng.uniform(0, 31, count) * rng.choice([-1, 1], count)).astype(np.int64)
    shift = rng.integers(2, 63, count)
    multiplier = rng.integers(0, 2**31, count)
    compare(acc.tolist(), multiplier.tolist(), shift.tolist(), 3, -128, 127)
    compare(acc.tolist(), multiplier.tolist(), shift.tolist(), 0, -32768, 32767)


def test_rounding_of_exact_ties() -> None:
    acc, shifts = [], []
    for shift in range(31, 62):
        step = 2 ** (shift - 30)
        for k in range(-140, 140):
            value = k * step + step // 2
            if INT32[0] <= value <= INT32[1]:
                acc.append(value)
                shifts.append(shift)
    assert len(acc) > 5000
    compare(acc, [2**30] * len(acc), shifts, 0, -128, 127)
