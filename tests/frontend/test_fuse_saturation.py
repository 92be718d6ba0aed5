# SPDX-License-Identifier: BSD-3-Clause
"""Fusing keeps every rail: of results, of what is between two operators, of activations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.frontend.graphs import Graph, Grid, fused, run_natively, targets

torch.set_num_threads(1)

IN, MID, OUT = Grid(0.05, -3), Grid(0.04, 11), Grid(0.03, 7)


def test_overflow_near_cancel_saturates() -> None:
    """X - y with equal scales of 1 and an output scale of 2^-24: the right rail, or 0."""
    one, tiny = Grid(1.0), Grid(2.0**-24)

    def function(x: Tensor, y: Tensor) -> Tensor:
        return tiny.quantize(one.round(x) - one.round(y))

    x = torch.tensor([[5.0, 5.0, 5.0, 127.0, -128.0]])
    y = torch.tensor([[5.0, 4.0, 6.0, -128.0, 127.0]])
    expected = torch.tensor([[0, 127, -128, 127, -128]], dtype=torch.int8)
    assert torch.equal(run_natively(Graph(function), x, y)[0], expected)
    assert torch.equal(fused(Graph(function), x, y)(x, y), expected)


def test_an_intermediate_saturation_is_kept() -> None:
    """Two quantized steps stay two: the first one's rails are part of the result."""
    narrow = Grid(0.01, 0, -16, 15)

    def function(x: Tensor) -> Tensor:
        return OUT.round(functional.relu(narrow.round(functional.relu(IN.round(x)))))

    x = torch.full((1, 4), 3.0)
    gm = fused(Graph(function), x)
    assert float(gm(x).max()) <= 0.15 + OUT.scale / 2
    assert torch.equal(run_natively(Graph(function), x)[0], gm(x))


@pytest.mark.parametrize("activation", [functional.relu, functional.relu6])
def test_zero_point_relu_clamps_at_the_outputs_zero(activation: Callable[..., Tensor]) -> None:
    """Relu and relu6 behind an operator whose output zero point is not the lowest code."""
    wide, out = Grid(0.1), Grid(0.1, -4)

    def function(x: Tensor) -> Tensor:
        return out.quantize(activation(wide.round(x) + wide.round(x)))

    x = torch.linspace(-9, 9, 37).reshape(1, 37)
    gm = fused(Graph(function), x)
    assert "fused_quant.add.default" in targets(gm)
    assert not [name for name in targets(gm) if name.startswith("aten.")]
    codes = gm(x)
    assert int(codes.min()) == -4
    assert int(codes.max()) == (56 if activation is functional.relu6 else 127)
    assert torch.equal(run_natively(Graph(function), x)[0], codes)
    assert int((codes.int() - function(x).int()).abs().max()) <= 1


def test_pattern_activation_before_a_scale_that_is_no_float32() -> None:
    """The integer contract does not cover such a scale: the clamp may not get lost with it."""
    out = Grid(0.1, -4, exact=True)

    def function(x: Tensor) -> Tensor:
        return out.quantize(functional.relu6(IN.round(x) + MID.round(x)))

    x = torch.linspace(-5, 5, 21).reshape(1, 21)
    assert torch.equal(fused(Graph(function), x)(x), function(x))
