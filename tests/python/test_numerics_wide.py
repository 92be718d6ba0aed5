# SPDX-License-Identifier: BSD-3-Clause
"""int16 numerics against Python integers and float64."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor
from torch.nn import functional

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


EXACT: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Fraction], Fraction]]] = {
    "identity": (lambda x: x, lambda x: x),
    "square": (lambda x: x * x / 8, lambda x: x * x / 8),
    "relu6": (lambda x: x.clamp(0, 6), lambda x: min(max(x, Fraction(0)), Fraction(6))),
}
CODES = torch.arange(-32768, 32768)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(("s_in", "s_out"), [(2.0**-12, 2.0**-12), (2.0**-11, 2.0**-13)])
def test_tables_in_fractions(name: str, s_in: float, s_out: float) -> None:
    """Entries half to even, what lies between them half up; all codes."""
    function, exact = EXACT[name]
    entries = numerics_wide.table(function, s_in, s_out)
    assert entries.dtype == torch.int16
    reals = [exact((i - 256) * 128 * Fraction(s_in)) / Fraction(s_out) for i in range(513)]
    t = [_code(round(real)) for real in reals]
    assert entries.tolist() == t
    wanted = []
    for code in range(-32768, 32768):
        i, rest = divmod(code + 32768, 128)
        between = t[i] + Fraction((t[i + 1] - t[i]) * rest, 128)
        wanted.append(min(30000, max(-5, math.floor(between + Fraction(1, 2)))))
    got = numerics_wide.look_up(CODES.to(torch.int16), entries, -5, 30000)
    assert got.dtype == torch.int16
    assert got.tolist() == wanted


# Function, the largest magnitude of its second derivative, scale of the result.
SMOOTH: dict[str, tuple[Callable[[Tensor], Tensor], float, float]] = {
    "sigmoid": (torch.sigmoid, 0.0963, 2.0**-15),
    "tanh": (torch.tanh, 0.770, 2.0**-15),
    "gelu": (functional.gelu, 0.798, 2.0**-12),
    "silu": (functional.silu, 0.5, 2.0**-12),
    "sin": (torch.sin, 1.0, 2.0**-15),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_tables_are_as_near_as_their_second_derivative(name: str) -> None:
    """Half a code for an entry, half for the result, (128 s)^2 / 8 * max |f''| between entries."""
    function, bend, s_out = SMOOTH[name]
    for s_in in (2.0**-13, 2.0**-12, 2.0**-9):
        entries = numerics_wide.table(function, s_in, s_out)
        error = numerics_wide.largest_error(function, entries, s_in, s_out)
        assert error <= 1 + (128 * s_in) ** 2 / 8 * bend / s_out
        exact = (function(CODES.double() * s_in) / s_out).clamp(-32768, 32767)
        codes = CODES.to(torch.int16)
        got = numerics_wide.look_up(codes, entries, -32768, 32767).double()
        assert error == float((got - exact).abs().max())


def test_steps_of_tables_and_values_that_are_no_numbers() -> None:
    wild = numerics_wide.table(lambda x: 1 / x, 2.0**-12, 2.0**-12)
    assert numerics_wide.steepest(wild) > numerics_wide.MAX_STEP
    roots = numerics_wide.table(torch.sqrt, 2.0**-12, 2.0**-12)
    assert roots[:257].tolist() == [0] * 257
    assert numerics_wide.steepest(roots) == int(roots[257])
    floor = numerics_wide.table(torch.floor, 2.0**-12, 2.0**-12)
    scales = (2.0**-12, 2.0**-12)
    assert numerics_wide.largest_error(torch.floor, floor, *scales) > 4000


@pytest.mark.parametrize("s_in", [3 / 32768, 2.0**-13, 2.0**-12, 0.00037, 0.01, 1.0, 5.0])
def test_hardswish_is_within_a_quarter_of_an_input_code(s_in: float) -> None:
    offset = numerics_wide.hardswish_offset(s_in)
    assert offset is not None
    for s_out in (s_in, 2 * s_in):
        ratio = numerics_wide.hardswish_ratio(s_in, s_out, offset)
        multiplier = numerics.multiplier_from_ratio(ratio)
        codes = CODES.to(torch.int16)
        got = numerics_wide.hardswish(codes, offset, multiplier, -32768, 32767).double()
        exact = functional.hardswish(CODES.double() * s_in) / s_out
        assert float((got - exact).abs().max()) <= 0.501 + 0.25 * s_in / s_out


def test_hardswish_without_bends_has_no_offset() -> None:
    assert numerics_wide.hardswish_offset(3 / 32768.6) is None
    assert numerics_wide.hardswish_offset(2.0**-126) is None
    assert numerics_wide.hardswish_offset(100.0) == 1
