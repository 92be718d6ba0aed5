# SPDX-License-Identifier: BSD-3-Clause
"""`default_quantizer(every_operator=True)`: movements of float inputs, argmax, steep functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from fused_quant import default_quantizer
from fused_quant.claims import claim
from fused_quant.target import resolve_target

torch.set_num_threads(1)

CASES: dict[str, Callable[[Tensor], Any]] = {
    "view": lambda x: x.view(3, 4),
    "split": lambda x: x.split(2, 0),
    "argmax": lambda x: x.argmax(1),
    "exp": torch.exp,
    "glu": lambda x: torch.nn.functional.glu(x, 0),
    "divide": lambda x: x / (x * x + 1.0),
}


class _Function(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def _claimed(name: str, every_operator: bool) -> tuple[int, int]:
    """(nodes in the delegate, nodes outside)."""
    x = torch.linspace(-2, 3, 12).reshape(4, 3)
    graph = torch.export.export(_Function(CASES[name]), (x,)).module()
    prepared = prepare_pt2e(graph, default_quantizer(every_operator=every_operator))
    prepared(x)
    program = torch.export.export(convert_pt2e(prepared), (x,))
    claims = claim(program, resolve_target(None))
    return len(claims.partitions), len(claims.refusals)


@pytest.mark.parametrize("name", CASES)
def test_every_operator_is_taken(name: str) -> None:
    inside, outside = _claimed(name, every_operator=True)
    assert inside > 1
    assert outside == 0


@pytest.mark.parametrize("name", ["view", "split", "argmax", "exp"])
def test_not_unless_asked(name: str) -> None:
    assert _claimed(name, every_operator=False)[0] == 0
