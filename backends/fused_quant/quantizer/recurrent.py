# SPDX-License-Identifier: BSD-3-Clause
"""LSTM and GRU as their steps over time, of every layer and direction.

The inputs' part of all gates is one product over the whole sequence; a step adds the state's part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.nn.functional import linear

from fused_quant import graph

Function = Callable[..., tuple[Tensor, ...]]
# (inputs' part of the gates of every step [L, N, gates], first states, w_hh, b_hh) ->
# (outputs, last states)
_Layer = Callable[..., tuple[list[Tensor], tuple[Tensor, ...]]]


def _lstm_layer(
    gates: Sequence[Tensor], states: Sequence[Tensor], weight: Tensor, bias: Tensor | None
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """C = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c)."""
    h, c = states
    outputs = []
    for inputs in gates:
        i, f, g, o = (inputs + linear(h, weight, bias)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return outputs, (h, c)


def _gru_layer(
    gates: Sequence[Tensor], states: Sequence[Tensor], weight: Tensor, bias: Tensor | None
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """N = tanh(n_x + sigmoid(r) n_h), h = n + sigmoid(z) (h - n)."""
    (h,) = states
    outputs = []
    for inputs in gates:
        r_x, z_x, n_x = inputs.chunk(3, -1)
        r_h, z_h, n_h = linear(h, weight, bias).chunk(3, -1)
        n = torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h)
        h = n + torch.sigmoid(z_x + z_h) * (h - n)
        outputs.append(h)
    return outputs, (h,)


def _network(
    bound: dict[str, Any], layer: _Layer, states: list[Node]
) -> tuple[list[Node], Function] | None:
    """All layers and directions; None while dropout trains, and for projected states."""
    directions = 2 if bound["bidirectional"] else 1
    count = bound["num_layers"] * directions
    each = 4 if bound["has_biases"] else 2
    parameters: list[Node] = list(bound["params"])
    if len(parameters) != count * each or (bound["train"] and bound["dropout"]):
        return None
    time = 1 if bound["batch_first"] else 0

    def run(x: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        first = [state.unbind(0) for state in tensors[: len(states)]]
        weights = tensors[len(states) :]
        sequence = x
        last: list[tuple[Tensor, ...]] = []
        for level in range(bound["num_layers"]):
            sides = []
            for direction in range(directions):
                index = level * directions + direction
                w_ih, w_hh, *biases = weights[index * each : (index + 1) * each]
                b_ih, b_hh = biases or (None, None)
                gates = linear(sequence, w_ih, b_ih).unbind(time)
                ordered = gates[::-1] if direction else gates
                outputs, final = layer(ordered, [state[index] for state in first], w_hh, b_hh)
                sides.append(torch.stack(outputs[::-1] if direction else outputs, time))
                last.append(final)
            sequence = sides[0] if directions == 1 else torch.cat(sides, -1)
        return (sequence, *(torch.stack(list(state)) for state in zip(*last, strict=True)))

    return [bound["input"], *states, *parameters], run


def lstm_network(node: Node) -> tuple[list[Node], Function] | None:
    """Of a call of aten.lstm.input: (output, h_n, c_n)."""
    bound = graph.bind(node)
    return _network(bound, _lstm_layer, list(bound["hx"]))


def gru_network(node: Node) -> tuple[list[Node], Function] | None:
    """Of a call of aten.gru.input: (output, h_n)."""
    bound = graph.bind(node)
    return _network(bound, _gru_layer, [bound["hx"]])
