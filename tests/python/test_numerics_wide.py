# SPDX-License-Identifier: BSD-3-Clause
"""int16 numerics against Python integers and float64."""

from __future__ import annotations

import random

import torch

from fused_quant import numerics, numerics_wide

torch.set_num_threads(1)


def _exact(acc: int, m: numerics.Multiplier) -> int:
    return (acc * m.multiplier + (1 << (m.shift - 1))) >> m.shift


def _code(value: int) -> int:
    return min(32767, max(-32768, value))


def test_requantize_of_64_bit_accumulators() -> None:
    """Every shift, multipliers as `multiplier_from_ratio` makes them, ties and both ends."""
    draw = random.Random(5)
    for shift in range(2, 63):
        drawn = [2**30, 2**31 - 1, draw.randrange(2**30, 2**31), 0]
        multipliers = [numerics.Multiplier(m, shift) for m in drawn]
        rows = [[-(2**63), 2**63 - 1, 2**31, -(2**31) - 1, 0, 1, -1]]
        rows.append([draw.randrange(-(2**63), 2**63) >> draw.randrange(63) for _ in range(200)])
        step = 1 << max(shift - 30, 1)
        rows.append([k * step + step // 2 for k in range(-60, 60)])
        acc = [value for row in rows for value in row]
        column = torch.tensor(acc)[:, None].expand(-1, len(multipliers))
        got = numerics_wide.requantize(column, multipliers, -32768, 32767)
        assert got.tolist() == [[_code(_exact(v, m)) for m in multipliers] for v in acc], shift
