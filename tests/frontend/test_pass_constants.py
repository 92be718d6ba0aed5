# SPDX-License-Identifier: BSD-3-Clause
"""Normalization folding and constants: int32 biases, int8 weights, one copy of what is shared."""

from __future__ import annotations

import copy

import pytest
import torch
from executorch.exir import to_edge
from executorch.exir.passes.constant_prop_pass import constant_prop_pass
from torch import Tensor, nn
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import fused_quant
from fused_quant import graph, payload
from fused_quant.dialect import blocks_of
from fused_quant.lowered import Storage
from fused_quant.preprocess import lower_program
from fused_quant.target import resolve_target
from tests.e2e import routes
from tests.frontend.graphs import exported, payload_of
from tests.support import random_quantized

torch.set_num_threads(1)

IMAGE = torch.linspace(-2, 2, 2 * 4 * 6 * 5).reshape(2, 4, 6, 5)
CONVOLUTIONS = {
    "plain": {"out_channels": 6},
    "depthwise": {"out_channels": 8, "groups": 4},
    "strided": {"out_channels": 6, "stride": 2, "padding": 1},
}


def _module(kind: str, bias: bool, relu: bool) -> nn.Sequential:
    """Convolution and normalization with statistics far from 0 and 1."""
    torch.manual_seed(3)
    convolution = nn.Conv2d(4, kernel_size=3, bias=bias, **CONVOLUTIONS[kind])  # type: ignore[arg-type]
    norm = nn.BatchNorm2d(convolution.out_channels)
    with torch.no_grad():
        for value, low, high in (
            (norm.running_mean, -1.0, 1.0),
            (norm.running_var, 0.3, 3.0),
            (norm.weight, 0.5, 2.0),
            (norm.bias, -1.0, 1.0),
        ):
            assert value is not None
            value.uniform_(low, high)
    return nn.Sequential(convolution, norm, *([nn.ReLU()] if relu else []))


def _check_folded(module: nn.Module, gm: GraphModule) -> None:
    """One fused convolution with an int32 bias, next to the float module."""
    expected = module.eval()(IMAGE)
    calls = [node for node in graph.calls(gm) if "fused_quant" in str(node.target)]
    assert [str(node.target) for node in calls] == ["fused_quant.conv2d.default"]
    (node,) = calls
    bias = graph.constant_of(gm, node.args[2])
    assert bias is not None
    assert bias.dtype == torch.int32
    blocks = blocks_of(gm, node)
    inp, weight, out = blocks["inp"], blocks["weight"], blocks["out"]
    assert inp is not None
    assert weight is not None
    assert out is not None
    parameters = blocks["bias"]
    assert parameters is not None
    products = inp.scale_value * weight.scale.double().reshape(-1)
    assert torch.allclose(parameters.scale.double(), products, rtol=1e-6, atol=0)
    assert [n.op for n in gm.graph.nodes].count("placeholder") == 1
    assert float((gm(IMAGE) - expected).abs().mean()) < out.scale_value


@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_batch_norm_after_calibration(kind: str, bias: bool, relu: bool) -> None:
    module = _module(kind, bias, relu).eval()
    prepared = prepare_pt2e(exported(module, IMAGE), _quantizer())
    prepared(IMAGE)
    _check_folded(module, fused_quant.fuse(convert_pt2e(prepared)))


def _quantizer() -> fused_quant.FusedQuantQuantizer:
    return fused_quant.default_quantizer(random_quantized.config())


class _Tied(nn.Module):
    """One large weight read by two operators."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(64, 64)
        self.second = self.first if tied else nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(torch.relu(self.first(x)))
        return result


def _converted(module: nn.Module, x: Tensor, fold_quantize: bool = True) -> GraphModule:
    prepared = prepare_pt2e(exported(module, x), _quantizer())
    prepared(x)
    converted: GraphModule = convert_pt2e(prepared, fold_quantize=fold_quantize)
    return converted


@pytest.mark.parametrize("fold_quantize", [True, False])
def test_a_shared_weight_is_stored_once(fold_quantize: bool) -> None:
    """In the graph and in the payload; another weight takes its own 64 * 64 bytes."""
    x = torch.linspace(-1, 1, 3 * 64).reshape(3, 64)
    sizes = []
    for tied in (True, False):
        gm = fused_quant.fuse(_converted(_Tied(tied).eval(), x, fold_quantize))
        weights = [value for value in gm.buffers() if value.shape == (64, 64)]
        assert len(weights) == (1 if tied else 2)
        assert {value.dtype for value in weights} == {torch.int8}
        assert not [value for value in gm.parameters() if value.dim() == 2]
        sizes.append(len(payload_of(gm, x)))
    assert 64 * 64 <= sizes[1] - sizes[0] <= 64 * 64 + 1200


@pytest.mark.parametrize("fuse_first", [False, True])
def test_constant_propagation_before_us_keeps_int8(fuse_first: bool) -> None:
    """ExecuTorch's pass, on the edge program or on the fused one: weights stay int8 constants."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(4, 30, 3), nn.Flatten(), nn.Linear(30 * 12, 40)).eval()
    gm = _converted(module, IMAGE)
    expected = fused_quant.fuse(copy.deepcopy(gm))(IMAGE)
    if fuse_first:
        program = torch.export.export(fused_quant.fuse(gm), (IMAGE,))
        edge = to_edge(constant_prop_pass(program))
    else:
        edge = to_edge(torch.export.export(gm, (IMAGE,)))
        constant_prop_pass(edge.exported_program())
    edge = edge.to_backend(fused_quant.FusedQuantPartitioner())
    assert routes.is_one_delegate_call(edge)
    assert not edge.exported_program().state_dict
    assert torch.equal(routes.run(edge, (IMAGE,))[0], expected)


@pytest.mark.parametrize("seed", range(25))
def test_random_graphs_keep_only_integer_constants(seed: int) -> None:
    """Every constant of a payload is made of codes, none twice, and none is left in the program."""
    gm, inputs, _ = random_quantized.converted(seed, most=5)
    edge = to_edge(torch.export.export(copy.deepcopy(gm), inputs))
    lowered = edge.to_backend(fused_quant.FusedQuantPartitioner())
    if not routes.is_one_delegate_call(lowered):
        return
    program = lowered.exported_program()
    # convert_pt2e keeps the float buffer that a constant of codes was made from, read by nothing.
    names = {
        *program.graph_signature.inputs_to_buffers,
        *program.graph_signature.inputs_to_parameters,
    }
    assert not [n.name for n in program.graph.nodes if n.name in names and n.users]
    assert not program.constants
    found = lower_program(torch.export.export(copy.deepcopy(gm), inputs), resolve_target(None))
    constants = [t.data for t in found.tensors if t.storage is Storage.CONSTANT]
    assert all(data is not None and data.dtype.kind == "i" for data in constants)
    distinct = {data.tobytes() for data in constants if data is not None}
    header = payload.read_header(payload.serialize(found))
    assert header.constant_bytes == sum(map(len, distinct))
