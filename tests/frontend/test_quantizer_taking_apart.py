# SPDX-License-Identifier: BSD-3-Clause
"""Attention, LSTM and GRU as the quantizer takes them apart: torch's own results, in steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.nn.functional import scaled_dot_product_attention

from fused_quant.quantizer.constants import keep_made_tensors
from fused_quant.quantizer.taking_apart import take_apart
from tests.e2e import routes
from tests.frontend.graphs import exported, targets

_BATCH, _LENGTH, _INPUTS, _HIDDEN = 3, 2, 4, 5
_WHOLE = ("aten.lstm.input", "aten.gru.input", "aten.scaled_dot_product_attention.default")
# layers, bidirectional, batch_first, bias: every two of the choices meet
_FORMS = (
    (1, False, False, True),
    (1, True, True, False),
    (2, False, True, True),
    (2, True, False, False),
    (3, False, True, False),
    (3, True, False, True),
)


class _Recurrent(nn.Module):
    """Several recurrent layers of one kind, each on its own; all results of each."""

    def __init__(self, kind: Any, forms: tuple[tuple[int, bool, bool, bool], ...]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            kind(
                _INPUTS,
                _HIDDEN,
                layers,
                bidirectional=both,
                batch_first=first,
                bias=bias,
                dropout=0.5 if layers > 1 else 0.0,
            )
            for layers, both, first, bias in forms
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        """From x [L, N, inputs], or [N, L, inputs] for layers that take the batch first."""
        results = []
        for layer in self.layers:
            output, states = layer(x.transpose(0, 1) if layer.batch_first else x)
            results += [output, *(states if isinstance(states, tuple) else (states,))]
        return results


class _WithStates(nn.Module):
    """An LSTM and a GRU that continue from states that are inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(_INPUTS, _HIDDEN, 2, bidirectional=True)
        self.gru = nn.GRU(_INPUTS, _HIDDEN, 2, bidirectional=True)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        """Outputs and last states of both."""
        output, (h_n, c_n) = self.lstm(x, (h, c))
        return output, h_n, c_n, *self.gru(x, h)


class _Attention(nn.Module):
    """Attention with and without a scale of its own, over several ranks and lengths."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """[N, heads, L, E] each; key and value of a length of their own, value of its own width."""
        return (
            scaled_dot_product_attention(query, key, value),
            scaled_dot_product_attention(query, key, value, scale=0.3),
            scaled_dot_product_attention(query[0], key[0], value[0]),
            scaled_dot_product_attention(query[:1, :, :1], key, value),
        )


def _apart(module: nn.Module, *inputs: Tensor) -> GraphModule:
    graph_module = exported(module, *inputs)
    assert any(name in _WHOLE for name in targets(graph_module))
    take_apart(graph_module)
    return graph_module


def _check(module: nn.Module, *inputs: Tensor) -> None:
    with torch.no_grad():
        expected = list(module.eval()(*inputs))
    apart = _apart(module, *inputs)
    assert not set(_WHOLE) & set(targets(apart))
    got = routes.eager(apart, inputs)
    assert len(got) == len(expected)
    for value, reference in zip(got, expected, strict=True):
        assert value.shape == reference.shape
        torch.testing.assert_close(value, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_contract_recurrent_steps_give_the_layers_results(kind: Any) -> None:
    """Outputs and last states of 1 to 3 layers, both directions, both layouts, with biases or not.

    Dropout between the layers does nothing outside of training.
    """
    torch.manual_seed(0)
    _check(_Recurrent(kind, _FORMS), torch.randn(_LENGTH, _BATCH, _INPUTS))


def test_contract_recurrent_steps_continue_from_given_states() -> None:
    torch.manual_seed(1)
    states = torch.randn(2, 4, _BATCH, _HIDDEN)
    _check(_WithStates(), torch.randn(_LENGTH, _BATCH, _INPUTS), states[0], states[1])


def test_contract_attention_as_products_and_a_softmax() -> None:
    torch.manual_seed(2)
    query, key = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 6, 8)
    _check(_Attention(), query, key, torch.randn(2, 3, 6, 5))


class _Grouped(nn.Module):
    """Attention whose queries have more heads than keys and values."""

    def forward(self, query: Tensor, key: Tensor) -> tuple[Tensor, ...]:
        """[N, heads, L, E] and [N, fewer heads, L, E]."""
        return (scaled_dot_product_attention(query, key, key, enable_gqa=True),)


def test_contract_attention_of_grouped_heads() -> None:
    torch.manual_seed(4)
    _check(_Grouped(), torch.randn(2, 6, 4, 8), torch.randn(2, 2, 5, 8))


class _Masked(nn.Module):
    """Attention with masks known ahead of time: causal, booleans, numbers, both in one."""

    visible: Tensor
    bias: Tensor

    def __init__(self) -> None:
        super().__init__()
        visible = torch.rand(2, 1, 4, 6) > 0.4
        visible[..., 0] = True
        self.register_buffer("visible", visible)
        self.register_buffer("bias", torch.randn(3, 4, 6))

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """The last mask is computed by the program, and filled in place."""
        computed = torch.zeros_like(self.bias)
        computed.masked_fill_(self.bias > 1, -torch.inf)
        return (
            scaled_dot_product_attention(query, key, value, is_causal=True),
            scaled_dot_product_attention(query, key, value, self.visible),
            scaled_dot_product_attention(query, key, value, self.bias),
            scaled_dot_product_attention(query, key, value, computed + 1, scale=0.5),
            scaled_dot_product_attention(query, key, value, computed),
        )


def test_contract_attention_with_a_mask_known_ahead_of_time() -> None:
    torch.manual_seed(6)
    query, key = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 6, 8)
    _check(_Masked(), query, key, torch.randn(2, 3, 6, 5))


class _MaskedByInput(nn.Module):
    """Attention whose scores are unbounded below, by numbers that are not known."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """[1, heads, L, E], [L, L]."""
        return scaled_dot_product_attention(x, x, x, mask)


def test_contract_attention_masked_by_numbers_and_projected_states_stay_whole() -> None:
    mask = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1) > 0, -torch.inf)
    apart = _apart(_MaskedByInput(), torch.randn(1, 2, 4, 8), mask)
    assert "aten.scaled_dot_product_attention.default" in targets(apart)
    projected = nn.LSTM(_INPUTS, _HIDDEN, proj_size=2)
    assert "aten.lstm.input" in targets(_apart(projected, torch.randn(3, 2, _INPUTS)))


def test_contract_recurrence_that_trains_its_dropout_stays_whole() -> None:
    module = nn.GRU(_INPUTS, _HIDDEN, 2, dropout=0.5).train()
    graph_module = torch.export.export(module, (torch.randn(3, 2, _INPUTS),)).module()
    take_apart(graph_module)
    assert "aten.gru.input" in targets(graph_module)


class _Made(nn.Module):
    """Tensors out of nothing, one of them written to afterwards."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Sums of x with filled tensors."""
        written = torch.zeros(2, 3)
        written[0] = x[1]
        return x + torch.full((2, 3), 0.5), x * torch.ones(3), x + written


def test_contract_made_tensors_become_constants_unless_they_are_written_to() -> None:
    x = torch.randn(2, 3)
    graph_module = exported(_Made(), x)
    keep_made_tensors(graph_module)
    made = [name for name in targets(graph_module) if name.startswith(("aten.full", "aten.ones"))]
    assert made == []
    assert "aten.zeros.default" in targets(graph_module)
    routes.assert_same_bits(routes.eager(graph_module, (x,)), list(_Made()(x)))
