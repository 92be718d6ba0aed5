# SPDX-License-Identifier: BSD-3-Clause
"""Weights of 4 bits, per channel and in groups of channels: arithmetic, storage, quantizer."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import fused_quant
from fused_quant import dialect, inspect, payload
from fused_quant.quantizer import default_config
from tests.e2e import routes
from tests.frontend.blocks import FLOAT, OPS, block, codes
from tests.frontend.exact import convolve
from tests.frontend.graphs import Graph, Grid, exported, fused, payload_of, run_natively

torch.set_num_threads(1)
IN, OUT = Grid(0.5, 3), Grid(0.02, -7)


def _nibbles(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-8, 8, (math.prod(shape),), generator=generator)
    values[: min(2, len(values))] = torch.tensor([-8, 7])[: min(2, len(values))]
    return values.reshape(shape).to(torch.int8)


# ---- the arithmetic of groups, in Python's fractions ---------------------------------------------


def _kept(ratios: list[float]) -> tuple[list[int], int]:
    """Multipliers and shift: the largest shift up to 62 that keeps all of them below 2^31."""
    exact = [Fraction(ratio) for ratio in ratios]
    shift = max(s for s in range(63) if round(max(exact) * 2**s) < 2**31)
    return [round(ratio * 2**shift) for ratio in exact], shift


def _assert_groups(
    got: Tensor, acc: list[list[list[int]]], bias: Tensor, s_x: float, scale: Tensor, out: Any
) -> None:
    """acc[place][channel][group]; the code, and its distance from exact real arithmetic."""
    s_o, zero_point, (low, high) = float(out[0]), int(out[1]), out[3:]
    for place, row in enumerate(acc):
        for channel, sums in enumerate(row):
            ratios = [(s_x * s_w) / s_o for s_w in scale[min(channel, len(scale) - 1)].tolist()]
            m, shift = _kept(ratios)
            b = int(bias[channel])
            value = b * max(m) + sum(a * k for a, k in zip(sums, m, strict=True))
            code = zero_point + math.floor(Fraction(value, 2**shift) + Fraction(1, 2))
            assert int(got[place, channel]) == min(max(code, low), high)
            exact = b * Fraction(max(ratios)) + sum(
                a * Fraction(r) for a, r in zip(sums, ratios, strict=True)
            )
            reach = abs(b) + sum(map(abs, sums))
            assert abs(Fraction(value, 2**shift) - exact) <= Fraction(reach, 2 ** (shift + 1))


@pytest.mark.parametrize("zero_point", [-128, 5, 127])
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("size", [1, 3, 4])
def test_linear_in_groups(size: int, rows: int, zero_point: int) -> None:
    """Scales far apart, a whole factor of 2^20 in one channel; one row of scales for all, too."""
    generator = torch.Generator().manual_seed(size)
    x, w = codes(7, 12, seed=1), _nibbles(5, 12, seed=2)
    scale = 2.0 ** (torch.rand(rows, 12 // size, generator=generator) * 4 - 6)
    scale[0, 0] *= 2.0**-20
    bias = torch.tensor([-30_000, 0, 17, 2**28, -5], dtype=torch.int32)
    source, out = block(0.031, zero_point), block(0.9, 9, out=True)
    b_scale = (0.031 * scale.double().amax(1)).float().expand(1 if rows == 1 else 5).clone()
    b_block = (
        b_scale,
        torch.zeros(len(b_scale), dtype=torch.int64),
        torch.float32,
        -(2**31),
        2**31 - 1,
    )
    got = OPS.linear(x, w, bias, *source, *block(scale), *b_block, *out)
    acc = [
        [
            [
                sum(
                    (a - zero_point) * b
                    for a, b in zip(row[i : i + size], taps[i : i + size], strict=True)
                )
                for i in range(0, 12, size)
            ]
            for taps in w.tolist()
        ]
        for row in x.tolist()
    ]
    _assert_groups(got, acc, bias, float(source[0]), scale, out)


@pytest.mark.parametrize("groups", [1, 2])
def test_conv2d_in_groups(groups: int) -> None:
    x, w = codes(2, 4 * groups, 5, 4, seed=1), _nibbles(4, 4, 3, 2, seed=2)
    scale = torch.rand(4, 2, 1, 1, generator=torch.Generator().manual_seed(3)) / 40 + 0.001
    source, out = block(0.05, -128), block(1.3, 4, out=True)
    stride, sides, dilation = (2, 1), (1, 1, 2, 2), (1, 2)
    attributes = ([2, 1], [1, 2], [1, 2], groups)
    got = OPS.conv2d(x, w, None, *source, *block(scale), *FLOAT, *out, *attributes)
    parts = []
    for first in (0, 2):
        masked = torch.zeros_like(w)
        masked[:, first : first + 2] = w[:, first : first + 2]
        parts.append(convolve(x, masked, -128, stride, sides, dilation, groups))
    sums = torch.tensor(parts).permute(1, 3, 4, 2, 0).reshape(-1, 4, 2)
    rows = got.permute(0, 2, 3, 1).reshape(-1, 4)
    bias = torch.zeros(4, dtype=torch.int32)
    _assert_groups(rows, sums.tolist(), bias, float(source[0]), scale.reshape(4, 2), out)


def test_error_of_groups_against_float64() -> None:
    """Codes differ from rounding exact reals (float64) in fewer than one of 100,000 outputs."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-128, 128, (500, 256), generator=generator).to(torch.int8)
    w = torch.randint(-8, 8, (400, 256), generator=generator).to(torch.int8)
    scale = torch.rand(400, 8, generator=generator) / 100 + 0.001
    source, out = block(0.02, -5), block(0.05, 3, out=True)
    got = OPS.linear(x, w, None, *source, *block(scale), *FLOAT, *out)
    real = w.double() * scale.double().repeat_interleave(32, 1)
    exact = ((x.double() + 5) * float(source[0])) @ real.T / float(out[0])
    wanted = (torch.floor(exact + 0.5) + 3).clamp(-128, 127)
    assert int((got.double() - wanted).abs().max()) <= 1
    assert float((got != wanted).double().mean()) < 1e-5


# ---- storage -------------------------------------------------------------------------------------


class _Weight(nn.Module):
    """Codes with a scale per channel, of a range that is said in the graph."""

    def __init__(self, weight: Tensor, low: int, high: int) -> None:
        super().__init__()
        self.register_buffer("codes", weight)
        self.register_buffer("scales", torch.linspace(0.01, 0.04, len(weight)))
        self.register_buffer("zeros", torch.zeros(len(weight), dtype=torch.int64))
        self.bounds = (low, high)

    def forward(self) -> Tensor:
        result: Tensor = torch.ops.quantized_decomposed.dequantize_per_channel.default(
            self.codes, self.scales, self.zeros, 0, *self.bounds, torch.int8
        )
        return result


def _network(low: int, high: int, last: Tensor | None = None) -> nn.Module:
    functional = nn.functional
    weights = {
        "conv": _Weight(_nibbles(7, 3, 3, 2, seed=1), low, high),
        "deep": _Weight(_nibbles(7, 1, 3, 3, seed=2), low, high),
        "row": _Weight(_nibbles(6, 7, 3, seed=3), low, high),
        "last": _Weight(_nibbles(5, 6, seed=4) if last is None else last, low, high),
    }
    mid = Grid(0.1, 5)

    def function(conv: Any, deep: Any, row: Any, last: Any, x: Tensor) -> Tensor:
        y = mid.round(functional.conv2d(IN.round(x), conv(), None, 2, 1))
        y = mid.round(functional.conv2d(y, deep(), None, 1, 1, 1, 7))
        y = mid.round(functional.conv1d(y.flatten(2), row(), None, 1, 2))
        return OUT.round(functional.linear(y.permute(0, 2, 1), last()))

    return Graph(function, **weights)


IMAGE = torch.linspace(-60, 60, 2 * 3 * 9 * 7).reshape(2, 3, 9, 7)


def test_a_declared_range_of_four_bits_is_packed_and_changes_no_bit() -> None:
    wide, narrow = _network(-127, 127), _network(-8, 7)
    data = [payload_of(module, IMAGE) for module in (wide, narrow)]
    names = [op.opcode for op in payload.deserialize(data[0]).ops]
    assert {"conv2d", "depthwise_conv2d", "linear"} <= set(names)
    packed = payload.deserialize(data[1])
    names = [op.opcode for op in packed.ops]
    assert names.count("conv2d_w4") == 3
    assert names.count("linear_w4") == 1
    counts = [126, 63, 126, 30]
    sizes = [t.nbytes for t in packed.tensors if t.dtype == "s4"]
    assert sizes == [(count + 1) // 2 for count in counts]
    outputs = [run_natively(module, IMAGE)[0] for module in (wide, narrow)]
    assert torch.equal(*outputs)
    assert torch.equal(outputs[1], fused(narrow, IMAGE)(IMAGE))
    assert outputs[0].unique().numel() > 40


def test_a_code_beyond_the_declared_range_is_not_packed() -> None:
    last = _nibbles(5, 6, seed=4)
    last[2, 3] = 8
    names = [op.opcode for op in payload.deserialize(payload_of(_network(-8, 7, last), IMAGE)).ops]
    assert names.count("linear") == 1
    assert "linear_w4" not in names
    assert names.count("conv2d_w4") == 3


def test_packing_order() -> None:
    """The first code in the low half; nothing behind an odd last one."""
    values = np.array([[1, -1, 7], [-8, 0, 5], [-2, 3, 4]], np.int8)
    packed = payload.pack_s4(values)
    assert packed == bytes([0xF1, 0x87, 0x50, 0x3E, 0x04])
    assert np.array_equal(payload.unpack_s4(packed, 9).reshape(3, 3), values)


# ---- from the quantizer to the delegate ----------------------------------------------------------


class _Network(nn.Module):
    """Every operator that packs its weight, and two that do not."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 12, 3, padding=1)
        self.deep = nn.Conv2d(12, 12, 3, padding=1, groups=12)
        self.pair = nn.Conv2d(12, 16, 1, groups=2)
        self.row = nn.Conv1d(16, 8, 3)
        self.up = nn.ConvTranspose1d(8, 8, 2)
        self.dense = nn.Linear(8, 10)
        self.odd = nn.Linear(10, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.pair(self.deep(self.conv(x).relu()))
        y = self.up(self.row(y.flatten(2)))
        result: Tensor = self.odd(self.dense(y.mean(2)))
        return result


def _converted(group_size: int | None) -> tuple[Any, Tensor]:
    torch.manual_seed(0)
    module, x = _Network().eval(), torch.randn(2, 8, 6, 5)
    config = default_config(weight_bits=4, group_size=group_size)
    prepared = prepare_pt2e(exported(module, x), fused_quant.default_quantizer(config))
    prepared(x)
    return convert_pt2e(prepared), x


def test_groups_from_the_quantizer_to_the_delegate() -> None:
    """In either order of fusing and lowering; the packed file is smaller by the halves."""
    graph, x = _converted(4)
    wanted = graph(x)
    edge = routes.lowered(graph, (x,), routes.TO_EDGE)
    assert routes.is_one_delegate_call(edge)
    fused_graph = fused_quant.fuse(graph)
    eager = fused_graph(x)
    assert float((eager - wanted).abs().max()) <= 2 * 0.01
    edge = routes.lowered(fused_graph, (x,), routes.ROUTES[1])
    assert routes.is_one_delegate_call(edge)
    (data,) = payload.extract_payloads(bytes(edge.to_executorch().buffer))
    program = payload.deserialize(data)
    sizes = {op.name: op.params.groupSize for op in program.ops if op.opcode.endswith("_w4")}
    assert sorted(sizes.values()) == [0, 0, 0, 4, 4, 4]  # 1, 6 and 10 input channels: per channel
    assert [op.opcode for op in program.ops].count("conv_transpose2d") == 1
    blocks = [t.qparams.scale_shape for t in program.tensors if t.qparams and t.qparams.scale_shape]
    assert sorted(blocks) == [(8, 1, 1, 4), (10, 2), (12, 1, 1, 2)]
    shown = inspect.to_text(inspect.inspect_payload(data))
    assert "group_size 4" in shown
    assert "s4 10x8" in shown
    assert torch.equal(run_natively(fused_graph, x)[0], eager)


def test_ranges_and_scales_of_the_configuration() -> None:
    graph, _ = _converted(4)
    fused_graph = fused_quant.fuse(graph)
    found = []
    for node in fused_graph.graph.nodes:
        if node.op == "call_function" and (
            "linear" in str(node.target) or "conv" in str(node.target)
        ):
            weight = dialect.blocks_of(fused_graph, node)["weight"]
            assert weight is not None
            bounds = (weight.quant_min, weight.quant_max)
            found.append((bounds, tuple(weight.scale.shape)))
    four, eight = (-8, 7), (-127, 127)
    assert found == [
        (four, (12, 2, 1, 1)),
        (four, (12, 1, 1, 1)),
        (four, (16, 1, 1, 1)),
        (four, (8, 4, 1)),
        (eight, (1, 8, 1)),
        (four, (10, 2)),
        (four, (6, 1)),
    ]


class _InGroups(nn.Module):
    """A linear, or a conv3d, between quantized tensors; scales in groups of two input channels."""

    def __init__(self, weight: Tensor, low: int, real: bool) -> None:
        super().__init__()
        shape = (len(weight), weight.shape[1] // 2, *[1] * (weight.dim() - 2))
        self.register_buffer("weight", weight)
        self.register_buffer("scale", torch.rand(shape, generator=torch.Generator()) / 50 + 0.01)
        self.register_buffer("zero", torch.zeros(shape, dtype=torch.int64))
        self.low, self.real = low, real

    def forward(self, x: Tensor) -> Tensor:
        stored = (torch.int8, self.low, -self.low - 1)
        sizes = [1, 2, *self.get_buffer("weight").shape[2:]]
        weight = torch.ops.torchao.dequantize_affine.default(
            self.weight, sizes, self.scale, self.zero, *stored
        )
        operator: Any = nn.functional.linear if weight.dim() == 2 else nn.functional.conv3d
        result: Tensor = operator(IN.round(x), weight)
        return result if self.real else OUT.round(result)


@pytest.mark.parametrize(
    ("weight", "low", "real", "words"),
    [
        (_nibbles(3, 4), -128, False, "groups of 2, codes in \\[-128, 127\\]"),
        (_nibbles(3, 4, 1, 1, 1), -8, False, "groups in linear, conv1d and conv2d"),
        (_nibbles(3, 4), -8, True, "a float result"),
    ],
)
def test_groups_that_are_left_outside(weight: Tensor, low: int, real: bool, words: str) -> None:
    shape = (2, 4) if weight.dim() == 2 else (2, 4, 2, 2, 2)
    x = torch.linspace(-9, 9, math.prod(shape)).reshape(shape)
    program = torch.export.export(fused(_InGroups(weight, low, real), x), (x,))
    report = fused_quant.explain(program)
    assert re.search(words, str(report))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weight_bits": 3}, "weight_bits: got 3, supported: 4, 8"),
        ({"group_size": 32}, "group_size: got 32 with weight_bits=8"),
        ({"weight_bits": 4, "group_size": 0}, "group_size: got 0 with weight_bits=4"),
        ({"weight_bits": 4, "group_size": 32, "qat": True}, "group_size: got qat=True"),
    ],
)
def test_configurations_that_there_are_not(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        default_config(**arguments)
