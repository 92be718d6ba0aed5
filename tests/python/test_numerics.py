# SPDX-License-Identifier: BSD-3-Clause
"""Scalar rules of numerics.py against Python big integers and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fused_quant import numerics as nm

INT32 = st.integers(-(2**31), 2**31 - 1)
EDGE_ACC = [-(2**31), -(2**31) + 1, -(2**30), -3, -1, 0, 1, 2, 3, 2**30, 2**31 - 2, 2**31 - 1]
EDGE_MULTIPLIER = [0, 1, 2**30 - 1, 2**30, 2**30 + 1, 3 * 2**29, 2**31 - 2, 2**31 - 1]
ZERO_POINT = st.one_of(st.sampled_from([-128, -127, -1, 0, 1, 126, 127]), st.integers(-128, 127))


def big_r(v: int, multiplier: int, shift: int) -> int:
    """Nearest integer to v * multiplier / 2^shift, halves up, from exact fractions."""
    return math.floor(Fraction(v * multiplier, 2**shift) + Fraction(1, 2))


def float32(value: float | Fraction) -> float:
    """The nearest float32 number."""
    return float(np.float32(float(value)))


SCALE = st.builds(
    lambda mantissa, exponent: float32(mantissa * 2.0**exponent),
    st.one_of(st.just(1.0), st.floats(1.0, 2.0, width=32)),
    st.integers(-40, 20),
)


# ---- R(v; m, s) ----------------------------------------------------------------------------------


def test_rescale_on_every_edge() -> None:
    acc = torch.tensor(EDGE_ACC, dtype=torch.int64)
    for multiplier in EDGE_MULTIPLIER:
        for shift in range(2, 63):
            got = nm.rescale(acc, nm.Multiplier(multiplier, shift)).tolist()
            assert got == [big_r(v, multiplier, shift) for v in EDGE_ACC], (multiplier, shift)


@given(st.lists(INT32, min_size=1, max_size=8), st.integers(0, 2**31 - 1), st.integers(2, 62))
def test_rescale_matches_big_integers(acc: list[int], multiplier: int, shift: int) -> None:
    got = nm.rescale(torch.tensor(acc), nm.Multiplier(multiplier, shift)).tolist()
    assert got == [big_r(v, multiplier, shift) for v in acc]


def test_rescale_rounds_every_tie_up() -> None:
    for shift in range(31, 63):
        step = 2 ** (shift - 30)  # R = v / step with multiplier 2^30
        ties = [k * step + step // 2 for k in range(-9, 9) if abs(k + 1) * step < 2**31]
        got = nm.rescale(torch.tensor(ties, dtype=torch.int64), nm.Multiplier(2**30, shift))
        assert got.tolist() == [(v - step // 2) // step + 1 for v in ties]


def test_rounding_quarter_is_rounded_once() -> None:
    # A doubling high multiply followed by a rounding shift gives 1 -> 1 and 5 -> 2.
    got = nm.rescale(torch.arange(-8, 9), nm.multiplier_from_ratio(0.25)).tolist()
    assert got == [-2, -2, -1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]


def test_overflow_large_accumulators_reach_the_right_rail() -> None:
    acc = torch.tensor([2**31 - 1, -(2**31)])
    assert nm.rescale(acc, nm.Multiplier(2**31 - 1, 31)).tolist() == [2**31 - 2, -(2**31) + 1]
    for shift in (2, 30, 31, 32, 33, 61, 62):
        got = nm.requantize(acc, nm.Multiplier(2**31 - 1, shift), 0, -128, 127, torch.int8)
        expected = [min(127, max(-128, big_r(v, 2**31 - 1, shift))) for v in acc.tolist()]
        assert got.tolist() == expected


def test_rescale_refuses_accumulators_beyond_int32() -> None:
    for v in (2**31, -(2**31) - 1):
        with pytest.raises(ValueError, match="supported: int32"):
            nm.rescale(torch.tensor([0, v]), nm.Multiplier(1, 31))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_per_channel_each_index_of_the_axis_has_its_own_multiplier(axis: int) -> None:
    acc = torch.randint(-(2**31), 2**31, (2, 3, 4), generator=torch.Generator().manual_seed(axis))
    multipliers = [nm.Multiplier(2**30 + 77 * k, 30 + 9 * k) for k in range(acc.shape[axis])]
    got = nm.rescale(acc, multipliers, axis)
    for index, m in enumerate(multipliers):
        assert torch.equal(got.select(axis, index), nm.rescale(acc.select(axis, index), m))
    with pytest.raises(ValueError, match="multipliers"):
        nm.rescale(acc, multipliers + multipliers[:1], axis)


@given(INT32, st.integers(0, 2**31 - 1), st.integers(2, 62), ZERO_POINT)
def test_requantize_saturates_after_the_zero_point(v: int, m: int, s: int, zp: int) -> None:
    for lo, hi, dtype in ((-128, 127, torch.int8), (-127, 100, torch.int8), (zp, 127, torch.int8)):
        got = nm.requantize(torch.tensor([v]), nm.Multiplier(m, s), zp, lo, hi, dtype)
        assert got.dtype == dtype
        assert got.item() == min(hi, max(lo, zp + big_r(v, m, s)))


# ---- M(r) ----------------------------------------------------------------------------------------


@settings(max_examples=500)
@given(st.floats(2.0**-80, 2.0**28.9))
@example(2.0**-32)
@example(2.0**-33)
@example(math.nextafter(1.0, 0.0))
@example(math.nextafter(2.0**29, 0.0) / 2)
@example((2**31 - 1.5) / 2**31)
@example((2**31 - 0.5) / 2**31)
@example((2**30 + 0.5) / 2**31)
@example((2**30 + 1.5) / 2**31)
def test_multiplier_is_the_nearest_31_bit_number(ratio: float) -> None:
    m = nm.multiplier_from_ratio(ratio)
    exact = Fraction(ratio)
    exponent = 0  # 2^exponent <= ratio < 2^(exponent + 1)
    while exact >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while exact < Fraction(2) ** exponent:
        exponent -= 1
    raw_shift = 30 - exponent
    nearest = round(exact * 2**raw_shift)  # Fraction rounds half to even
    if nearest == 2**31:
        nearest, raw_shift = 2**30, raw_shift - 1
    lost = max(0, raw_shift - 62)
    assert (m.multiplier, m.shift) == (nearest >> lost, raw_shift - lost)
    assert lost or 2**30 <= m.multiplier < 2**31


def test_range_shift_says_where_the_ratio_lies() -> None:
    below = math.nextafter(0.5, 0.0)
    assert nm.multiplier_from_ratio(below - 2.0**-33).shift == 32
    assert nm.multiplier_from_ratio(0.5) == nm.Multiplier(2**30, 31)
    assert nm.multiplier_from_ratio(1.0) == nm.Multiplier(2**30, 30)
    for ratio in (0.052 * 2.39 / 0.112, 4.64, 37.5):
        m = nm.multiplier_from_ratio(ratio)
        assert m.shift <= 30
        assert abs(m.multiplier / 2**m.shift / ratio - 1) <= 2**-31


def test_range_zero_and_tiny_ratios_have_finite_multipliers() -> None:
    assert nm.multiplier_from_ratio(0.0) == nm.Multiplier(0, 31)
    assert nm.multiplier_from_ratio(2.0**-32) == nm.Multiplier(2**30, 62)
    assert nm.multiplier_from_ratio(2.0**-33) == nm.Multiplier(2**29, 62)
    assert nm.multiplier_from_ratio(2.0**-62) == nm.Multiplier(1, 62)
    assert nm.multiplier_from_ratio(2.0**-63) == nm.Multiplier(0, 62)
    assert nm.multiplier_from_ratio(5e-324) == nm.Multiplier(0, 62)


@pytest.mark.parametrize(
    "ratio", [2.0**29, math.nextafter(2.0**29, 0.0), 1e300, math.inf, math.nan, -1.0, -math.inf]
)
def test_range_ratio_beyond_the_format_is_an_error(ratio: float) -> None:
    with pytest.raises(ValueError, match=r"scale ratio: got .* supported"):
        nm.multiplier_from_ratio(ratio)


def test_multiplier_checks_its_fields() -> None:
    for multiplier, shift in ((-1, 31), (2**31, 31), (0, 1), (0, 63)):
        with pytest.raises(ValueError, match="supported"):
            nm.Multiplier(multiplier, shift)


@given(INT32, st.floats(2.0**-31, 2.0**10))
def test_requantize_is_within_half_a_code_of_the_real_result(acc: int, ratio: float) -> None:
    got = int(nm.rescale(torch.tensor([acc]), nm.multiplier_from_ratio(ratio)))
    exact = acc * Fraction(ratio)
    assert abs(got - exact) <= Fraction(1, 2) + abs(exact) / 2**31


def test_float32_scales() -> None:
    for good in (1.0, 0.5, float32(0.1), 2.0**-126, 2.0**126):
        assert nm.is_float32_scale(good)
    for bad in (0.0, -1.0, 0.1, math.nan, math.inf, 2.0**-127, 2.0**127, 1e-45, 1e300):
        assert not nm.is_float32_scale(bad)


# ---- float boundaries ----------------------------------------------------------------------------


def exact_quantize(x: float, scale: float, zp: int, lo: int, hi: int) -> int:
    """The boundary rule from fractions: two float32 operations, then round half to even."""
    if math.isnan(x):
        return min(hi, max(lo, zp))
    if math.isinf(x):
        return hi if x > 0 else lo
    with np.errstate(over="ignore", under="ignore"):
        product = np.float32(x) * (np.float32(1) / np.float32(scale))
    if np.isinf(product):
        return hi if product > 0 else lo
    return min(hi, max(lo, zp + round(Fraction(float(product)))))


FLOAT32 = st.floats(width=32, allow_nan=True, allow_infinity=True)


@settings(max_examples=500)
@given(st.lists(FLOAT32, min_size=1, max_size=5), SCALE, ZERO_POINT, st.booleans())
def test_quantize_follows_the_written_rule(x: list[float], s: float, zp: int, near: bool) -> None:
    if near:  # values that land within the code range
        x = [float32(math.remainder(v, 300.0) * s) if math.isfinite(v) else v for v in x]
    got = nm.quantize(torch.tensor(x), s, zp, -128, 127, torch.int8)
    assert got.tolist() == [exact_quantize(v, s, zp, -128, 127) for v in x]


@pytest.mark.parametrize("zp", [0, 3, -128, 127])
def test_rounding_quantize_ties_go_to_even(zp: int) -> None:
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, -126.5, 127.5, -128.5])
    steps = [0, 2, 2, 0, -2, -2, 126, -126, 128, -128]
    for scale in (1.0, 0.25, 64.0):
        got = nm.quantize(x * scale, scale, zp, -128, 127, torch.int8)
        assert got.tolist() == [min(127, max(-128, v + zp)) for v in steps]


@pytest.mark.parametrize("length", range(1, 41))
def test_saturation_quantize_of_infinities_and_huge_values(length: int) -> None:
    values = [math.inf, -math.inf, math.nan, 2.0**32, -(2.0**32), 1e30, -1e30, 3.4e38, -3.4e38]
    codes = [127, -128, 3, 127, -128, 127, -128, 127, -128]
    x = torch.tensor([values[i % 9] for i in range(length)])
    for scale in (0.5, float32(1e-37)):
        got = nm.quantize(x, scale, 3, -128, 127, torch.int8)
        assert got.tolist() == [codes[i % 9] for i in range(length)]


def test_saturation_nan_counts_as_zero_under_a_fused_clamp() -> None:
    x = torch.tensor([math.nan])
    assert nm.quantize(x, 1.0, -100, -20, 50, torch.int8).item() == -20


@given(st.integers(-128, 127), SCALE, ZERO_POINT)
def test_dequantize_is_one_float32_product(q: int, scale: float, zp: int) -> None:
    got = nm.dequantize(torch.tensor([q], dtype=torch.int8), scale, zp)
    assert got.dtype == torch.float32
    assert got.item() == float32(Fraction(q - zp) * Fraction(scale))


def test_overflow_zero_point_is_not_subtracted_in_int8() -> None:
    q = torch.tensor([-128, -50, 127], dtype=torch.int8)
    for zp in (-128, 100):
        assert nm.dequantize(q, 1.0, zp).tolist() == [-128 - zp, -50 - zp, 127 - zp]
        eye = torch.eye(3, dtype=torch.int8)
        assert nm.linear(q, eye, None, zp).tolist() == [-128 - zp, -50 - zp, 127 - zp]


BOUND = st.one_of(st.none(), st.floats(-1e3, 1e3), st.sampled_from([math.inf, -math.inf, 0.0, 6.0]))


@settings(max_examples=500)
@given(st.lists(FLOAT32, min_size=1, max_size=6), SCALE, ZERO_POINT, BOUND, BOUND)
def test_activation_bounds_commute_with_quantize(
    x: list[float], scale: float, zp: int, min_value: float | None, max_value: float | None
) -> None:
    values = torch.tensor([v for v in x if not math.isnan(v)] + [0.0, 3.0, -3.0])
    values = torch.cat([values, values * scale])
    lo, hi = nm.activation_bounds(-127, 126, scale, zp, min_value, max_value)
    assert -127 <= lo <= hi <= 126
    got = nm.quantize(values, scale, zp, -1000, 1000, torch.int16).clamp(lo, hi)
    clamped = values
    if min_value is not None:
        clamped = clamped.clamp(min=torch.tensor(min_value, dtype=torch.float32))
    if max_value is not None:
        clamped = clamped.clamp(max=torch.tensor(max_value, dtype=torch.float32))
    assert got.tolist() == nm.quantize(clamped, scale, zp, -127, 126, torch.int16).tolist()


def test_zero_point_relu_keeps_its_clamp_when_zero_is_inside_the_range() -> None:
    assert nm.activation_bounds(-128, 127, 0.05, -4, 0.0, None) == (-4, 127)
    assert nm.activation_bounds(-128, 127, 0.0625, -4, 0.0, 6.0) == (-4, 92)
    assert nm.activation_bounds(-128, 127, 0.01, -128, 0.0, 6.0) == (-128, 127)
    assert nm.activation_bounds(-128, 127, 1.0, 0, -math.inf, math.inf) == (-128, 127)
    assert nm.activation_bounds(-128, 127, 1.0, 0, 500.0, 600.0) == (127, 127)
    assert nm.activation_bounds(-128, 127, 1.0, 0, -600.0, -500.0) == (-128, -128)
    assert nm.activation_bounds(-128, 127, 1.0, 0, 5.0, 2.0) == (2, 2)
    with pytest.raises(ValueError, match="nan"):
        nm.quantize_bound(math.nan, 1.0, 0)


# ---- bias and accumulator ------------------------------------------------------------------------


@given(
    st.integers(-128, 127),
    st.lists(st.lists(st.integers(-128, 127), min_size=3, max_size=3), min_size=1, max_size=4),
    INT32,
)
def test_fold_bias_wraps_modulo_2_32(zx: int, rows: list[list[int]], bias: int) -> None:
    weight = torch.tensor(rows, dtype=torch.int8)
    folded = nm.fold_bias(torch.full((len(rows),), bias, dtype=torch.int32), weight, zx)
    assert folded.dtype == torch.int32
    for got, row in zip(folded.tolist(), rows, strict=True):
        assert (got - (bias - zx * sum(row))) % 2**32 == 0
    without = nm.fold_bias(None, weight, zx).tolist()
    assert without == [-zx * sum(row) for row in rows]


def test_overflow_accumulator_rule_is_exact_at_its_edge() -> None:
    for zx, reach in ((-128, 255), (127, 255), (0, 128), (-1, 128), (5, 133)):
        weight = torch.tensor([[127, -127], [127, -127], [127, -127], [0, 0]], dtype=torch.int8)
        room = 2**31 - 1 - 254 * reach
        bias = torch.tensor([room, -room, room + 1, 2**31 - 1], dtype=torch.int32)
        assert nm.accumulator_fits(weight, bias, zx).tolist() == [True, True, False, True]
    long = torch.full((1, 66311), 127, dtype=torch.int8)
    assert nm.accumulator_fits(long, None, -128).tolist() == [True]
    longer = torch.full((1, 66312), -127, dtype=torch.int8)
    assert nm.accumulator_fits(longer, None, 127).tolist() == [False]
    most_negative = torch.tensor([-(2**31)], dtype=torch.int32)
    assert nm.accumulator_fits(longer[:, :0], most_negative, 0).tolist() == [False]


def test_overflow_bias_saturates_and_leaves_other_channels_alone() -> None:
    got = nm.quantize_bias(torch.tensor([5.0, -4.5, 3.0]), 0.5, [float32(1e-9)] * 2 + [0.25])
    assert got.tolist() == [2**31 - 1, -(2**31) + 1, 24]


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=4), SCALE, SCALE)
def test_quantize_bias_is_rounded_in_float64(bias: list[float], s_x: float, s_w: float) -> None:
    got = nm.quantize_bias(torch.tensor(bias, dtype=torch.float64), s_x, [s_w]).tolist()
    top = 2**31 - 1
    for value, code in zip(bias, got, strict=True):
        quotient = value / (s_x * s_w)
        assert code == max(-top, min(top, round(quotient)))
    with pytest.raises(ValueError, match="nan"):
        nm.quantize_bias(torch.tensor([math.nan]), s_x, [s_w])
