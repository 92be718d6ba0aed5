# SPDX-License-Identifier: BSD-3-Clause
"""div of two tensors: exact rationals, rounding modes, division by zero, spellings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from fused_quant import numerics, numerics_div
from tests.frontend.blocks import FLOAT, OPS, block, codes, error, real
from tests.frontend.graphs import Graph, Grid, fused

MODES = (None, "floor", "trunc")
NUMBERS = sorted({*range(-255, 256, 17), -1, 0, 1, -254, 254})


def _exact(n: int, d: int, m: numerics.Multiplier, mode: str | None) -> int:
    """By fractions; a division by zero is an infinity of n's sign, or nothing."""
    if d == 0:
        return 0 if n == 0 else (2**31 - 1 if n > 0 else -(2**31))
    value = Fraction(n * m.multiplier, d * 2**m.shift)
    if mode is None:
        whole = math.floor(value + Fraction(1, 2))
    else:
        whole = math.floor(value) if mode == "floor" else math.trunc(value)
    return min(max(whole, -(2**31)), 2**31 - 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ratio", [1.0, 0.5, 3.7, 2.0**28, 2.0**-13, 2.0**-16, 2.0**-18, 0.0])
def test_quotients_are_exact(mode: str | None, ratio: float) -> None:
    m = numerics.multiplier_from_ratio(ratio)
    pairs = list(itertools.product(NUMBERS, NUMBERS))
    n, d = torch.tensor(pairs).unbind(1)
    expected = [_exact(*pair, m, mode) for pair in pairs]
    assert numerics_div.quotient(n, d, m, mode).tolist() == expected


def test_unknown_rounding_is_an_error() -> None:
    one = torch.ones(1, dtype=torch.int8)
    with pytest.raises(ValueError, match=r"rounding: got 'ceil'"):
        numerics_div.quotient(one, one, numerics.multiplier_from_ratio(1.0), "ceil")


@pytest.mark.parametrize("mode", MODES)
def test_within_a_code_of_float(mode: str | None) -> None:
    a, b = codes(40, 50, seed=1), codes(50, seed=2)
    left, right, out = block(0.05, -3), block(0.031, 12), block(0.07, 9, out=True)
    b = torch.where(b == 12, b + 1, b)
    got = OPS.div(a, b, *left, *right, *out, mode)
    exact = torch.div(real(a, left), real(b, right), rounding_mode=mode)
    assert error(got, exact, out) <= 1


def test_division_by_zero_saturates() -> None:
    a, b = torch.tensor([9, 3, -7], dtype=torch.int8), torch.tensor([4] * 3, dtype=torch.int8)
    got = OPS.div(a, b, *block(0.05, 3), *block(0.1, 4), *block(0.07, 9, out=True))
    assert got.tolist() == [127, 9, -128]


def test_float_operand() -> None:
    a, other = codes(3, 4), torch.linspace(1, 3, 4)
    got = OPS.div(a, other, *block(0.05), *FLOAT, *FLOAT)
    torch.testing.assert_close(got, real(a, block(0.05)).float() / other)


A, B, AFTER = Grid(0.05, -3), Grid(0.03, 11), Grid(0.3, 7)
SPELLINGS: dict[str, tuple[str | None, Callable[[Tensor, Tensor], Tensor]]] = {
    "div": (None, torch.div),
    "div_": (None, lambda a, b: a.clone().div_(b)),
    "none": (None, lambda a, b: torch.div(a, b, rounding_mode=None)),
    "floor": ("floor", lambda a, b: torch.div(a, b, rounding_mode="floor")),
    "trunc": ("trunc", lambda a, b: torch.div(a, b, rounding_mode="trunc")),
    "floor_divide": ("floor", torch.floor_divide),
    "floor_divide_": ("floor", lambda a, b: a.clone().floor_divide_(b)),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings(name: str) -> None:
    mode, function = SPELLINGS[name]
    pair = (codes(2, 3, seed=1), codes(2, 3, seed=2))

    def quantized(a: Tensor, b: Tensor) -> Tensor:
        return AFTER.quantize(function(A.dequantize(a), B.dequantize(b)))

    gm = fused(Graph(quantized), *pair)
    (node,) = [n for n in gm.graph.nodes if "fused_quant.div" in str(n.target)]
    assert node.args[-1] == mode if mode else node.args[-1] != "floor"
    expected = OPS.div(*pair, *block(0.05, -3), *block(0.03, 11), *block(0.3, 7, out=True), mode)
    assert torch.equal(gm(*pair), expected)
