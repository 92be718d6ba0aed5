# SPDX-License-Identifier: BSD-3-Clause
"""Chains of constants: folded in the delegate, nothing of them is left to compute at run time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fused_quant.claims import claim
from fused_quant.target import resolve_target
from tests.frontend.graphs import Grid

torch.set_num_threads(1)

A, STATE, OUT = Grid(0.05, -3), Grid(0.02, 5), Grid(0.08, 7)


class _State(nn.Module):
    """A constant state that is reshaped and quantized again, as the first state of an LSTM is."""

    state: Tensor

    def __init__(self, twice: bool) -> None:
        super().__init__()
        self.twice = twice
        self.register_buffer("state", torch.tensor([[5, -7, 100]], dtype=torch.int8))

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """int8 [2, 3] to int8 [2, 3], and the reshaped state in float if `twice`."""
        real = STATE.dequantize(self.state).squeeze(0)
        state = STATE.dequantize(STATE.quantize(real))
        result = OUT.quantize(A.dequantize(x) + state)
        return (result, real) if self.twice else result


def _outside(twice: bool) -> list[str]:
    x = torch.tensor([[1, 2, 3], [-4, 50, -128]], dtype=torch.int8)
    program = torch.export.export(_State(twice), (x,))
    claims = claim(program, resolve_target(None))
    assert len(set(claims.partitions.values())) == 1
    return [refusal.operator for refusal in claims.refusals]


def test_a_chain_of_constants_is_claimed_with_its_reader() -> None:
    assert _outside(twice=False) == []


def test_what_others_read_too_stays_outside() -> None:
    """The dequantize and the view: the program returns their result."""
    left = _outside(twice=True)
    assert any("squeeze" in operator for operator in left)
    assert not any("aten.add" in operator for operator in left)
