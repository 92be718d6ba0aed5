# SPDX-License-Identifier: BSD-3-Clause
"""Graphs with chosen scales and zero points, run by the C++ runtime, against exact integers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.frontend import exact
from tests.frontend.graphs import Graph, Grid, Weights, fused, run_natively

torch.set_num_threads(1)


def _codes(*shape: int) -> Tensor:
    count = int(torch.tensor(shape).prod())
    return (torch.arange(count) * 89 % 256 - 128).reshape(shape).to(torch.int8)


def _weights(*shape: int) -> Tensor:
    return (_codes(*shape).int() * 3 % 255 - 127).clamp(-127, 127).to(torch.int8)


def _both(function: Callable[..., Any], *inputs: Tensor, **modules: Weights) -> Tensor:
    """The C++ result of a graph of codes, after checking that eager gives the same."""
    module = Graph(function, **modules)
    (got,) = run_natively(module, *inputs)
    assert torch.equal(fused(module, *inputs)(*inputs), got)
    return got


@dataclasses.dataclass(frozen=True)
class _Conv:
    """x [N, C, H, W], a weight shape, and the rest of a convolution's arguments."""

    x: tuple[int, int, int, int]
    weight: tuple[int, int, int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    outer: tuple[int, int, int, int] = (0, 0, 0, 0)  # left, right, top, bottom, as pad takes them

    def check(self, zero_point: int, x: Tensor, weight: Tensor, scales: list[float]) -> None:
        source, target = Grid(0.25, zero_point), Grid(1.5, 9)

        def function(w: Weights, codes: Tensor) -> Tensor:
            padded = functional.pad(source.dequantize(codes), self.outer)
            return target.quantize(
                functional.conv2d(
                    padded, w(), None, self.stride, self.padding, self.dilation, self.groups
                )
            )

        got = _both(function, x, w=Weights(weight, scales))
        left, right, top, bottom = self.outer
        height, width = self.padding
        sides = (top + height, bottom + height, left + width, right + width)
        sums = exact.convolve(x, weight, zero_point, self.stride, sides, self.dilation, self.groups)
        factors = scales * (weight.shape[0] // len(scales))
        expected = [
            [
                [
                    [exact.rescale(acc, 0.25 * exact.float32(factors[o]) / 1.5, 9) for acc in row]
                    for row in plane
                ]
                for o, plane in enumerate(image)
            ]
            for image in sums
        ]
        assert got.tolist() == expected


PADDED = {
    "border": _Conv((1, 1, 4, 4), (1, 1, 3, 3), padding=(1, 1)),
    "one-side": _Conv((1, 1, 4, 4), (1, 1, 3, 3), stride=(2, 2), padding=(1, 1)),
    "outer": _Conv((1, 2, 4, 3), (2, 2, 2, 2), outer=(0, 1, 2, 0)),
    "dilated": _Conv((1, 2, 6, 5), (3, 2, 3, 3), padding=(2, 1), dilation=(2, 1)),
    "dilated-wide": _Conv((1, 1, 3, 8), (1, 1, 1, 3), padding=(0, 2), dilation=(1, 2)),
    "depthwise": _Conv((1, 2, 5, 4), (4, 1, 3, 3), padding=(1, 1), dilation=(1, 2), groups=2),
}


@pytest.mark.parametrize("zero_point", [-128, -1, 0, 37, 127])
@pytest.mark.parametrize("name", PADDED)
def test_zero_point_of_padded_taps(name: str, zero_point: int) -> None:
    """Corner, edge and centre follow one formula, with constant and with varied operands."""
    conv = PADDED[name]
    conv.check(zero_point, _codes(*conv.x), _weights(*conv.weight), [0.02])
    ones = torch.full(conv.x, zero_point, dtype=torch.int8)
    conv.check(zero_point, ones, torch.full(conv.weight, 100, dtype=torch.int8), [0.02])


CHANNELS = {
    "depthwise-multiplier4": _Conv((2, 3, 4, 5), (12, 1, 3, 3), groups=3),
    "one-input-channel": _Conv((1, 1, 4, 5), (4, 1, 3, 3)),
    "grouped-one-output-each": _Conv((1, 6, 4, 3), (3, 2, 3, 3), groups=3),
    "depthwise": _Conv((2, 4, 4, 3), (4, 1, 3, 3), groups=4),
    "grouped": _Conv((1, 8, 3, 4), (12, 2, 3, 3), groups=4),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_per_channel_scales_and_groups(name: str) -> None:
    """Every output channel has its own scale and reads its own input channels."""
    conv = CHANNELS[name]
    scales = [0.002 * (o + 1) for o in range(conv.weight[0])]
    conv.check(-5, _codes(*conv.x), _weights(*conv.weight), scales)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [((5, 1), 1, 0), ((1, 5), 1, 0), ((1, 1), 2, 0), ((1, 1), 1, 1), ((1, 1), 1, 0)],
)
def test_fast_path_shapes(kernel: tuple[int, int], stride: int, padding: int, batch: int) -> None:
    shape = (batch, 4, 6, 7)
    conv = _Conv(shape, (8, 4, *kernel), (stride, stride), (padding, padding))
    conv.check(11, _codes(*shape), _weights(*conv.weight), [0.01])


def _dot(codes: Tensor, weights: Tensor, ratio: float, zero_point: int = 0) -> list[list[int]]:
    """Codes out of a bias-less linear whose s_x * s_w / s_out is `ratio`."""
    source, target = Grid(1.0, zero_point), Grid(1.0, 0)

    def function(w: Weights, codes: Tensor) -> Tensor:
        return target.quantize(functional.linear(source.dequantize(codes), w()))

    return _both(function, codes, w=Weights(weights, [ratio])).tolist()


def test_rounding_of_the_accumulator_is_single() -> None:
    codes = torch.arange(-8, 9, dtype=torch.int8).reshape(-1, 1)
    got = _dot(codes, torch.ones(1, 1), 0.25)
    assert [row[0] for row in got] == [exact.rescale(v, 0.25, 0) for v in range(-8, 9)]
    assert (got[8 + 1], got[8 + 2], got[8 + 5], got[8 - 2]) == ([0], [1], [1], [0])


def test_overflow_of_products_in_sixteen_bits() -> None:
    """Sums of two products beyond 16 bits, in the layouts where saturating instructions lie."""
    codes = torch.tensor([[210, 198, 234], [255, 255, 255], [0, 0, 0]]) - 128
    weights = torch.tensor([[-81, -80, 127], [127, 127, 127], [-127, -127, 127]])
    got = _dot(codes.to(torch.int8), weights, 2.0**-10, -128)
    expected = [
        [
            exact.rescale(
                sum((int(a) + 128) * int(b) for a, b in zip(row, channel, strict=True)),
                2.0**-10,
                0,
            )
            for channel in weights
        ]
        for row in codes
    ]
    assert got == expected


@pytest.mark.parametrize(
    ("s_x", "s_w", "s_out"),
    [(0.052, 2.39, 0.112), (0.1, 4.64, 0.1), (0.5, 37.5, 0.5), (1e-4, 1e-4, 100.0), (1e-3, 1, 1)],
)
def test_range_of_the_effective_scale(s_x: float, s_w: float, s_out: float) -> None:
    """Ratios above 1 and below 2^-31."""
    source, target = Grid(s_x, 4), Grid(s_out, -3)

    def function(w: Weights, codes: Tensor) -> Tensor:
        return target.quantize(functional.linear(source.dequantize(codes), w()))

    codes, weights = _codes(3, 4), _weights(2, 4) // 8
    got = _both(function, codes, w=Weights(weights, [s_w]))
    ratio = exact.float32(s_x) * exact.float32(s_w) / exact.float32(s_out)
    for row in range(3):
        for channel in range(2):
            acc = sum(
                (int(c) - 4) * int(w) for c, w in zip(codes[row], weights[channel], strict=True)
            )
            assert int(got[row, channel]) == exact.rescale(acc, ratio, -3)


@pytest.mark.parametrize("zero_point", [0, 3])
def test_rounding_of_quantize_is_half_to_even(zero_point: int) -> None:
    steps = [sign * value for value in (0.5, 1.5, 2.5, 126.5) for sign in (1, -1)]
    grid, out = Grid(0.25, zero_point), Grid(0.25, zero_point)
    x = torch.tensor([steps]) * 0.25
    got = _both(lambda x: out.quantize(functional.hardtanh(grid.round(x), -40.0, 40.0)), x)
    expected = [min(127, max(-128, round(value) + zero_point)) for value in steps]
    assert got[0].tolist() == expected


@pytest.mark.parametrize("zero_point", [0, -3])
def test_rounding_of_average_pool_is_half_away(zero_point: int) -> None:
    sums = [2, 6, 10, -2, -6, -10, 4, -4]
    windows = torch.tensor([[value - 3 * (value // 4), *[value // 4] * 3] for value in sums])
    assert windows.sum(1).tolist() == sums
    codes = (windows + zero_point).reshape(1, 8, 2, 2).to(torch.int8)
    grid = Grid(0.5, zero_point)
    got = _both(lambda c: grid.quantize(functional.avg_pool2d(grid.dequantize(c), 2)), codes)
    expected = [exact.half_away(Fraction(value, 4)) + zero_point for value in sums]
    assert got.reshape(-1).tolist() == expected


@pytest.mark.parametrize("scale", [0.5, 2.0**-126])
def test_saturation_of_quantize(scale: float) -> None:
    """Infinite and huge values reach the nearer rail, NaN the zero point, at every length."""
    values = [
        float("inf"),
        -float("inf"),
        float("nan"),
        2.0**32,
        -(2.0**32),
        1e30,
        -1e30,
        3e38,
        0.0,
    ]
    rails = [127, -128, 5, 127, -128, 127, -128, 127, 5]
    grid = Grid(scale, 5)
    module = Graph(lambda x: grid.quantize(functional.hardtanh(grid.round(x), -3e38, 3e38)))
    for length in (1, 7, 8, 9, 15, 16, 17, 31, 33, 40):
        picks = [i * 4 % 9 for i in range(length)]
        x = torch.tensor([[values[i] for i in picks]])
        (got,) = run_natively(module, x)
        assert got[0].tolist() == [rails[i] for i in picks]
        # Eager mode quantizes with torch's operator, whose NaN is another code.
        same = ~x.isnan()
        assert torch.equal(fused(module, x)(x)[same], got[same])


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("axes", [(-1,), (1, 3), (-2, -1), (0,), (3, 0, 2, 1), (3, 2)])
def test_attribute_dropped_axes_of_mean(axes: tuple[int, ...], keepdim: bool) -> None:
    codes = _codes(2, 3, 4, 5)
    source, target = Grid(0.5, 17), Grid(0.25, -9)
    got = _both(lambda c: target.quantize(source.dequantize(c).mean(axes, keepdim)), codes)
    total = (codes.long() - 17).sum(axes, keepdim)
    assert got.shape == total.shape
    count = codes.numel() // total.numel()
    expected = [exact.rescale(int(v), 0.5 / (count * 0.25), -9) for v in total.reshape(-1)]
    assert got.reshape(-1).tolist() == expected


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("divisor", [None, 2])
def test_attribute_dropped_divisor_of_average_pool(
    ceil: bool, include: bool, divisor: int | None
) -> None:
    """Torch's divisor: an overhang of ceil_mode never counts, padding only when asked."""
    codes = _codes(1, 2, 9, 7)
    source, target = Grid(0.5, 3), Grid(0.5, 3)

    def pool(real: Tensor) -> Tensor:
        return functional.avg_pool2d(real, (3, 2), (3, 2), (1, 1), ceil, include, divisor)

    got = _both(lambda c: target.quantize(pool(source.dequantize(c))), codes)
    means = pool(codes.double() - 3)
    expected = [
        min(127, max(-128, 3 + exact.half_away(Fraction(float(v)).limit_denominator(64))))
        for v in means.reshape(-1)
    ]
    assert got.reshape(-1).tolist() == expected
