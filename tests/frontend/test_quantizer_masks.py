# SPDX-License-Identifier: BSD-3-Clause
"""Masks that a program computes and adds to scores: the quantizer hides instead."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from fused_quant.quantizer.taking_apart import take_apart
from tests.e2e import routes
from tests.frontend.graphs import exported, targets

_LOWEST = torch.finfo(torch.float32).min
Function = Callable[[Tensor, Tensor], Tensor]


class _Of(nn.Module):
    """A function of scores and of a boolean or an integer mask, True or 1 where a score counts."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, m: Tensor) -> Tensor:
        """[2, 3, 4, 6] and [2, 1, 1, 6]."""
        return self.function(x, m)


def _softmax(added: Callable[[Tensor], Tensor]) -> Function:
    return lambda x, m: torch.softmax(x + added(m), -1)


def _filled_in_place(m: Tensor) -> Tensor:
    return torch.zeros_like(m, dtype=torch.float32).masked_fill_(~m, -math.inf)


def _inverted(m: Tensor) -> Tensor:
    inverted = 1.0 - m.to(torch.float32)
    return inverted.masked_fill(inverted.to(torch.bool), _LOWEST)


def _causal_too(m: Tensor) -> Tensor:
    causal = torch.full((4, 6), -math.inf).triu(1)
    return torch.where(m, 0.0, -math.inf) + causal


def _by_heads(m: Tensor) -> Tensor:
    """As torch's multi-head attention brings a padding mask to its scores."""
    added = torch.zeros(2, 6).masked_fill(~m.view(2, 6), -math.inf)
    return added.view(2, 1, 1, 6).expand(-1, 3, -1, -1).reshape(6, 1, 6).view(2, 3, -1, 6)


def _attention(x: Tensor, m: Tensor) -> Tensor:
    return scaled_dot_product_attention(x, x[:, :, :, :], x, m[..., :4])


def _product(x: Tensor, m: Tensor) -> Tensor:
    added = torch.where(m, 0.0, -math.inf).expand(2, 3, 1, 6).reshape(6, 1, 6)
    return torch.softmax(torch.baddbmm(added, x.flatten(0, 1), torch.eye(6).expand(6, 6, 6)), -1)


SPELLINGS: dict[str, Function] = {
    "zeros filled in place": _softmax(_filled_in_place),
    "where": _softmax(lambda m: torch.where(m, 0.0, -math.inf)),
    "where turned over": _softmax(lambda m: torch.where(~m, -math.inf, 0.0)),
    "mask first": lambda x, m: torch.softmax(torch.where(m, 0.0, -1e9) + x, -1),
    "in place": lambda x, m: torch.softmax((x * 1).add_(torch.where(m, 0.0, -math.inf)), -1),
    "times a number": _softmax(lambda m: (1.0 - m.to(torch.float32)) * -10000.0),
    "times the lowest": _softmax(lambda m: (1 - m.float()) * _LOWEST),
    "times, hidden ones": _softmax(lambda m: (~m).float() * -1e9),
    "what is not zero": _softmax(_inverted),
    "causal too": _softmax(_causal_too),
    "by heads": _softmax(_by_heads),
    "attention, booleans": _attention,
    "attention, numbers": lambda x, m: _attention(x, torch.where(m, 0.0, -math.inf)),
    "baddbmm": _product,
}
INTEGERS: dict[str, Function] = {
    "times a number": _softmax(lambda m: (1.0 - m.to(torch.float32)) * -10000.0),
    "what is not zero": _softmax(_inverted),
}
_HIDDEN = {"aten.masked_fill.Scalar", "aten.where.ScalarOther"}


def _inputs(dtype: torch.dtype = torch.bool) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    mask = torch.rand(2, 1, 1, 6) > 0.5
    mask[..., 0] = True
    return torch.randn(2, 3, 4, 6), mask.to(dtype)


def _apart(function: Function, inputs: tuple[Tensor, Tensor]) -> list[str]:
    """Takes a module apart, compares the results, returns what is called."""
    module = _Of(function)
    graph_module = exported(module, *inputs)
    take_apart(graph_module)
    (got,) = routes.eager(graph_module, inputs)
    torch.testing.assert_close(got, module(*inputs), rtol=1e-5, atol=1e-6)
    return targets(graph_module)


@pytest.mark.parametrize("name", SPELLINGS)
def test_pattern_an_added_mask_hides_scores(name: str) -> None:
    called = _apart(SPELLINGS[name], _inputs())
    assert len(_HIDDEN & set(called)) == 1
    floats = ("aten.add", "aten.zeros", "aten.mul.Tensor", "aten.rsub", "aten.scaled_dot")
    kept = [n for n in called if n.startswith(floats) and n != "aten.mul.Tensor"]
    assert kept == []


@pytest.mark.parametrize("name", INTEGERS)
def test_pattern_a_mask_of_zeros_and_ones_hides_scores(name: str) -> None:
    assert _HIDDEN & set(_apart(INTEGERS[name], _inputs(torch.int64)))


NOT_MASKS: dict[str, Function] = {
    "other numbers than 0": _softmax(lambda m: torch.where(m, 1.0, -math.inf)),
    "not far below": _softmax(lambda m: torch.where(m, 0.0, -3.0)),
    "above": _softmax(lambda m: torch.where(m, 0.0, 1e9)),
    "a number of one's own": _softmax(lambda m: m.to(torch.float32) * -5.0),
    "reals times a number": _softmax(lambda m: (m.to(torch.float32) * 0.5 - 0.5) * 1e4),
    "twice": lambda x, m: torch.softmax(torch.add(x, torch.where(m, 0.0, -1e4), alpha=2), -1),
    "no softmax": lambda x, m: torch.sigmoid(x + torch.where(m, 0.0, -1e9)),
}


@pytest.mark.parametrize("name", NOT_MASKS)
def test_pattern_what_only_looks_like_a_mask_is_added(name: str) -> None:
    called = _apart(NOT_MASKS[name], _inputs())
    assert "aten.add.Tensor" in called
    assert not _HIDDEN & set(called)


def test_pattern_scores_that_are_read_elsewhere_too_are_added() -> None:
    def both(x: Tensor, m: Tensor) -> Tensor:
        scores = x + torch.where(m, 0.0, -1e9)
        return torch.softmax(scores, -1) + scores.clamp(-1, 1)

    assert "aten.add.Tensor" in _apart(both, _inputs())
