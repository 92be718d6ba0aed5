# SPDX-License-Identifier: BSD-3-Clause
"""int16 activations end to end: one delegate call, equal to the fused program, near to float."""

from __future__ import annotations

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


def _int16_outputs(module: GraphModule) -> set[tuple[float, int]]:
    found = [graph.bind(n) for n in graph.calls(module) if graph.op_of(n) == graph.QUANTIZE]
    assert {bound["dtype"] for bound in found} == {torch.int16}
    return {(float(bound["scale"]), int(bound["zero_point"])) for bound in found}


def test_operators_without_int16_kernel_stay_outside_with_a_reason() -> None:
    """Functions of fixed range have the scale 2^-15."""
    module, inputs = nn.Sequential(nn.Sigmoid(), nn.Softmax(-1)).eval(), (torch.randn(3, 4),)
    converted = routes.quantize_dequantize(module, [inputs], _quantizer())
    grids = _int16_outputs(converted)
    assert (2.0**-15, 0) in grids
    assert {zero_point for _, zero_point in grids} == {0}
    partitioner = fused_quant.FusedQuantPartitioner()
    routes.lowered(routes.fused_copy(converted), inputs, routes.TO_EDGE, partitioner)
    codes = {refusal.operator: refusal.reason.code for refusal in partitioner.refusals}
    assert "dtype" in codes.values(), codes


def test_activation_dtype_is_int8_or_int16() -> None:
    with pytest.raises(ValueError, match=r"activation_dtype: got torch.int32"):
        default_config(activation_dtype=torch.int32)
