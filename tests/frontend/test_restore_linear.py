# SPDX-License-Identifier: BSD-3-Clause
"""linear on rows that are not next to each other, which decomposition makes a batch of products."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule

import fused_quant
from tests.frontend.graphs import Graph, Grid, Weights, exported, targets

torch.set_num_threads(1)

IN, OUT = Grid(0.05, -3), Grid(0.11, 7)
_linear = torch.nn.functional.linear
_DIMS: dict[str, tuple[tuple[int, ...], tuple[int, int]]] = {
    "rank3-batch": ((3, 5, 6), (0, 1)),
    "rank3-rows": ((3, 6, 5), (1, 2)),
    "rank3-batch-of-one": ((1, 6, 5), (1, 2)),
    "rank4": ((2, 6, 5, 3), (1, 3)),
}


class _Bias(torch.nn.Module):
    """A bias of four outputs that stays float in the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.tensor([0.5, -1.25, 3.0, 0.0]))

    def forward(self) -> Tensor:
        return self.bias


def _weights(axis: int = 0, seed: int = 0) -> Weights:
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(-127, 128, (4, 6), generator=generator)
    return Weights(codes, [0.01, 0.02, 0.013, 0.005], axis)


def _codes(shape: tuple[int, ...]) -> Tensor:
    return torch.randint(-128, 128, shape, generator=torch.Generator().manual_seed(1)).to(
        torch.int8
    )


def _decomposed(module: Graph, x: Tensor) -> GraphModule:
    """Fused after decomposition into core ATen operators."""
    program = torch.export.export(module.eval(), (x,)).run_decompositions()
    assert "aten.bmm.default" in targets(program.graph_module)
    return fused_quant.fuse(program.module())


def _operators(gm: GraphModule) -> list[str]:
    return [name for name in targets(gm) if name.startswith("fused_quant.")]


@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("name", _DIMS)
def test_pattern_a_linear_of_transposed_rows_is_one_operator(name: str, biased: bool) -> None:
    shape, dims = _DIMS[name]

    def function(weight: Weights, bias: _Bias, codes: Tensor) -> Tensor:
        x = IN.dequantize(codes).transpose(*dims)
        return OUT.quantize(_linear(x, weight(), bias() if biased else None))

    x = _codes(shape)
    module = Graph(function, weight=_weights(), bias=_Bias())
    gm = _decomposed(module, x)
    assert _operators(gm) == ["fused_quant.linear.default"]
    whole = fused_quant.fuse(exported(module, x))
    assert torch.equal(gm(x), whole(x))
    assert int((gm(x).int() - module(x).int()).abs().max()) <= 1


def test_pattern_an_input_and_a_weight_of_several_linears() -> None:
    def function(weight: Weights, other: Weights, bias: _Bias, codes: Tensor) -> tuple[Tensor, ...]:
        x = IN.dequantize(codes).transpose(1, 2)
        w = weight()
        first, second = _linear(x, w, bias()).relu(), _linear(x, other())
        return OUT.quantize(first), OUT.quantize(second), OUT.quantize(_linear(x * 2, w))

    x = _codes((2, 6, 3))
    module = Graph(function, weight=_weights(), other=_weights(seed=5), bias=_Bias())
    gm = _decomposed(module, x)
    assert _operators(gm)[:2] == ["fused_quant.linear.default"] * 2
    for got, expected in zip(gm(x), module(x), strict=True):
        assert int((got.int() - expected.int()).abs().max()) <= 1


def _scaled(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return torch.add(x @ w.t(), bias, alpha=2)


def _per_row(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return x @ w.t() + bias.reshape(4, 1)


def _read_twice(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    product = x @ w.t()
    return product + bias + product.abs()


@pytest.mark.parametrize("function", [_scaled, _per_row, _read_twice])
def test_pattern_what_is_added_otherwise_is_no_bias(
    function: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> None:
    def whole(weight: Weights, bias: _Bias, codes: Tensor) -> Tensor:
        x = IN.dequantize(codes).transpose(1, 2)
        return OUT.quantize(function(x, weight(), bias()))

    x = _codes((2, 6, 4))
    module = Graph(whole, weight=_weights(), bias=_Bias())
    gm = _decomposed(module, x)
    assert "aten.add.Tensor" in targets(gm)
    (node,) = [n for n in gm.graph.nodes if str(n.target) == "fused_quant.linear.default"]
    assert node.args[2] is None
    assert int((gm(x).int() - module(x).int()).abs().max()) <= 1
