# SPDX-License-Identifier: BSD-3-Clause
"""Arithmetic with Python numbers: exact values, alpha, spellings, before and after lowering."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from tests.frontend.blocks import FLOAT, GRIDS, OPS, block, codes, error, fitting, real
from tests.frontend.both_graphs import both, converted, fused_names, result_of
from tests.frontend.exact import float32, rescale
from tests.frontend.graphs import Graph, Grid, fused, targets

torch.set_num_threads(1)

EVERY = torch.arange(-128, 128).to(torch.int8)
SUMS: dict[str, Callable[[Fraction, Fraction, Fraction], Fraction]] = {
    "add": lambda x, c, k: x + k * c,
    "sub": lambda x, c, k: x - k * c,
    "rsub": lambda x, c, k: c - k * x,
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("grid", [(0.25, -3), (0.125, 127), (0.5, -128)])
def test_sums_round_once(name: str, grid: tuple[float, int]) -> None:
    """Powers of two and short numbers: exact in float64, ties to even."""
    s_in, z_in = grid
    for number, alpha in ((1.5, 1.0), (-0.375, 2.0), (3, -0.5), (0, 1.0)):
        out = block(0.5, 11, out=True)
        got = getattr(OPS, name).Scalar(EVERY, *block(s_in, z_in), *out, number, alpha)
        for code, result in zip(EVERY.tolist(), got.tolist(), strict=True):
            x = (code - z_in) * Fraction(s_in)
            steps = SUMS[name](x, Fraction(number), Fraction(alpha)) / Fraction(out[0].item())
            assert result == min(127, max(-128, round(steps) + 11))


@pytest.mark.parametrize("number", [0.7, -0.7, 1, 0, -3.25, 1e-6])
@pytest.mark.parametrize("grid", GRIDS)
def test_a_product_folds_the_number_into_the_ratio(number: float, grid: tuple[float, int]) -> None:
    s_in, z_in = grid
    source, out = block(s_in, z_in), block(0.03, -5, out=True)
    ratio = float(source[0]) * abs(float32(number)) / float(out[0])
    got = OPS.mul.Scalar(EVERY, *source, *out, number).tolist()
    sign = -1 if number < 0 else 1
    assert got == [rescale(sign * (code - z_in), ratio, -5) for code in EVERY.tolist()]


@pytest.mark.parametrize("name", ["add", "sub", "rsub", "mul"])
def test_float_edges_and_other_granularities(name: str) -> None:
    op = getattr(OPS, name).Scalar
    further = (0.7,) if name == "mul" else (0.7, 2.0)
    aten = getattr(torch, name)
    x, source = codes(3, 4), block(0.05, -3)
    values = real(x, source).float()
    exact = aten(values, 0.7) if name == "mul" else aten(values, 0.7, alpha=2.0)
    out = fitting(exact, 9)
    torch.testing.assert_close(op(values, *FLOAT, *FLOAT, *further), exact)
    torch.testing.assert_close(op(x, *source, *FLOAT, *further), exact)
    assert error(op(values, *FLOAT, *out, *further), exact, out) <= 0.5 + 1e-4
    rows = block(torch.tensor([[0.05], [0.02], [0.01]]), -3)
    exact = aten(real(x, rows), 0.7) if name == "mul" else aten(real(x, rows), 0.7, alpha=2.0)
    assert error(op(x, *rows, *out, *further), exact, out) <= 0.5 + 1e-4


def test_numbers_that_are_not_finite_compute_in_float() -> None:
    got = OPS.add.Scalar(EVERY, *block(0.5), *block(0.5, out=True), math.inf)
    assert set(got.tolist()) == {127}


IN, OUT = Grid(0.05, -3), Grid(0.06, 7)
CODES = codes(2, 3, 4, seed=3)
SPELLINGS: dict[str, tuple[str, list[Callable[[Tensor], Tensor]]]] = {
    "mul": (
        "mul.Scalar",
        [
            lambda x: x * 0.3,
            lambda x: 0.3 * x,
            lambda x: x.mul_(0.3),
            lambda x: x * torch.full((), 0.3),
            lambda x: torch.tensor(0.3) * x,
            lambda x: torch.mul(x, other=0.3),
        ],
    ),
    "div": ("mul.Scalar", [lambda x: x / 3, lambda x: x.div_(3), lambda x: torch.div(x, 3.0)]),
    "add": (
        "add.Scalar",
        [
            lambda x: x + 3,
            lambda x: 3 + x,
            lambda x: x.add_(3.0),
            lambda x: x + torch.tensor(3),
            lambda x: torch.full((), 3.0) + x,
        ],
    ),
    "add-alpha": (
        "add.Scalar",
        [lambda x: torch.add(x, 0.3, alpha=2), lambda x: torch.add(x, torch.tensor(0.3), alpha=2)],
    ),
    "sub": ("sub.Scalar", [lambda x: x - 0.3, lambda x: x.sub_(0.3)]),
    "rsub": ("rsub.Scalar", [lambda x: 2 - x, lambda x: torch.tensor(2.0) - x]),
    "rsub-alpha": (
        "rsub.Scalar",
        [lambda x: torch.rsub(x, 2, alpha=3), lambda x: torch.sub(torch.tensor(2.0), x, alpha=3)],
    ),
    "square": (
        "mul.default",
        [lambda x: x**2, torch.square, lambda x: x * x, lambda x: x.pow_(2), lambda x: x.square_()],
    ),
    "power": ("pow.default", [lambda x: x**3, lambda x: torch.pow(x, 3)]),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_constant_every_spelling_is_one_operator(name: str) -> None:
    wanted, functions = SPELLINGS[name]
    results = []
    for index, function in enumerate(functions):
        module = Graph(lambda x, f=function: OUT.quantize(f(IN.dequantize(x))))
        reference = module(CODES)
        for gm in both(module, CODES) if index < 2 else (fused(module, CODES),):
            assert fused_names(gm) == [wanted]
            results.append(result_of(gm, (CODES,)))
            assert int((results[-1].int() - reference.int()).abs().max()) <= 1
    assert all(torch.equal(result, results[0]) for result in results)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: 2 / x,
        lambda x: torch.add(torch.tensor(3.0), x, alpha=2),
        lambda x: torch.div(x, 2.0, rounding_mode="floor"),
        lambda x: x / 0.0,
    ],
)
def test_attribute_dropped_other_arithmetic_stays(function: Callable[[Tensor], Tensor]) -> None:
    module = Graph(lambda x: OUT.quantize(function(IN.dequantize(x))))
    gm = fused(module, CODES)
    assert not [name for name in fused_names(gm) if "Scalar" in name]
    assert torch.equal(gm(CODES), module(CODES))


def test_the_default_quantizer_takes_numbers() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.relu(x * 0.5 + 3) / 4

    x = torch.linspace(-8, 8, 24).reshape(2, 3, 4)
    raw = converted(Graph(function), x)
    names = fused_names(both(raw, x)[1])
    assert names == ["mul.Scalar", "add.Scalar", "mul.Scalar"]


def test_dtype_integers_are_left_alone() -> None:
    module = Graph(lambda i, x: (i + 1, OUT.quantize(torch.sigmoid(IN.dequantize(x)))))
    gm = fused(module, torch.tensor([0]), CODES)
    assert targets(gm) == ["aten.add.Tensor", "fused_quant.sigmoid.default"]
