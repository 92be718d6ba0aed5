# SPDX-License-Identifier: BSD-3-Clause
"""Attention whose mask is an input of the program, and cross attention: whole in the delegate."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e

from fused_quant import default_quantizer
from fused_quant.quantizer import default_config
from tests.e2e import routes

_DIM, _LENGTH = 16, 7


class _Scores(nn.Module):
    """Attention of two heads of [2, 7, 16] by a mask [2, 7], True where a key counts."""

    def __init__(self, attend: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.project = nn.Linear(_DIM, _DIM)
        self.attend = attend

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The heads are their own queries, keys and values."""
        heads = self.project(x).view(2, _LENGTH, 2, 8).transpose(1, 2)
        return self.attend(heads, mask[:, None, None, :])


class _Layer(nn.Module):
    """torch's own layers, which have True where a key does not count."""

    def __init__(self, weights: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(_DIM, 2, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(_DIM, 2, 24, batch_first=True)
        self.weights = weights

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Cross attention of x with what an encoder makes of it."""
        memory = self.encoder(x, src_key_padding_mask=mask)
        found: Tensor = self.attention(
            x, memory, x, key_padding_mask=mask, need_weights=self.weights
        )[0]
        return found


def _filled(x: Tensor, mask: Tensor) -> Tensor:
    scores = (x @ x.transpose(-1, -2)).masked_fill(mask == 0, -1e9)
    return torch.softmax(scores, -1) @ x


def _added(x: Tensor, mask: Tensor) -> Tensor:
    added = (1.0 - mask.to(torch.float32)) * torch.finfo(torch.float32).min
    return torch.softmax(x @ x.transpose(-1, -2) + added, -1) @ x


def _attended(x: Tensor, mask: Tensor) -> Tensor:
    return scaled_dot_product_attention(x, x, x, mask)


CASES: dict[str, Callable[[], nn.Module]] = {
    "booleans": lambda: _Scores(_attended),
    "filled": lambda: _Scores(_filled),
    "added": lambda: _Scores(_added),
    "layers": lambda: _Layer(False),
    "layers with weights": lambda: _Layer(True),
}
# What may be left to compute on truth values: turning them over, and their shape.
_ON_MASKS = ("not", "eq", "view", "expand", "unsqueeze", "clone", "slice", "executorch_call")


def _inputs(seed: int, layers: bool) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(2, _LENGTH, generator=generator) > 0.4
    mask[:, 0] = True
    x = torch.randn(2, _LENGTH, _DIM, generator=generator)
    return x, ~mask if layers else mask


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("fused_first", [False, True])
def test_a_mask_that_is_an_input_is_read_by_the_delegate(name: str, fused_first: bool) -> None:
    torch.manual_seed(0)
    module, layers = CASES[name]().eval(), name.startswith("layers")
    calibration = [_inputs(seed, layers) for seed in range(8)]
    converted = routes.quantize_dequantize(module, calibration, default_quantizer())
    fused = routes.fused_copy(converted)
    edge = routes.lowered(fused if fused_first else converted, calibration[0], routes.TRANSFORM)
    called = routes.operators(edge)
    assert called.count("executorch_call_delegate") == 1
    assert [c for c in called if not any(part in c for part in _ON_MASKS)] == []
    program = routes.load(bytes(edge.to_executorch().buffer))
    for seed in (100, 101):
        inputs = _inputs(seed, layers)
        expected = routes.eager(fused, inputs)
        routes.assert_same_bits(routes.execute(program, inputs), expected)
        (wanted,) = routes.eager(module, inputs)
        noise = float((expected[0] - wanted).square().mean())
        assert noise <= 0.01 * float(wanted.square().mean())  # 20 dB


def test_what_is_masked_has_no_influence() -> None:
    torch.manual_seed(0)
    module = CASES["booleans"]().eval()
    calibration = [_inputs(seed, False) for seed in range(8)]
    fused = routes.fused_copy(routes.quantize_dequantize(module, calibration, default_quantizer()))
    x, mask = _inputs(100, False)
    mask[:, -1] = False
    other = x.clone()
    other[:, -1] = 0.3
    first, second = (routes.eager(fused, (value, mask))[0] for value in (x, other))
    assert torch.equal(first[:, :, :-1], second[:, :, :-1])
    assert not torch.equal(first[:, :, -1], second[:, :, -1])  # it is a query all the same


class _Cross(nn.Module):
    """Attention whose queries, keys and values are three tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(_DIM, 2, batch_first=True)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """[2, L, 16] and [2, M, 16]."""
        found: Tensor = self.attention(x, y, y.flip(1), need_weights=False)[0]
        return found


def test_cross_attention_is_one_delegate_call() -> None:
    """nn.MultiheadAttention cuts the weights of its projections out of one parameter."""
    torch.manual_seed(0)
    calibration = [(torch.randn(2, 5, _DIM), torch.randn(2, 6, _DIM)) for _ in range(4)]
    converted = routes.quantize_dequantize(_Cross().eval(), calibration, default_quantizer())
    edge = routes.lowered(converted, calibration[0], routes.TRANSFORM)
    assert routes.is_one_delegate_call(edge), routes.operators(edge)
    expected = routes.eager(routes.fused_copy(converted), calibration[1])
    routes.assert_same_bits(routes.run(edge, calibration[1]), expected)


def test_pieces_of_a_parameter_are_trained() -> None:
    x, y = torch.randn(2, 5, _DIM), torch.randn(2, 6, _DIM)
    graph = torch.export.export(_Cross(), (x, y)).module()
    prepared = prepare_qat_pt2e(graph, default_quantizer(default_config(qat=True)))
    prepared(x, y).square().sum().backward()
    trained = [n for n, p in prepared.named_parameters() if p.grad is not None and p.grad.any()]
    assert sum(name.startswith("_cut") for name in trained) >= 5  # 3 weights, 2 of 3 biases
