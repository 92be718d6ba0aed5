# SPDX-License-Identifier: BSD-3-Clause
"""The batch is only a number of items, and the dimension order only a matter of storage."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.nn import functional
from torchao.quantization.pt2e import MinMaxObserver

import fused_quant
from fused_quant import payload
from fused_quant.lower import quantize
from fused_quant.quantizer import default_config
from tests.e2e import routes
from tests.e2e.op_matrix import CASES, Apply, Case
from tests.frontend.graphs import payload_of, run_natively

torch.set_num_threads(1)

BATCHED = [
    case
    for case in CASES
    if case.per_item
    and case.name
    in {
        "conv-3x3", "conv-fast-path-5x1", "conv-fast-path-1x5", "conv-fast-path-1x1-stride2",
        "conv-fast-path-1x1-padding", "conv-depthwise-multiplier4", "conv-grouped-not-depthwise",
        "linear-rank2", "linear-rank4", "add", "add-broadcast-both", "relu6-alone",
        "max-pool-padding", "avg-pool-ceil1-include1", "adaptive-not-divisible", "mean-spatial",
        "mean-1-3", "permute-between",
    }
]  # fmt: skip


class _Coarse(MinMaxObserver):
    """Extremes with 8 bits: float results that differ in the last place give the same scale."""

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        scale, zero_point = super().calculate_qparams()
        return scale.bfloat16().float(), zero_point


def _quantizer() -> fused_quant.FusedQuantQuantizer:
    """Grids that depend neither on the batches nor on the layout of the calibration."""
    config = default_config()
    activations = dataclasses.replace(
        config.input_activation, observer_or_fake_quant_ctr=_Coarse.with_args(eps=2.0**-24)
    )
    return fused_quant.default_quantizer(
        dataclasses.replace(config, input_activation=activations, output_activation=activations)
    )


@pytest.mark.parametrize("case", BATCHED, ids=lambda case: case.name)
def test_batch_item_equals_the_batch_of_one(case: Case) -> None:
    inputs = case.inputs(7, batch=3)
    items = [tuple(value[i : i + 1] for value in inputs) for i in range(3)]
    single = quantize(case.module(), items[0], items, _quantizer(), progress=False)
    triple = quantize(case.module(), inputs, [inputs], _quantizer(), progress=False)
    (together,) = run_natively(triple, *inputs)
    for index, item in enumerate(items):
        alone = run_natively(single, *item)[0]
        routes.assert_same_bits([together[index : index + 1]], [alone])
        routes.assert_same_bits([alone], routes.eager(single, item))
    same = tuple(value[1:2].expand_as(value).contiguous() for value in inputs)
    (repeated,) = run_natively(triple, *same)
    assert all(torch.equal(repeated[i], together[1]) for i in range(3))


IMAGES = [
    case
    for case in CASES
    if case.name
    in {
        "conv-3x3", "conv-one-input-channel", "conv-one-output-channel", "conv-depthwise",
        "conv-padded-outside", "add-broadcast-channel", "add-inplace-residual", "relu-alone",
        "conv-max-pool", "avg-pool-ceil1-include0", "adaptive-divisible", "mean-1-3", "mean-last",
        "conv-mean", "view-between", "transpose-between", "permute-at-the-end",
    }
]  # fmt: skip


def _channels_last(case: Case) -> tuple[nn.Module, tuple[Tensor, ...]]:
    def convert(value: Tensor) -> Tensor:
        return value.to(memory_format=torch.channels_last) if value.dim() == 4 else value

    return case.module().to(memory_format=torch.channels_last), tuple(map(convert, case.inputs(7)))


@pytest.mark.parametrize("case", IMAGES, ids=lambda case: case.name)
def test_layout_channels_last_gives_the_same_values(case: Case) -> None:
    module, inputs = _channels_last(case)
    fused = quantize(module, inputs, [inputs], _quantizer(), progress=False)
    expected = routes.eager(fused, inputs)
    routes.assert_same_bits(run_natively(fused, *inputs), expected)
    plain = case.inputs(7)
    contiguous = quantize(case.module(), plain, [plain], _quantizer(), progress=False)
    routes.assert_same_bits(run_natively(contiguous, *plain), routes.eager(contiguous, plain))
    routes.assert_same_bits(expected, routes.eager(contiguous, plain))


def _steps(module: GraphModule, x: Tensor) -> list[tuple[str, list[int]]]:
    program = payload.deserialize(payload_of(module, x))
    return [(op.opcode, list(getattr(op.params, "perm", None) or [])) for op in program.ops]


def _net(first: nn.Module, second: nn.Module, x: Tensor) -> Tensor:
    y = functional.relu(first(x))
    return functional.max_pool2d(second(y) + y, 2)


@pytest.mark.parametrize("channels_last", [False, True])
def test_layout_transposes_only_inside_the_boundary(channels_last: bool) -> None:
    module = Apply(_net, nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1))
    x = torch.linspace(-1, 1, 2 * 3 * 6 * 8).reshape(2, 3, 6, 8)
    if channels_last:
        module, x = (
            module.to(memory_format=torch.channels_last),
            x.to(memory_format=torch.channels_last),
        )
    fused = quantize(module, (x,), [x], progress=False)
    steps = _steps(fused, x)
    assert "permute" not in [opcode for opcode, _ in steps]
    moved = [opcode for opcode, perm in steps if perm]
    assert moved == ([] if channels_last else ["quantize", "dequantize"])
    assert "copy" not in [opcode for opcode, _ in steps]


@pytest.mark.parametrize("shape", [(1, 1, 4, 5), (2, 3, 1, 1), (3, 1, 1, 5), (1, 1, 1, 1)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_layout_ambiguous_shapes(shape: tuple[int, ...], channels_last: bool) -> None:
    """One channel, one row or one pixel: both orders are the same bytes, and both are accepted."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(shape, generator=generator)
    torch.manual_seed(0)
    conv = nn.Conv2d(shape[1], 1, 1)
    if channels_last:
        x = x.to(memory_format=torch.channels_last)
    fused = quantize(Apply(lambda c, x: functional.relu(c(x)) + x, conv), (x,), [x], progress=False)
    edge = routes.lowered(fused, (x,), routes.TO_EDGE)
    method = routes.load(bytes(edge.to_executorch().buffer))
    expected = routes.eager(fused, (x,))
    routes.assert_same_bits(routes.execute(method, (x,)), expected)
    other = torch.contiguous_format if channels_last else torch.channels_last
    got = routes.execute(method, (x.to(memory_format=other),))
    routes.assert_same_bits(got, expected)


def test_layout_channels_last_program_keeps_its_output_order() -> None:
    """The memory format that the eager program returns is what the .pte returns."""
    conv = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    x = (
        torch.linspace(-1, 1, 2 * 3 * 6 * 8)
        .reshape(2, 3, 6, 8)
        .to(memory_format=torch.channels_last)
    )
    fused = quantize(conv, (x,), [x], progress=False)
    (expected,) = routes.eager(fused, (x,))
    for route in routes.ROUTES:
        method = routes.load(bytes(routes.lowered(fused, (x,), route).to_executorch().buffer))
        (got,) = method.execute([x])
        assert torch.equal(got, expected)
        assert got.dim_order() == expected.dim_order() == (0, 2, 3, 1)
