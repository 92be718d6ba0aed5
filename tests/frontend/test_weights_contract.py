# SPDX-License-Identifier: BSD-3-Clause
"""Weights and biases: where they end up, and what is done about awkward values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torchao.quantization.pt2e import (
    FusedMovingAvgObsFakeQuantize,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    move_exported_model_to_eval,
)
from torchao.quantization.pt2e.quantize_pt2e import (
    convert_pt2e,
    prepare_pt2e,
    prepare_qat_pt2e,
)
from torchao.quantization.pt2e.quantizer.quantizer import QuantizationSpec
from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

import fused_quant
from fused_quant import payload
from tests.e2e import routes
from tests.frontend.graphs import Graph, Grid, Weights, exported, fused, payload_of, run_natively
from tests.frontend.graphs import targets as targets_of

torch.set_num_threads(1)

IN, OUT = Grid(0.5, 3), Grid(0.05, -7)
IMAGE = torch.linspace(-2, 2, 2 * 3 * 8 * 7).reshape(2, 3, 8, 7)


def _converted(module: nn.Module, x: Tensor, fold_quantize: bool = True) -> Any:
    prepared = prepare_pt2e(exported(module, x), fused_quant.default_quantizer())
    prepared(x)
    return convert_pt2e(prepared, fold_quantize=fold_quantize)


@pytest.mark.parametrize("fold_quantize", [True, False])
@pytest.mark.parametrize("fuse_first", [True, False])
def test_constant_weights_stay_int8_inside_the_delegate(
    fold_quantize: bool, fuse_first: bool
) -> None:
    """Neither float weights nor scales are delegate inputs or part of the program around it."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 40, 3), nn.ReLU(), nn.Flatten(), nn.Linear(40 * 30, 50))
    converted = _converted(module, IMAGE, fold_quantize)
    graph = fused_quant.fuse(converted) if fuse_first else converted
    route = routes.ROUTES[int(fuse_first)]
    edge = routes.lowered(graph, (IMAGE,), route)
    program = edge.exported_program()
    assert routes.is_one_delegate_call(edge)
    assert [node.op for node in program.graph.nodes].count("placeholder") == 1
    assert not program.state_dict
    assert not program.constants
    data = bytes(edge.to_executorch().buffer)
    int8_weights = 40 * 3 * 9 + 40 * 30 * 50
    assert int8_weights < len(data) < int8_weights + 12_000


def _wrapped_weight(x: Tensor) -> nn.Module:
    weights = Weights(torch.arange(-12, 12).reshape(6, 4), [0.25])

    def function(w: Weights, x: Tensor) -> Tensor:
        return OUT.round(functional.linear(IN.round(x), w().permute(1, 0)))

    return Graph(function, w=weights)


def test_constant_weight_used_through_a_permute() -> None:
    x = torch.linspace(-1, 1, 12).reshape(2, 6)
    module = _wrapped_weight(x)
    edge = routes.lowered(module, (x,), routes.TO_EDGE)
    assert routes.is_one_delegate_call(edge)
    assert "w.codes" not in edge.exported_program().state_dict
    (got,) = routes.run(edge, (x,))
    assert float((got - module(x)).abs().max()) <= OUT.scale * 1.001


def _folded(module: nn.Sequential, relu: bool) -> nn.Module:
    """Non-trivial statistics of the normalization."""
    generator = torch.Generator().manual_seed(5)
    norm = module[1]
    assert isinstance(norm, nn.BatchNorm2d)
    for name, low, high in (("running_mean", -1, 1), ("running_var", 0.3, 3)):
        buffer = norm.get_buffer(name)
        buffer.copy_(torch.empty_like(buffer).uniform_(low, high, generator=generator))
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2, generator=generator)
        norm.bias.uniform_(-1, 1, generator=generator)
    return nn.Sequential(*module, nn.ReLU()) if relu else module


def _check_batch_norm(module: nn.Module, converted: Any) -> None:
    float_result = module.eval()(IMAGE)
    gm = fused_quant.fuse(converted)
    names = [name for name in targets_of(gm) if "quantized_decomposed" not in name]
    assert names == ["fused_quant.conv2d.default"]
    node = next(n for n in gm.graph.nodes if "fused_quant.conv2d" in str(n.target))
    bias = gm.get_buffer(str(node.args[2].target))
    assert bias.dtype == torch.int32
    assert [n.op for n in gm.graph.nodes].count("placeholder") == 1
    codes = [n for n in gm.graph.nodes if "dequantize" in str(n.target)]
    step = float(codes[-1].args[1])
    (native,) = run_natively(gm, IMAGE)
    assert torch.equal(native, gm(IMAGE))
    assert float((native - float_result).abs().mean()) < step


@pytest.mark.parametrize("relu", [False, True])
def test_pattern_batch_norm_bias_is_quantized(relu: bool) -> None:
    torch.manual_seed(1)
    module = _folded(nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)), relu).eval()
    _check_batch_norm(module, _converted(module, IMAGE))


def _qat_config() -> QuantizationConfig:
    activations = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-128,
        quant_max=127,
        qscheme=torch.per_tensor_affine,
        observer_or_fake_quant_ctr=FusedMovingAvgObsFakeQuantize.with_args(
            observer=MovingAverageMinMaxObserver
        ),
    )
    weights = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-127,
        quant_max=127,
        qscheme=torch.per_channel_symmetric,
        ch_axis=0,
        observer_or_fake_quant_ctr=FusedMovingAvgObsFakeQuantize.with_args(
            observer=MovingAveragePerChannelMinMaxObserver
        ),
    )
    return QuantizationConfig(activations, activations, weights, None, True)


@pytest.mark.parametrize("relu", [False, True])
def test_pattern_batch_norm_in_quantization_aware_training(relu: bool) -> None:
    torch.manual_seed(1)
    module = _folded(nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)), relu)
    training = torch.export.export(module.train(), (IMAGE,)).module()
    quantizer = fused_quant.default_quantizer(_qat_config())
    prepared = prepare_qat_pt2e(training, quantizer)
    move_exported_model_to_eval(prepared)
    prepared(IMAGE)
    _check_batch_norm(module, convert_pt2e(prepared))


@pytest.mark.parametrize(
    "layer",
    [
        lambda bias: nn.Linear(7, 4, bias=bias),
        lambda bias: nn.Conv2d(3, 4, 3, bias=bias),
        lambda bias: nn.Conv2d(3, 6, 3, bias=bias, groups=3),
    ],
    ids=["linear", "conv", "depthwise"],
)
def test_optional_arg_missing_bias_is_zero(layer: Any) -> None:
    """Without a bias, and with a bias of zeros: the same codes."""
    torch.manual_seed(2)
    without, with_zeros = layer(False), layer(True)
    with torch.no_grad():
        with_zeros.weight.copy_(without.weight)
        with_zeros.bias.zero_()
    results = [
        run_natively(fused_quant.fuse(_converted(module, IMAGE)), IMAGE)[0]
        for module in (without, with_zeros)
    ]
    assert torch.equal(results[0], results[1])


def test_range_zero_and_tiny_weight_channels() -> None:
    conv = nn.Conv2d(3, 3, 1)
    with torch.no_grad():
        conv.weight[1] = 0
        conv.weight[2] *= 1e-9
        conv.bias.copy_(torch.tensor([0.1, 0.7, -0.4]))
    gm = fused_quant.fuse(_converted(conv, IMAGE))
    program = payload.deserialize(payload_of(gm, IMAGE))
    params = next(op.params for op in program.ops if op.opcode == "conv2d")
    assert len(params.multiplier) == 3
    assert all(0 <= m < 2**31 for m in params.multiplier)
    (got,) = run_natively(gm, IMAGE)
    assert torch.equal(got, gm(IMAGE))
    step = float([n for n in gm.graph.nodes if "dequantize" in str(n.target)][-1].args[1])
    for channel, bias in ((1, 0.7), (2, -0.4)):
        assert got[:, channel].unique().numel() == 1
        assert abs(float(got[0, channel, 0, 0]) - bias) <= step / 2 * 1.01
    assert float((got - conv(IMAGE))[:, 0].abs().max()) <= 3 * step


def test_range_calibrated_on_zeros() -> None:
    zeros = torch.zeros(1, 3, 4, 4)
    gm = fused_quant.fuse(_converted(nn.Conv2d(3, 2, 1, bias=False), zeros))
    (got,) = run_natively(gm, zeros)
    assert torch.equal(got, torch.zeros_like(got))
    assert torch.equal(got, gm(zeros))


def _tiny_scale() -> nn.Module:
    weights = Weights(torch.tensor([[100], [100]]), [1e-9, 0.01])
    bias = nn.Parameter(torch.tensor([5.0, -0.75]))

    def function(w: Weights, x: Tensor) -> Tensor:
        return OUT.round(functional.linear(IN.round(x), w(), bias))

    return Graph(function, w=weights)


@pytest.mark.parametrize("fuse_first", [False, True])
def test_overflow_bias_beyond_int32(fuse_first: bool) -> None:
    """A bias of 1e10 steps of its channel: right, on whatever way, and its neighbour too."""
    x = torch.linspace(-1, 1, 6).reshape(6, 1)
    module = _tiny_scale()
    reference = module(x)
    assert float(reference[0, 0]) == pytest.approx(5, abs=OUT.scale)
    graph = fused(module, x) if fuse_first else module
    atol = OUT.scale * 1.01
    torch.testing.assert_close(fused(module, x)(x), reference, rtol=0, atol=atol)
    for route in routes.ROUTES:
        edge = routes.lowered(graph, (x,), route)
        torch.testing.assert_close(routes.run(edge, (x,))[0], reference, rtol=0, atol=atol)
