# SPDX-License-Identifier: BSD-3-Clause
"""Tables of 256 codes, against the same formula in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from fused_quant import numerics_lut

# Functions that are exact in float64 on these grids, in PyTorch and on fractions.
EXACT: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Fraction], Fraction]]] = {
    "identity": (lambda x: x, lambda x: x),
    "negation": (lambda x: -x, lambda x: -x),
    "square": (lambda x: x * x, lambda x: x * x),
    "relu6": (lambda x: x.clamp(0, 6), lambda x: min(max(x, Fraction(0)), Fraction(6))),
    "leaky": (
        lambda x: torch.where(x < 0, x / 8, x),
        lambda x: x / 8 if x < 0 else x,
    ),
}
GRIDS = [
    # (s_in, z_in, s_out, z_out, lo, hi)
    (0.5, 0, 0.25, 0, -128, 127),
    (0.125, -128, 0.25, 127, -128, 127),
    (0.0625, 127, 0.125, -128, -128, 127),
    (0.25, 3, 0.5, -7, -100, 90),
]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("grid", GRIDS)
def test_every_entry(name: str, grid: tuple[float, int, float, int, int, int]) -> None:
    """Scales are powers of two, so many results are exact ties: half to even."""
    function, exact = EXACT[name]
    s_in, z_in, s_out, z_out, lo, hi = grid
    entries = numerics_lut.table(function, *grid)
    assert entries.shape == (256,)
    assert entries.dtype == torch.int8
    for index, entry in enumerate(entries.tolist()):
        real = exact((index - 128 - z_in) * Fraction(s_in))
        assert entry == min(hi, max(lo, round(real / Fraction(s_out)) + z_out))


def test_look_up_of_every_code_in_any_shape() -> None:
    entries = torch.arange(127, -129, -1).to(torch.int8)  # -1 - q
    codes = torch.arange(-128, 128).to(torch.int8).reshape(2, 8, 16).transpose(0, 2)
    assert torch.equal(numerics_lut.look_up(codes, entries), -1 - codes)


@pytest.mark.parametrize("zero_point", [-128, -3, 0, 127])
def test_nan_is_zero_and_infinities_are_the_ends(zero_point: int) -> None:
    values = torch.tensor([math.nan, math.inf, -math.inf, 1e300] * 64, dtype=torch.float64)
    entries = numerics_lut.table(lambda x: values, 1.0, 0, 0.5, zero_point, -100, 100)
    clipped = min(100, max(-100, zero_point))
    assert entries.tolist() == [clipped, 100, -100, 100] * 64


@pytest.mark.parametrize("bounds", [(-129, 127), (-128, 128), (3, 2)])
def test_bounds_outside_int8_are_an_error(bounds: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"table bounds.*supported"):
        numerics_lut.table(torch.sigmoid, 1.0, 0, 1.0, 0, *bounds)
