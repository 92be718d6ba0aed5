# SPDX-License-Identifier: BSD-3-Clause
"""softmax: any axis, any output grid, float edges, spellings."""

from __future__ import annotations

import pytest
import torch

import fused_quant
from tests.frontend.blocks import FLOAT, GRIDS, OPS, block, codes, error, real
from tests.frontend.both_graphs import both, converted, fused_names, result_of
from tests.frontend.graphs import Graph, Grid

torch.set_num_threads(1)

UNIT = block(1 / 256, -128, out=True)


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
@pytest.mark.parametrize("grid", GRIDS)
def test_attribute_dropped_any_axis_any_zero_point(dim: int, grid: tuple[float, int]) -> None:
    x, source = codes(2, 3, 4, seed=dim + 9), block(*grid)
    exact = torch.softmax(real(x, source), dim)
    assert error(OPS.softmax(x, *source, *UNIT, dim), exact, UNIT) <= 1


@pytest.mark.parametrize("zero_point", [-128, 0, 127])
def test_other_output_grids(zero_point: int) -> None:
    """A grid no finer than 1/256: the contract, requantized. Finer: float."""
    x, source = codes(40, 7, seed=1), block(0.04, 77)
    exact = torch.softmax(real(x, source), -1)
    for scale in (1 / 128, 0.01, 0.5, 1 / 1024):
        out = block(scale, zero_point, out=True)
        assert error(OPS.softmax(x, *source, *out, -1), exact, out) <= 1


def test_clamp_bounds() -> None:
    x = codes(9, 5, seed=2)
    free = OPS.softmax(x, *block(0.04), *UNIT, -1)
    bounded = OPS.softmax(x, *block(0.04), *UNIT[:3], -100, 20, -1)
    assert torch.equal(bounded, free.clamp(-100, 20))


def test_batch_items_are_independent() -> None:
    x = codes(3, 4, 6, seed=4)
    whole = OPS.softmax(x, *block(0.04, 5), *UNIT, 1)
    for n in range(3):
        assert torch.equal(whole[n : n + 1], OPS.softmax(x[n : n + 1], *block(0.04, 5), *UNIT, 1))


def test_float_edges_and_other_granularities() -> None:
    x, source = codes(3, 4), block(0.05, -3)
    values = real(x, source).float()
    exact = torch.softmax(values, 0)
    torch.testing.assert_close(OPS.softmax(values, *FLOAT, *FLOAT, 0), exact)
    torch.testing.assert_close(OPS.softmax(x, *source, *FLOAT, 0), exact)
    assert error(OPS.softmax(values, *FLOAT, *UNIT, 0), exact, UNIT) <= 0.5 + 1e-3
    rows = block(torch.tensor([[0.05], [0.02], [0.01]]), -3)
    exact = torch.softmax(real(x, rows), 0)
    assert error(OPS.softmax(x, *rows, *UNIT, 0), exact, UNIT) <= 0.5 + 1e-3


def test_spellings() -> None:
    source, out = Grid(0.05, -3), Grid(1 / 256, -128)
    x = codes(2, 3, 4)
    for dim in (1, -1):
        module = Graph(lambda q, d=dim: out.quantize(torch.softmax(source.dequantize(q), d)))
        results = []
        for gm in both(module, x):
            assert fused_names(gm) == ["softmax.default"]
            results.append(result_of(gm, (x,)))
        assert torch.equal(*results)


def test_attribute_dropped_another_dtype_stays() -> None:
    source, out = Grid(0.05, -3), Grid(1 / 256, -128)
    module = Graph(
        lambda q: out.quantize(torch.softmax(source.dequantize(q), -1, dtype=torch.float64).float())
    )
    assert not fused_names(both(module, codes(2, 4))[0])


@pytest.mark.parametrize(
    ("name", "scale", "zero_point"),
    [("softmax", 1 / 256, -128), ("sigmoid", 1 / 256, -128), ("tanh", 1 / 128, 0)],
)
def test_the_default_quantizer_fixes_the_output(name: str, scale: float, zero_point: int) -> None:
    """Whatever the data, parameters follow from the range."""
    x = torch.linspace(-0.5, 0.3, 24).reshape(2, 3, 4)
    function = {"softmax": lambda y: torch.softmax(y, -1)}.get(name, getattr(torch, name))
    raw = converted(Graph(lambda y: torch.relu(y) + function(torch.relu(y))), x)
    gm = fused_quant.fuse(raw)
    node = next(n for n in gm.graph.nodes if f"fused_quant.{name}." in str(n.target))
    out = fused_quant.dialect.blocks_of(gm, node)["out"]
    assert out is not None
    assert (out.scale_value, out.zero_point_value) == (scale, zero_point)
