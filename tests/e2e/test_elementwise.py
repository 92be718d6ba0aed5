# SPDX-License-Identifier: BSD-3-Clause
"""Element-wise operators end to end: claimed whole, folded, equal to the fused program."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import fused_quant
from fused_quant import payload
from tests.e2e import routes


class _Functions(nn.Module):
    """Layout-bound and rank-3 slopes, both extrema, and chains that fold."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.slopes, self.slope = nn.PReLU(4), nn.PReLU(1)
        with torch.no_grad():
            self.slopes.weight.copy_(torch.tensor([0.25, -0.5, 0.0, 1.5]))

    def forward(self, x: Tensor) -> Tensor:
        a = self.slopes(self.conv(x))
        b = torch.maximum(functional.mish(a), functional.celu(a, 0.5))
        c = torch.relu(torch.tanh(b).flatten(2) * 0.5) - 0.25
        d = torch.minimum(self.slopes(c), self.slope(functional.softshrink(c, 0.1)))
        return functional.logsigmoid(d) * -1.5


@pytest.mark.parametrize("route", routes.ROUTES)
def test_one_delegate_call_of_folded_tables(route: str) -> None:
    torch.manual_seed(5)
    inputs = (torch.randn(2, 3, 5, 4),)
    module, quantizer = _Functions().eval(), fused_quant.default_quantizer(every_operator=True)
    converted = routes.quantize_dequantize(module, [inputs], quantizer)
    fused = routes.fused_copy(converted)
    edge = routes.lowered(fused, inputs, route)
    assert routes.is_one_delegate_call(edge)
    (delegate,) = payload.extract_payloads(bytes(edge.to_executorch().buffer))
    ops = payload.deserialize(delegate).ops
    assert [op.opcode for op in ops].count("prelu") == 2
    assert any(op.opcode == "lut" and " + " in op.name for op in ops)
    routes.assert_same_bits(routes.run(edge, inputs), routes.eager(fused, inputs))
