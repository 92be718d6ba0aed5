# SPDX-License-Identifier: BSD-3-Clause
"""Operators that move data, and bilinear upsampling: whole in the delegate, right to the bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import fused_quant
from fused_quant import dialect
from fused_quant.ops import registry
from fused_quant.ops.source_map import source_map, strided
from fused_quant.qparams import QParams
from tests.e2e import routes

IMAGE = torch.linspace(-2, 2, 96).reshape(1, 4, 4, 6)


class _Between(nn.Module):
    """A convolution, then the function, then a product: quantized on all sides."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.function = nn.Conv2d(4, 4, 1), function

    def forward(self, x: Tensor) -> Tensor:
        y = self.function(self.conv(x))
        return y * y


def _cuts(x: Tensor) -> Tensor:
    left, right = x.chunk(2, 1)
    a, b, *_ = (left * right).unbind(2)
    joined = torch.stack([a, b], 1).flip(1, 2)[..., ::2]
    return torch.cat([joined, joined.roll(1, 2)], -1).repeat(1, 2, 1, 1)


def _images(x: Tensor) -> Tensor:
    x = functional.pad(functional.pad(x, (1, 2, 1, 1), "reflect"), (1, 0, 0, 1), "replicate")
    x = functional.pixel_unshuffle(functional.pixel_shuffle(x[:, [3, 1, 2, 0]], 2), 2)
    x = functional.interpolate(functional.pad(x, (1, -1), value=0.5), scale_factor=2)
    return functional.interpolate(x, size=(9, 7), mode="bilinear")


@pytest.mark.parametrize("function", [_cuts, _images])
@pytest.mark.parametrize("route", routes.ROUTES)
def test_pattern_movements_stay_in_one_delegate(
    function: Callable[[Tensor], Tensor], route: str
) -> None:
    torch.manual_seed(0)
    module = _Between(function).eval()
    raw = routes.quantize_dequantize(module, [(IMAGE,)], fused_quant.default_quantizer())
    fused = routes.fused_copy(raw)
    edge = routes.lowered(raw if route == routes.TO_EDGE else fused, (IMAGE,), route)
    assert routes.is_one_delegate_call(edge)
    got = routes.run(edge, (IMAGE,))
    routes.assert_same_bits(got, routes.eager(fused, (IMAGE,)))
    exact = module(IMAGE).detach()
    assert float((got[0] - exact).abs().max()) <= float(exact.abs().max()) / 10


def test_embedding_indices_are_an_input_of_the_delegate() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 3)).eval()
    indices = torch.tensor([[0, 9, 3], [1, 1, 7]])
    raw = routes.quantize_dequantize(module, [(indices,)], fused_quant.default_quantizer())
    edge = routes.lowered(raw, (indices,), routes.TO_EDGE)
    assert routes.is_one_delegate_call(edge)
    eager = routes.eager(routes.fused_copy(raw), (indices,))
    routes.assert_same_bits(routes.run(edge, (indices,)), eager)
    outside = routes.run(edge, (torch.tensor([[-1, 10, 2**40], [0, 9, 9]]),))[0]
    assert torch.equal(outside[0], routes.run(edge, (torch.tensor([[0, 9, 9], [0, 9, 9]]),))[0][0])


@pytest.mark.parametrize("align", [False, True])
def test_bilinear_is_within_its_bound_of_float64(align: bool) -> None:
    """Half a code for the rounding, an eighth of an input code for the weights."""
    registry.load()
    rng = np.random.default_rng(3)
    for size, out in (((3, 4), (7, 5)), ((5, 2), (4, 9)), ((6, 7), (12, 21))):
        x = torch.from_numpy(rng.integers(-128, 128, (2, 3, *size), dtype=np.int8))
        before = QParams.per_tensor(0.5, 3, torch.float32, -128, 127)
        after = QParams.per_tensor(0.75, -9, torch.int8, -128, 127)
        blocks = [
            value
            for b in (before, after)
            for value in (b.scale, b.zero_point, b.dtype, b.quant_min, b.quant_max)
        ]
        operator = dialect.define(registry.find("upsample_bilinear2d"))
        got = operator(x, *blocks, list(out), align, None, None)
        real = (x.double() - 3) * 0.5
        exact = functional.interpolate(real, size=out, mode="bilinear", align_corners=align)
        codes = (exact / 0.75 - 9).clamp(-128, 127)
        assert float((got.double() - codes).abs().max()) <= 0.5 + 0.125 * 0.5 / 0.75


def test_strided_finds_a_loop_nest_or_none() -> None:
    def visit(move: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> object:
        order = tuple(range(len(shape)))
        after = tuple(range(move(torch.zeros(shape)).dim()))
        return strided(source_map(move, shape, order, after), 6)

    assert visit(lambda x: x[1:, :4:2], (3, 6)) == (6, [2, 2], [6, 2])
    assert visit(lambda x: x.flip(0), (5,)) == (4, [5], [-1])
    assert visit(lambda x: x.repeat(2, 2), (2, 3)) == (0, [2, 2, 2, 3], [0, 3, 0, 1])
    assert visit(lambda x: x.roll(1, 0), (5,)) is None
