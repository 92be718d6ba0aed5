# SPDX-License-Identifier: BSD-3-Clause
"""int16 activations end to end: one delegate call, equal to the fused program, near to float."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

import fused_quant
from fused_quant import graph
from fused_quant.quantizer import default_config
from tests.e2e import routes

_SHAPE = (2, 3, 6, 5)


class _Elementwise(nn.Module):
    """Arithmetic, clamps and movements with int16 kernels, layouts changing in between."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        a = torch.relu(x + y) - x * y
        b = torch.cat([a.transpose(1, 2).flip(3), torch.clamp(y, -0.5, 1.0).transpose(1, 2)], 2)
        c = nn.functional.pad(b[:, ::2], (1, 2), value=0.25)
        return (c + c.mul(c)).flatten(1)


def _quantizer() -> fused_quant.FusedQuantQuantizer:
    config = default_config(activation_dtype=torch.int16)
    return fused_quant.default_quantizer(config)


def test_one_delegate_call_of_int16() -> None:
    torch.manual_seed(3)
    module, inputs = _Elementwise().eval(), (torch.randn(_SHAPE), torch.randn(_SHAPE))
    converted = routes.quantize_dequantize(module, [inputs], _quantizer())
    fused = routes.fused_copy(converted)
    edge = routes.lowered(fused, inputs, routes.TO_EDGE)
    assert routes.is_one_delegate_call(edge)
    got = routes.run(edge, inputs)
    routes.assert_same_bits(got, routes.eager(fused, inputs))
    exact = module(*inputs)
    error = (got[0] - exact).double().square().mean().sqrt()
    assert error < 2.0**-13 * exact.abs().max()  # int8 codes cannot come closer than 2^-9


class _Convolutions(nn.Module):
    """Every convolution that has a kernel, a large bias, linear of rank 3 and a result in float."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(6, 12, 3, padding=1, groups=6, bias=False)
        self.up = nn.ConvTranspose2d(12, 5, 3, stride=2, output_padding=1)
        self.volume = nn.Conv3d(1, 2, (2, 3, 3))
        self.line = nn.Conv1d(10, 4, 3, padding=1, dilation=2)
        self.up_line = nn.ConvTranspose1d(4, 3, 2, stride=2)
        self.rows = nn.Linear(30, 5)
        self.head = nn.Linear(5, 4, bias=False)
        assert self.stem.bias is not None
        nn.init.constant_(self.stem.bias, 4.0)

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(torch.relu(self.depthwise(torch.relu(self.stem(x)))))
        y = self.volume(y.unsqueeze(1))[:, :, :, :5].flatten(1, 2)
        y = y[:, :, :, :6].flatten(2)
        y = torch.cat([y, y[:, :2]], 1)
        return self.head(self.rows(self.up_line(self.line(y[:, :, :19])[:, :, :15])))


class _Products(nn.Module):
    """Matrix products of two activations, in batches and with one matrix for all; one in float."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        scores = x @ y.transpose(-1, -2)
        return torch.relu(scores @ y), torch.matmul(x[0, 0], y[0, 0].t())


def _with_rounded_weights(module: nn.Module) -> nn.Module:
    """A copy with every weight on its int8 grid: what error is left comes from activations."""
    rounded = copy.deepcopy(module)
    for layer in rounded.modules():
        weight = getattr(layer, "weight", None)
        if isinstance(weight, Tensor):
            axis = int(isinstance(layer, (nn.ConvTranspose1d, nn.ConvTranspose2d)))
            others = [i for i in range(weight.dim()) if i != axis]
            step = weight.detach().abs().amax(others, keepdim=True) / 127
            weight.data = torch.round(weight.detach() / step) * step
    return rounded


def _assert_int16_in_one_call(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Lowered whole, the fused program's bits, near to float with 8-bit weights."""
    converted = routes.quantize_dequantize(module.eval(), [inputs], _quantizer())
    fused = routes.fused_copy(converted)
    edge = routes.lowered(fused, inputs, routes.TO_EDGE)
    assert routes.is_one_delegate_call(edge), routes.operators(edge)
    got = routes.run(edge, inputs)
    routes.assert_same_bits(got, routes.eager(fused, inputs))
    for value, exact in zip(got, routes.eager(_with_rounded_weights(module), inputs), strict=True):
        error = (value - exact).double().square().mean().sqrt()
        assert error < 2.0**-12 * exact.abs().max()  # int8 codes cannot come closer than 2^-9


def test_convolutions_and_linear_of_int16_are_one_delegate_call() -> None:
    torch.manual_seed(4)
    _assert_int16_in_one_call(_Convolutions(), (torch.randn(2, 3, 9, 8),))


def test_matrix_products_of_int16_are_one_delegate_call() -> None:
    torch.manual_seed(5)
    inputs = (torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5))
    _assert_int16_in_one_call(_Products(), inputs)


def _int16_outputs(module: GraphModule) -> set[tuple[float, int]]:
    found = [graph.bind(n) for n in graph.calls(module) if graph.op_of(n) == graph.QUANTIZE]
    assert {bound["dtype"] for bound in found} == {torch.int16}
    return {(float(bound["scale"]), int(bound["zero_point"])) for bound in found}


class _Functions(nn.Module):
    """Tables, forms without a table, both softmaxes, norms, reductions and pools."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.group = nn.LayerNorm(8), nn.GroupNorm(2, 4)
        self.rms, self.prelu = nn.RMSNorm(8), nn.PReLU(4, 0.2)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        f = nn.functional
        a = torch.sigmoid(x) - torch.tanh(x) * f.hardsigmoid(x) + f.gelu(x)
        b = f.hardswish(x) + f.leaky_relu(x, 0.1) + self.prelu(x) - f.elu(x) - 0.25
        c = torch.maximum(a, torch.abs(b)) + torch.minimum(-a, f.silu(b) * -0.5)
        d = self.group(c) + self.layer(c) + self.rms(a)
        e = f.avg_pool2d(d, 2, padding=1) + f.max_pool2d(f.pad(d, (1, 1, 1, 1)), 2)
        e = e + f.adaptive_avg_pool2d(d, (3, 5)).mean((2, 3), keepdim=True) + d.amax((2, 3), True)
        g = f.interpolate(e, scale_factor=2.0, mode="bilinear") + f.interpolate(e, scale_factor=2)
        return f.softmax(g, 1), f.log_softmax(d, -1).sum(1), d.amin(1)


def test_functions_norms_and_pools_are_one_delegate_call() -> None:
    torch.manual_seed(4)
    module, inputs = _Functions().eval(), (2 * torch.randn(2, 4, 4, 8),)
    converted = routes.quantize_dequantize(module, [inputs], _quantizer())
    grids = _int16_outputs(converted)
    assert (2.0**-15, 0) in grids  # functions of fixed range
    assert {zero_point for _, zero_point in grids} == {0}
    fused = routes.fused_copy(converted)
    edge = routes.lowered(fused, inputs, routes.TO_EDGE)
    assert routes.is_one_delegate_call(edge)
    got = routes.run(edge, inputs)
    routes.assert_same_bits(got, routes.eager(fused, inputs))
    for result, exact in zip(got, module(*inputs), strict=True):
        error = (result - exact).double().square().mean().sqrt()
        assert error < 2.0**-10 * exact.abs().max()


class _Steep(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.reciprocal(x), torch.floor(x)


def test_functions_that_no_table_follows_stay_outside_with_a_reason() -> None:
    module, inputs = _Steep().eval(), (torch.linspace(-2, 2, 40).reshape(2, 20),)
    config = default_config(activation_dtype=torch.int16)
    quantizer = fused_quant.default_quantizer(config, every_operator=True)
    converted = routes.quantize_dequantize(module, [inputs], quantizer)
    partitioner = fused_quant.FusedQuantPartitioner()
    routes.lowered(routes.fused_copy(converted), inputs, routes.TO_EDGE, partitioner)
    codes = {refusal.operator: refusal.reason.code for refusal in partitioner.refusals}
    assert set(codes.values()) >= {"table"}, codes
    assert len([code for code in codes.values() if code == "table"]) == 2, codes


def test_activation_dtype_is_int8_or_int16() -> None:
    with pytest.raises(ValueError, match=r"activation_dtype: got torch.int32"):
        default_config(activation_dtype=torch.int32)
