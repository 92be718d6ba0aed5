# SPDX-License-Identifier: BSD-3-Clause
"""TensorFlow's asymmetric padding, written as `F.pad` in front of a convolution with stride 2."""

from __future__ import annotations

import copy
import pathlib
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import Quantizer

import fused_quant
from examples import pipeline
from tests.models import layerwise
from tests.support.foreign import xnnpack_quantizer


class _Padded(nn.Module):
    def __init__(
        self, amounts: tuple[int, ...], mode: str = "constant", value: float = 0.0
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 8, 1)
        assert self.first.bias is not None
        nn.init.constant_(self.first.bias, 4.0)  # keeps real 0 at the end of the range
        self.second = nn.Conv2d(8, 5, 3, stride=2)
        self.amounts, self.mode, self.value = amounts, mode, value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        value = self.value if self.mode == "constant" else None
        y: torch.Tensor = self.second(functional.pad(x, self.amounts, self.mode, value))
        return y


def _quantized(model: nn.Module, quantizer: Quantizer) -> torch.fx.GraphModule:
    inputs = [torch.randn(1, 3, 8, 10) for _ in range(8)]
    prepared = prepare_pt2e(torch.export.export(model, (inputs[0],)).module(), quantizer)
    for x in inputs:
        prepared(x)
    converted: torch.fx.GraphModule = convert_pt2e(prepared)
    return converted


@pytest.mark.parametrize("amounts", [(0, 1, 0, 1), (1, 0, 2, 0), (1, 1, 1, 1), (0, 2)])
@pytest.mark.parametrize("quantizer", [fused_quant.default_quantizer, xnnpack_quantizer])
def test_zero_padding_joins_the_convolution(
    amounts: tuple[int, ...], quantizer: Callable[[], Quantizer], tmp_path: pathlib.Path
) -> None:
    """One delegate call, no padding operator, and border codes like those in the middle."""
    torch.set_num_threads(1)
    quantized = _quantized(_Padded(amounts), quantizer())
    fused = pipeline.fuse(copy.deepcopy(quantized))
    inputs = [torch.randn(1, 3, 8, 10) for _ in range(4)]
    assert not [n for n in fused.graph.nodes if "pad" in str(n.target)]
    layers = layerwise.compare(fused, inputs)
    assert all(layer.largest <= 1 for layer in layers)
    assert all(layer.equal > 0.98 for layer in layers)

    edge = pipeline.to_edge(quantized, inputs[0])  # the q/dq graph: fused inside preprocess
    calls = [n for n in edge.exported_program().graph.nodes if n.op == "call_function"]
    assert [str(n.target) for n in calls if "getitem" not in str(n.target)] == [
        "executorch_call_delegate"
    ]
    path = tmp_path / "padded.pte"
    path.write_bytes(edge.to_executorch().buffer)
    eager = pipeline.run_eager(fused, inputs, "eager", progress=False)
    assert pipeline.same_bits(eager, pipeline.run_host(path, inputs, progress=False)) == 1.0


@pytest.mark.parametrize(
    ("amounts", "mode", "value"),
    [
        ((0, 1, 0, 1), "constant", 1.0),
        ((1, 1, 1, 1), "reflect", 0.0),
    ],
)
def test_other_padding_stays_what_it_is(
    amounts: tuple[int, ...], mode: str, value: float, tmp_path: pathlib.Path
) -> None:
    """A padding that a convolution cannot express is not taken in; results stay right."""
    torch.set_num_threads(1)
    model = _Padded(amounts, mode, value)
    quantized = _quantized(model, fused_quant.default_quantizer())
    inputs = [torch.randn(1, 3, 8, 10) for _ in range(4)]
    expected = pipeline.run_eager(quantized, inputs, "q/dq", progress=False)
    fused = pipeline.fuse(copy.deepcopy(quantized))
    assert [n for n in fused.graph.nodes if "pad" in str(n.target)]
    path = tmp_path / "other.pte"
    path.write_bytes(pipeline.to_edge(quantized, inputs[0]).to_executorch().buffer)
    host = pipeline.run_host(path, inputs, progress=False)
    step = float(expected.abs().max()) / 64
    assert float((expected - host).abs().max()) < step
