# SPDX-License-Identifier: BSD-3-Clause
"""Normalizations, reductions and pools of every rank: one delegate call, the bits of eager mode."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fused_quant import default_quantizer
from tests.e2e import routes

torch.set_num_threads(1)


class _Rows(nn.Module):
    """Sequences: 1-d pools, rms and instance norm, which decomposition takes apart."""

    def __init__(self, adaptive: bool) -> None:
        super().__init__()
        self.rms, self.instance = nn.RMSNorm(16), nn.InstanceNorm1d(6, affine=True)
        self.plain = nn.RMSNorm(16, eps=1e-3, elementwise_affine=False)
        self.largest = nn.MaxPool1d(3, 2, 1, ceil_mode=True)
        self.average = nn.AvgPool1d(3, 2, 1, count_include_pad=False)
        self.adaptive = nn.AdaptiveAvgPool1d(3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.instance(self.rms(x))
        y = self.adaptive(self.average(self.largest(y)))
        logits = functional.log_softmax(y.sum(2), 1)
        return (
            y.amax((0, 2)),
            logits,
            logits.argmax(),
            functional.adaptive_avg_pool1d(x, 1),
            (self.plain(x)),
        )


class _Images(nn.Module):
    """Images stored channels last: norms over groups and over all, softmax over channels."""

    def __init__(self, adaptive: bool) -> None:
        super().__init__()
        self.conv, self.group = nn.Conv2d(4, 6, 3), nn.GroupNorm(2, 6)
        self.layer, self.instance = nn.LayerNorm([6, 6, 6]), nn.InstanceNorm2d(6)
        self.pool = nn.AdaptiveMaxPool2d((3, 2)) if adaptive else nn.MaxPool2d((2, 3))
        self.linear = nn.Linear(36, 10)
        for norm in (self.group, self.layer):
            nn.init.normal_(norm.weight, 1, 0.3)
            nn.init.normal_(norm.bias, 0, 0.3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.instance(self.layer(self.group(self.conv(x))))
        y = self.linear(self.pool(functional.softmax(y, 1)).flatten(1))
        winners = y.argmax(-1, keepdim=True)
        return winners, winners, y.max(1)[0], y.min(), functional.softmax(y, -1)


class _NoBatch(nn.Module):
    """[C, H, W] through 2-d pools."""

    def __init__(self, adaptive: bool) -> None:
        super().__init__()
        self.whole = nn.AdaptiveMaxPool2d(1) if adaptive else nn.MaxPool2d(16)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = functional.max_pool2d(x, 3, 2, 1, dilation=2)
        y = functional.avg_pool2d(y, 2, divisor_override=3)
        y = functional.adaptive_avg_pool2d(y, (2, 2))
        return y.min(2)[0], x.mean(), x.max(), self.whole(x)


class _Masked(nn.Module):
    """Attention of a decoder: masks from sdpa, from a layer, and as programs spell them."""

    tril: Tensor
    visible: Tensor

    def __init__(self, adaptive: bool) -> None:
        super().__init__()
        self.register_buffer("tril", torch.tril(torch.ones(8, 8)).view(1, 1, 8, 8))
        self.register_buffer("visible", torch.rand(2, 1, 5, 5) < 0.7)
        self.layer = nn.MultiheadAttention(8, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """x: [2, 3, 5, 8]."""
        scores = x @ x.transpose(-1, -2)
        filled = scores.masked_fill(self.tril[:, :, :5, :5] == 0, float("-inf"))
        chosen = torch.where(self.tril[0, 0, :5, :5] > 0, scores * 0.3, -torch.inf)
        causal = functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        mask = nn.Transformer.generate_square_subsequent_mask(5)
        tokens = causal[0, 0]
        return (
            functional.softmax(filled, -1) @ x,
            functional.softmax(chosen, 2),
            functional.scaled_dot_product_attention(x, x, causal, self.visible),
            self.layer(tokens, tokens, tokens, need_weights=False, attn_mask=mask)[0],
        )


CASES = {
    "masked": (_Masked, (2, 3, 5, 8)),
    "rows": (_Rows, (2, 6, 16)),
    "images": (_Images, (2, 4, 8, 8)),
    "no_batch": (_NoBatch, (5, 16, 16)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("fused_first", [False, True])
def test_one_delegate_call_with_the_bits_of_eager_mode(name: str, fused_first: bool) -> None:
    make, shape = CASES[name]
    torch.manual_seed(0)
    # to_edge takes no adaptive_max_pool2d: it is no core operator, and must be fused before.
    module, x = make(fused_first).eval(), torch.randn(shape)
    converted = routes.quantize_dequantize(module, [(x,)], default_quantizer())
    fused = routes.fused_copy(converted)
    edge = routes.lowered(fused if fused_first else converted, (x,), routes.TRANSFORM)
    assert routes.is_one_delegate_call(edge), routes.operators(edge)
    expected = routes.eager(fused, (x,))
    for got, wanted in zip(routes.run(edge, (x,)), expected, strict=True):
        assert torch.equal(got, wanted)
    for got, wanted in zip(expected, routes.eager(copy.deepcopy(module), (x,)), strict=True):
        assert got.dtype == wanted.dtype
        assert got.shape == wanted.shape
        if wanted.is_floating_point():
            span = float(wanted.max() - wanted.min()) if wanted.numel() > 1 else 8.0
            assert float((got - wanted).abs().max()) <= 0.12 * span
