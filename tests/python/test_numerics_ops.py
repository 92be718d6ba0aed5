# SPDX-License-Identifier: BSD-3-Clause
"""Operators of numerics.py against loops over Python integers and against torch in float64."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.nn import functional

from fused_quant import numerics as nm

SEEDS = range(40)


def codes(generator: np.random.Generator, *shape: int, lo: int = -128) -> torch.Tensor:
    return torch.from_numpy(generator.integers(lo, 128, shape, dtype=np.int8))


def loop_conv2d(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    zx: int,
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    groups: int,
) -> npt.NDArray[np.object_]:
    """Convolution by its definition, one Python integer at a time."""
    batch, in_c, in_h, in_w = x.shape
    out_c, group_c, kernel_h, kernel_w = w.shape
    top, left, bottom, right = padding
    out_h = (in_h + top + bottom - dilation[0] * (kernel_h - 1) - 1) // stride[0] + 1
    out_w = (in_w + left + right - dilation[1] * (kernel_w - 1) - 1) // stride[1] + 1
    acc = np.zeros((batch, out_c, out_h, out_w), dtype=object)
    for n, o, i, j in itertools.product(*map(range, acc.shape)):
        total = 0 if bias is None else int(bias[o])
        first = o // (out_c // groups) * group_c
        for c, u, v in itertools.product(range(group_c), range(kernel_h), range(kernel_w)):
            row = i * stride[0] - top + u * dilation[0]
            column = j * stride[1] - left + v * dilation[1]
            if 0 <= row < in_h and 0 <= column < in_w:
                total += (int(x[n, first + c, row, column]) - zx) * int(w[o, c, u, v])
        acc[n, o, i, j] = total
    assert in_c == group_c * groups
    return acc


def random_conv(seed: int) -> dict[str, Any]:
    """Arguments of a small convolution: grouped, depthwise or plain, unequal in every axis."""
    g = np.random.default_rng(seed)
    groups = int(g.choice([1, 1, 2, 3]))
    group_c, group_out = int(g.integers(1, 4)), int(g.integers(1, 4))
    kernel = g.integers(1, 4, 2)
    dilation = g.integers(1, 3, 2)
    size = g.integers(1, 5, 2) + dilation * (kernel - 1)
    bias = torch.from_numpy(g.integers(-(2**30), 2**30, groups * group_out, dtype=np.int32))
    return {
        "x": codes(g, int(g.integers(1, 4)), groups * group_c, *size.tolist()),
        "w": codes(g, groups * group_out, group_c, *kernel.tolist(), lo=-127),
        "bias": None if seed % 4 == 0 else bias,
        "zx": int(g.choice([-128, -1, 0, 37, 127])),
        "stride": tuple(g.integers(1, 4, 2).tolist()),
        "padding": tuple(g.integers(0, 3, 4).tolist()),
        "dilation": tuple(dilation.tolist()),
        "groups": groups,
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_conv2d_is_the_defining_sum(seed: int) -> None:
    case = random_conv(seed)
    assert nm.conv2d(**case).tolist() == loop_conv2d(**case).tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_zero_point_folded_bias_with_padded_taps_is_the_same_sum(seed: int) -> None:
    case = random_conv(seed)
    x, w, bias, zx = (case.pop(name) for name in ("x", "w", "bias", "zx"))
    top, left, bottom, right = case["padding"]
    padded = functional.pad(x.to(torch.int64), (left, right, top, bottom), value=zx)
    folded = nm.fold_bias(bias, w, zx)
    rest = case | {"padding": (0, 0, 0, 0)}
    got = nm.conv2d(padded, w, folded, 0, **rest)
    assert torch.equal(got, nm.conv2d(x, w, bias, zx, **case))


@pytest.mark.parametrize("zx", [-128, -1, 0, 37, 127])
def test_zero_point_border_of_a_padded_convolution(zx: int) -> None:
    x = torch.full((1, 1, 4, 4), 100, dtype=torch.int8)
    acc = nm.conv2d(x, torch.ones(1, 1, 3, 3), None, zx, (1, 1), (1, 1, 1, 1), (1, 1), 1)[0, 0]
    taps = torch.tensor([[4, 6, 6, 4], [6, 9, 9, 6], [6, 9, 9, 6], [4, 6, 6, 4]])
    assert torch.equal(acc, taps * (100 - zx))


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 5, 4), (0, 4)])
def test_shape_linear_of_any_rank_only_has_rows(shape: tuple[int, ...]) -> None:
    g = np.random.default_rng(len(shape))
    x, w = codes(g, *shape), codes(g, 3, 4, lo=-127)
    bias = torch.tensor([-(2**31) + 70000, 5, 2**31 - 1 - 130000], dtype=torch.int32)
    rows = x.reshape(-1, 4).tolist()
    expected = [
        [
            int(b) + sum((v + 128) * k for v, k in zip(row, weights, strict=True))
            for b, weights in zip(bias, w.tolist(), strict=True)
        ]
        for row in rows
    ]
    got = nm.linear(x, w, bias, -128)
    assert got.shape == (*shape[:-1], 3)
    assert got.reshape(-1, 3).tolist() == expected


def test_overflow_longest_dot_product_is_exact() -> None:
    x = torch.full((1, 66311), 127, dtype=torch.int8)
    w = torch.full((1, 66311), 127, dtype=torch.int8)
    assert nm.linear(x, w, None, -128).item() == 66311 * 255 * 127


def test_overflow_pair_sums_beyond_int16() -> None:
    x = torch.tensor([[210 - 128, 198 - 128, 234 - 128], [127, 127, 127]], dtype=torch.int8)
    w = torch.tensor([[-81, -80, 127], [127, 127, 127]], dtype=torch.int8)
    got = nm.linear(x, w, None, -128).tolist()
    assert got == [[-81 * 210 - 80 * 198 + 127 * 234, 127 * 642], [-34 * 255, 255 * 127 * 3]]


# ---- add -----------------------------------------------------------------------------------------

RATIO = st.floats(2.0**-12, 2.0**12)


def nearest_up(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


@settings(max_examples=200)
@given(
    RATIO,
    RATIO,
    RATIO,
    st.sampled_from([1, -1]),
    st.lists(st.integers(-128, 127), min_size=3, max_size=3),
)
@example(1536.0, 2.0**-12, 2.0**-9, 1, [127, 0, 0])  # an output finer than the common grid
def test_add_of_all_codes(sa: float, sb: float, so: float, sign: int, zps: list[int]) -> None:
    za, zb, zo = zps
    multipliers = nm.add_multipliers(sa, sb, so)
    a = torch.arange(-128, 128).to(torch.int8)
    b = a.flip(0)[:, None][::17]
    got = nm.add(a, za, b, zb, *multipliers[:2], sign, multipliers[2], zo, -128, 127, torch.int8)
    assert got.shape == (16, 256)
    ma, mb, mo = (Fraction(m.multiplier, 2**m.shift) for m in multipliers)
    for i, j in itertools.product(range(0, 16, 5), range(0, 256, 15)):
        code_a, code_b = int(a[j]) - za, int(b[i, 0]) - zb
        total = nearest_up(code_a * ma) + sign * nearest_up(code_b * mb)
        assert abs(total) < 2**28
        assert got[i, j] == min(127, max(-128, zo + nearest_up(total * mo)))
        terms = code_a * Fraction(sa) / Fraction(so), sign * code_b * Fraction(sb) / Fraction(so)
        nearest = min(Fraction(127), max(Fraction(-128), sum(terms, Fraction(zo))))
        # One rounding of the result, one of each term (in steps of the common grid), and
        # multipliers that are off by 2^-31 of themselves.
        bound = Fraction(1, 2) + mo + sum(map(abs, terms)) / 2**29
        assert abs(int(got[i, j]) - nearest) <= bound


def test_arg_order_add_with_six_different_qparams() -> None:
    m = nm.add_multipliers(0.5, 0.25, 0.125)
    a, b = torch.tensor([10, -20]), torch.tensor([33, 5])
    got = nm.add(a, -7, b, 12, *m[:2], 1, m[2], 40, -128, 127, torch.int8).tolist()
    assert got == [127, (-20 + 7) * 4 + (5 - 12) * 2 + 40]
    got = nm.add(a, -7, b, 12, *m[:2], -1, m[2], 40, -128, 127, torch.int8).tolist()
    assert got == [(10 + 7) * 4 - (33 - 12) * 2 + 40, (-20 + 7) * 4 - (5 - 12) * 2 + 40]
    with pytest.raises(ValueError, match="sign"):
        nm.add(a, 0, b, 0, *m[:2], 2, m[2], 0, -128, 127, torch.int8)


def test_overflow_near_cancelling_subtraction_saturates() -> None:
    # s_out = 2^-24 makes the output multiplier 2^5: the terms reach 2^27 * 2^5 = 2^32.
    m = nm.add_multipliers(1.0, 1.0, 2.0**-24)
    a, b = torch.tensor([127, -128, 5, 5]), torch.tensor([-128, 127, 5, 6])
    got = nm.add(a, 0, b, 0, *m[:2], -1, m[2], 3, -128, 127, torch.int8)
    assert got.tolist() == [127, -128, 3, -128]


def test_add_16_bit_codes_use_the_smaller_left_shift() -> None:
    m = nm.add_multipliers(1.0, 0.5, 1.0, bits=16)
    assert m[0] == nm.multiplier_from_ratio(2.0**11)
    a, b = torch.tensor([32767, -32768, 100]), torch.tensor([-32768, -32768, 3])
    got = nm.add(a, 0, b, 0, *m[:2], 1, m[2], 0, -32768, 32767, torch.int16)
    assert got.tolist() == [16383, -32768, 102]
    with pytest.raises(KeyError):
        nm.add_multipliers(1.0, 1.0, 1.0, bits=4)


# ---- windows -------------------------------------------------------------------------------------


def random_pool(seed: int) -> tuple[torch.Tensor, dict[str, Any]]:
    g = np.random.default_rng(seed)
    kernel = g.integers(1, 5, 2)
    padding = [int(g.integers(0, k // 2 + 1)) for k in kernel]
    size = kernel + g.integers(0, 6, 2)
    attributes = {
        "kernel": tuple(kernel.tolist()),
        "stride": tuple(g.integers(1, 4, 2).tolist()),
        "padding": tuple(padding),
        "ceil_mode": bool(g.integers(2)),
    }
    return codes(g, int(g.integers(1, 4)), 2, *size.tolist()), attributes


@pytest.mark.parametrize("include_pad", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_attribute_dropped_avg_pool_divisor_is_torchs(seed: int, include_pad: bool) -> None:
    x, attributes = random_pool(seed)
    divisor_override = [None, None, 1, 2, 7][seed % 5]
    total, divisor = nm.avg_pool2d(
        x, 5, count_include_pad=include_pad, divisor_override=divisor_override, **attributes
    )
    expected = functional.avg_pool2d(
        x.double() - 5,
        attributes["kernel"],
        attributes["stride"],
        attributes["padding"],
        attributes["ceil_mode"],
        include_pad,
        divisor_override,
    )
    torch.testing.assert_close(total.double() / divisor, expected, rtol=1e-14, atol=0)


def test_attribute_dropped_avg_pool_ceil_overhang_is_not_counted() -> None:
    x = torch.arange(9, dtype=torch.int8).reshape(1, 1, 1, 9)
    total, divisor = nm.avg_pool2d(x, 0, (1, 7), (1, 3), (0, 3), True, True, None)
    assert total.tolist() == [[[[6, 21, 33, 21]]]]
    assert divisor.tolist() == [[7, 7, 7, 6]]
    with pytest.raises(ValueError, match="divisor_override"):
        nm.avg_pool2d(x, 0, (1, 1), (1, 1), (0, 0), False, False, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_max_pool_matches_torch(seed: int) -> None:
    x, attributes = random_pool(seed)
    got = nm.max_pool2d(x, dilation=(1, 1), **attributes)
    kernel, stride, padding, ceil_mode = attributes.values()
    expected = functional.max_pool2d(x.float(), kernel, stride, padding, 1, ceil_mode)
    assert got.dtype == torch.int8
    assert torch.equal(got.float(), expected)


def test_max_pool_dilated_window_that_misses_the_input() -> None:
    x = torch.tensor([[[[5]]]], dtype=torch.int8)
    assert nm.max_pool2d(x, (2, 1), (1, 1), (1, 0), (2, 1), False).tolist() == [[[[-128]]]]
    x = torch.tensor([[[[1, 9, 2, 8, 3]]]], dtype=torch.int8)
    assert nm.max_pool2d(x, (1, 3), (1, 1), (0, 0), (1, 2), False).tolist() == [[[[3]]]]


@pytest.mark.parametrize("out", [(1, 1), (3, 2), (7, 4), (None, 5), (2, None), (9, 13)])
def test_adaptive_avg_pool_matches_torch(out: tuple[int | None, int | None]) -> None:
    x = codes(np.random.default_rng(3), 2, 3, 7, 8)
    total, divisor = nm.adaptive_avg_pool2d(x, -3, out)
    expected = functional.adaptive_avg_pool2d(x.double() + 3, out)
    torch.testing.assert_close(total.double() / divisor, expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("zp", [0, -3])
def test_rounding_average_rounds_half_away_from_zero(zp: int) -> None:
    total = torch.tensor([2, -2, 6, -6, 10, -10, 5, -5, 7, -7])
    got = nm.average(total, torch.tensor(4), 1.0, zp, 1.0, zp, -128, 127, torch.int8)
    assert got.tolist() == [v + zp for v in [1, -1, 2, -2, 3, -3, 1, -1, 2, -2]]


@given(st.lists(st.integers(-(2**22), 2**22), min_size=1, max_size=5), st.integers(1, 5000))
def test_average_matches_fractions(totals: list[int], n: int) -> None:
    def half_away(value: Fraction) -> int:
        return nearest_up(abs(value)) * (1 if value > 0 else -1)

    sums = torch.tensor(totals)
    got = nm.average(sums, torch.tensor(n), 0.5, 9, 0.5, 9, -32768, 32767, torch.int16)
    assert got.tolist() == [min(32767, max(-32768, 9 + half_away(Fraction(v, n)))) for v in totals]
    got = nm.average(sums, torch.tensor(n), 0.5, 9, 0.75, -4, -32768, 32767, torch.int16)
    m = nm.multiplier_from_ratio(0.5 / (n * 0.75))
    ratio = Fraction(m.multiplier, 2**m.shift)
    assert got.tolist() == [min(32767, max(-32768, nearest_up(v * ratio) - 4)) for v in totals]


def test_average_uses_the_multiplier_of_each_divisor() -> None:
    total = torch.full((2, 3, 2, 2), 24)
    divisor = torch.tensor([[1, 2], [4, 24]])
    got = nm.average(total, divisor, 0.5, 0, 0.25, 10, -128, 127, torch.int8)
    assert got.tolist() == [[[[58, 34], [22, 12]]] * 3] * 2


AXES: list[tuple[int, ...]] = [(-1,), (1, 3), (-2, -1), (0,), (0, 1, 2, 3), (), (3, 1), (-1, 0)]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("axes", AXES)
def test_attribute_dropped_mean_reduces_the_listed_axes(
    axes: tuple[int, ...], keepdim: bool
) -> None:
    x = codes(np.random.default_rng(9), 2, 3, 4, 5)
    count = math.prod(x.shape[a] for a in axes) if axes else x.numel()
    m = nm.average_multiplier(0.5, count, 0.125)
    got = nm.mean(x, 11, axes, keepdim, m, -4, -128, 127, torch.int8)
    real = (x.double() - 11).mean(axes or None, keepdim=keepdim) * 4 - 4
    assert got.shape == real.shape
    assert got.dtype == torch.int8
    assert (got - real.clamp(-128, 127)).abs().max() <= 0.5 + 1e-6


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_batch_items_are_independent(batch: int) -> None:
    g = np.random.default_rng(batch)
    x, w = codes(g, batch, 2, 5, 4), codes(g, 3, 2, 3, 2, lo=-127)

    def run(part: torch.Tensor) -> list[torch.Tensor]:
        return [
            nm.conv2d(part, w, None, 7, (2, 1), (1, 0, 1, 1), (1, 1), 1),
            nm.linear(part, codes(np.random.default_rng(0), 3, 4), None, -5),
            nm.max_pool2d(part, (2, 3), (1, 2), (1, 1), (1, 1), True),
            nm.avg_pool2d(part, 3, (2, 2), (2, 1), (0, 1), False, False, None)[0],
            nm.adaptive_avg_pool2d(part, 3, (2, 3))[0],
            nm.mean(part, 3, (2, 3), True, nm.Multiplier(2**30, 33), 0, -128, 127, torch.int8),
        ]

    together = run(x)
    for k in range(batch):
        for whole, item in zip(together, run(x[k : k + 1]), strict=True):
            assert torch.equal(whole[k : k + 1], item)
