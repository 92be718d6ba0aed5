# SPDX-License-Identifier: BSD-3-Clause
"""native_layer_norm and rms_norm: shapes, affine parameters, float edges, spellings."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import fused_quant
from fused_quant import dialect
from fused_quant.ops import registry
from tests.frontend.blocks import FLOAT, GRIDS, OPS, block, codes, error, fitting, real
from tests.frontend.both_graphs import both, converted, fused_names, result_of
from tests.frontend.graphs import Graph, Grid, targets

torch.set_num_threads(1)


def _affine(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) + 0.5


@pytest.mark.parametrize("shape", [[5], [4, 5], [3, 4, 5], [1]])
@pytest.mark.parametrize("affine", ["both", "weight", "bias", "none"])
@pytest.mark.parametrize("grid", GRIDS)
def test_within_a_code(shape: list[int], affine: str, grid: tuple[float, int]) -> None:
    x, source = codes(2, 3, 4, 5, seed=1)[..., : shape[-1]].contiguous(), block(*grid)
    weight = _affine(*shape) if affine in ("both", "weight") else None
    bias = _affine(*shape, seed=1) if affine in ("both", "bias") else None
    w, b = (None if p is None else p.double() for p in (weight, bias))
    exact = functional.layer_norm(real(x, source), shape, w, b, 1e-5)
    out = fitting(exact, 9)
    got, mean, rstd = OPS.native_layer_norm(x, *source, *out, shape, weight, bias, 1e-5)
    assert error(got, exact, out) <= 1
    values = real(x, source).float()
    expected = torch.ops.aten.native_layer_norm.default(values, shape, weight, bias, 1e-5)
    torch.testing.assert_close(mean, expected[1])
    torch.testing.assert_close(rstd, expected[2])


def test_batch_items_are_independent() -> None:
    x, weight = codes(3, 4, 6, seed=2), _affine(6)
    arguments = (*block(0.04, 5), *block(0.03, 7, out=True), [6], weight, None, 1e-5)
    whole = OPS.native_layer_norm(x, *arguments)[0]
    for n in range(3):
        assert torch.equal(whole[n : n + 1], OPS.native_layer_norm(x[n : n + 1], *arguments)[0])


def _covers(weight: Any, bias: Any, count: int = 4) -> Any:
    spec = registry.find("native_layer_norm")
    bound = {
        "inp": codes(2, count),
        **{f"inp_{k}": v for k, v in zip(_FIELDS, block(0.05), strict=True)},
        **{f"out_{k}": v for k, v in zip(_FIELDS, block(0.05, out=True), strict=True)},
        "normalized_shape": [count],
        "weight": weight,
        "bias": bias,
        "eps": 1e-5,
    }
    assert spec.fusion is not None
    return spec.fusion.covers(dialect.eager_site(spec, bound, ()))


_FIELDS = ("scale", "zero_point", "dtype", "quant_min", "quant_max")


def test_what_the_integer_contract_refuses() -> None:
    assert _covers(_affine(4), _affine(4)) is None
    assert _covers(_affine(4), torch.full((4,), 1e4)).code == "range"
    assert _covers(torch.tensor([1.0, float("nan"), 1, 1]), None).code == "constant"
    assert _covers("a node of the graph", None).code == "constant"
    assert _covers(None, None, 5000).code == "size"


def test_a_bias_far_above_the_weight_computes_in_float() -> None:
    x, out = codes(2, 4), block(100.0, out=True)
    bias = torch.full((4,), 1e4)
    got = OPS.native_layer_norm(x, *block(0.05), *out, [4], _affine(4), bias, 1e-5)[0]
    assert set(got.flatten().tolist()) == {100}


@pytest.mark.parametrize("name", ["native_layer_norm", "rms_norm"])
def test_float_edges_and_other_granularities(name: str) -> None:
    weight = _affine(4)
    further: tuple[Any, ...] = ([4], weight, 1e-5)
    if name == "native_layer_norm":
        further = ([4], weight, None, 1e-5)

    def run(*arguments: Any) -> Tensor:
        result = getattr(OPS, name)(*arguments)
        return result[0] if isinstance(result, tuple) else result

    def exact_of(values: Tensor) -> Tensor:
        w = weight.to(values.dtype)
        if name == "rms_norm":
            return functional.rms_norm(values, [4], w, 1e-5)
        return functional.layer_norm(values, [4], w, None, 1e-5)

    x, source = codes(3, 4), block(0.05, -3)
    values = real(x, source).float()
    exact = exact_of(values)
    out = fitting(exact, 5)
    torch.testing.assert_close(run(values, *FLOAT, *FLOAT, *further), exact)
    torch.testing.assert_close(run(x, *source, *FLOAT, *further), exact)
    assert error(run(values, *FLOAT, *out, *further), exact, out) <= 0.5 + 1e-3
    rows = block(torch.tensor([[0.05], [0.02], [0.01]]), -3)
    exact = exact_of(real(x, rows))
    assert error(run(x, *rows, *out, *further), exact, out) <= 0.5 + 1e-3


def test_rms_norm_has_no_integer_formula_and_stays_within_a_code() -> None:
    x, source, weight = codes(3, 4, 6), block(0.05, -3), _affine(6)
    exact = functional.rms_norm(real(x, source), [6], weight.double(), 1e-5)
    out = fitting(exact, 5)
    assert error(OPS.rms_norm(x, *source, *out, [6], weight, 1e-5), exact, out) <= 1


SOURCE, OUT = Grid(0.05, -3), Grid(0.03, 7)


@pytest.mark.parametrize(
    "module", [nn.LayerNorm(4), nn.LayerNorm((3, 4), bias=False), nn.LayerNorm(4, 1e-3, False)]
)
def test_spellings(module: nn.Module) -> None:
    """layer_norm, and native_layer_norm with its first result only."""
    x = codes(2, 3, 4)
    graph = Graph(lambda m, q: OUT.quantize(m(SOURCE.dequantize(q))), m=module)
    results = []
    for gm in both(graph, x):
        assert fused_names(gm) == ["native_layer_norm.default"]
        results.append(result_of(gm, (x,)))
        assert int((results[-1].int() - graph(x).int()).abs().max()) <= 1
    assert torch.equal(*results)


def test_a_used_mean_stays_float() -> None:
    def function(q: Tensor) -> tuple[Tensor, Tensor]:
        values, mean, _ = torch.native_layer_norm(SOURCE.dequantize(q), [4], None, None, 1e-5)
        return OUT.quantize(values), mean

    gm = both(Graph(function), codes(2, 3, 4))[0]
    assert not fused_names(gm)


@pytest.mark.parametrize("module", [nn.LayerNorm(4), nn.RMSNorm(4)])
def test_the_default_quantizer_takes_it(module: nn.Module) -> None:
    x = torch.linspace(-2, 5, 24).reshape(2, 3, 4)
    raw = converted(module, x)
    reference = raw(x)
    gm = fused_quant.fuse(raw)
    assert len(fused_names(gm)) == 1
    assert not [name for name in targets(gm) if "norm" in name and "fused_quant" not in name]
    assert float((gm(x) - reference).abs().max()) <= float(reference.abs().max()) / 50


def test_rms_norm_without_eps_is_that_of_the_type() -> None:
    module = Graph(lambda m, q: OUT.quantize(m(SOURCE.dequantize(q))), m=nn.RMSNorm(4))
    gm = both(module, codes(2, 3, 4))[0]
    node = next(n for n in gm.graph.nodes if "rms_norm" in str(n.target))
    assert node.args[-1] == torch.finfo(torch.float32).eps
