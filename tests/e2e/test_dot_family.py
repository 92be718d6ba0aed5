# SPDX-License-Identifier: BSD-3-Clause
"""Convolutions of every rank, products of activations and results in float, wholly delegated."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import fused_quant
from fused_quant import payload
from tests.e2e import routes

torch.set_num_threads(1)


class _Sequence(nn.Module):
    """conv1d, dilated and depthwise, a transposed one, and one with uneven padding."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(3, 6, 3, padding="same", dilation=2)
        self.depthwise = nn.Conv1d(6, 12, 3, groups=6, padding=1)
        self.up = nn.ConvTranspose1d(12, 4, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.last = nn.Conv1d(4, 4, 4, padding="same")

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = self.up(torch.relu(self.depthwise(x)))
        return self.last(x) + x


class _Volume(nn.Module):
    """conv3d, then a transposed convolution of its slices."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv3d(2, 4, (2, 3, 3), padding=(0, 1, 1))
        self.up = nn.ConvTranspose2d(4, 3, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(torch.relu(self.conv(x)).squeeze(2))


class _Products(nn.Module):
    """Batches of matrices, and one matrix for all of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(x)
        scores = torch.matmul(y, x.transpose(1, 2))
        return torch.matmul(scores, x[:1])


# A reshape wants the logical order, and the transposed operand of a product is one.
CASES = {
    "sequence": (_Sequence, (2, 3, 9), 0),
    "volume": (_Volume, (2, 2, 2, 5, 4), 2),
    "products": (_Products, (2, 5, 8), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_whole_in_one_call(name: str) -> None:
    make, shape, moves = CASES[name]
    torch.manual_seed(3)
    x = torch.randn(shape)
    quantizer = fused_quant.default_quantizer()
    raw = routes.quantize_dequantize(make().eval(), [(x,)], quantizer)
    fused = routes.fused_copy(raw)
    edge = routes.lowered(fused, (x,), routes.TRANSFORM)
    assert routes.is_one_delegate_call(edge), routes.operators(edge)
    buffer = bytes(edge.to_executorch().buffer)
    (program,) = map(payload.deserialize, payload.extract_payloads(buffer))
    moved = [op for op in program.ops if op.opcode == "permute"]
    assert len(moved) == moves, [op.opcode for op in program.ops]
    torch.testing.assert_close(
        routes.execute(routes.load(buffer), (x,)), routes.eager(fused, (x,)), rtol=0, atol=0
    )
