# SPDX-License-Identifier: BSD-3-Clause
"""softmax and layer norm in Python integers, written from their formulas, and against float64."""

from __future__ import annotations

import math
import struct

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fused_quant import numerics_norm

torch.set_num_threads(1)

COUNTS = [1, 2, 3, 7, 64, 100, 513]


def _float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _clz32(value: int) -> int:
    assert 0 < value < 2**32
    return 32 - value.bit_length()


def _multiplier(ratio: float) -> tuple[int, int]:
    mantissa, exponent = math.frexp(ratio)
    m = round(mantissa * 2**31)
    if m == 2**31:
        m, exponent = m // 2, exponent + 1
    assert 2 <= 31 - exponent <= 62
    return m, 31 - exponent


def _rescale(v: int, ratio: float) -> int:
    assert -(2**31) <= v < 2**31
    m, s = _multiplier(ratio)
    return (v * m + 2 ** (s - 1)) >> s


def _softmax(row: list[int], scale: float, lo: int, hi: int) -> list[int]:
    largest = max(row)
    e = [min(32767, round(2**15 * math.exp(-(largest - x) * scale))) for x in row]
    total = sum(e)
    h = _clz32(total)
    normalized = ((total << (h - 1)) + 2**14) >> 15
    r = (2**31 - 1) // normalized
    codes = [-128 + ((v * r + 2 ** (38 - h)) >> (39 - h)) for v in e]
    return [min(hi, max(lo, q)) for q in codes]


def _layer_norm(
    row: list[int],
    gamma: list[float] | None,
    beta: list[float] | None,
    eps: float,
    s_in: float,
    s_out: float,
    z_out: int,
) -> list[int]:
    n = len(row)
    t = max(1, math.ceil(math.log2(n)))
    mean = _rescale(sum(row), 2**7 / n)
    d = [(x << 7) - mean for x in row]
    steps = eps * n * 4.0**7 / (s_in**2 * 2**t)
    a = sum((v * v + 2 ** (t - 1)) >> t for v in d) + min(2**29, max(1, round(steps)))
    h = (_clz32(a) - 1) & ~1
    x = ((a << h) >> 15) - 32768
    assert -16384 <= x <= 32767
    i = (x + 32768) >> 7

    def entry(index: int) -> int:
        return min(32767, round(32767 / math.sqrt(max(index / 128, 1))))

    r = ((entry(i) << 7) + (entry(i + 1) - entry(i)) * (x & 127) + 64) >> 7
    v = 29 - 10 - h // 2
    u = [min(32767, max(-32768, (w * r + 2 ** (v - 1)) >> v)) for w in d]
    s_gamma = (1.0 if gamma is None else max(map(abs, gamma)) or 1.0) / 32767
    s_acc = s_gamma * (math.sqrt(n / 2 ** (t + 1)) * 32768 / 32767) * 2.0**-10
    g = [round(w / s_gamma) for w in (gamma or [1.0] * n)]
    b = [min(2**30, max(-(2**30), round(w / s_acc))) for w in (beta or [0.0] * n)]
    return [
        min(127, max(-128, z_out + _rescale(p * q + o, s_acc / s_out)))
        for p, q, o in zip(u, g, b, strict=True)
    ]


def _rows(count: int, seed: int) -> Tensor:
    """Random codes, both ends, constants, two values, a single outlier, small steps."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(-128, 128, (10, count), generator=generator)
    rows[1], rows[2] = -128, 127
    rows[3] = torch.where(rows[3] < 0, -128, 127)
    rows[4] = -128
    rows[4, 0] = 127
    rows[5] = rows[5] % 3
    rows[6] = rows[6] // 8
    return rows.to(torch.int8)


@pytest.mark.parametrize("scale", [1e-4, 0.02, 0.1, 1.0, 40.0])
@pytest.mark.parametrize("count", COUNTS)
def test_softmax_in_python_integers(count: int, scale: float) -> None:
    scale = _float32(scale)
    for lo, hi in ((-128, 127), (-100, 20)):
        rows = _rows(count, count)
        got = numerics_norm.softmax(rows, scale, lo, hi)
        assert got.tolist() == [_softmax(row, scale, lo, hi) for row in rows.tolist()]


@pytest.mark.parametrize("scale", [1e-3, 0.02, 0.1, 1.0])
@pytest.mark.parametrize("count", [*COUNTS, 5000])
def test_softmax_is_within_a_code_of_the_real_one(count: int, scale: float) -> None:
    rows = _rows(count, count + 1)
    exact = torch.softmax(rows.double() * _float32(scale), -1) * 256 - 128
    rounded = torch.round(exact).clamp(-128, 127)
    got = numerics_norm.softmax(rows, _float32(scale), -128, 127)
    difference = (got.double() - rounded).abs()
    assert float(difference.max()) <= 1
    assert float((difference > 0).double().mean()) <= 0.002


@pytest.mark.parametrize("scale", [1e-4, 0.05, 40.0])
def test_masked_softmax_is_that_of_the_elements_left_in(scale: float) -> None:
    rows = _rows(64, 9)
    hidden = torch.rand(rows.shape, generator=torch.Generator().manual_seed(3)) < 0.6
    hidden[0], hidden[1] = True, False
    got = numerics_norm.masked_softmax(rows, hidden, _float32(scale), -128, 127)
    assert set(got[hidden].tolist()) == {-128}
    for row, out, mask in zip(rows, got, hidden, strict=True):
        left = row[~mask].tolist()
        assert not left or out[~mask].tolist() == _softmax(left, _float32(scale), -128, 127)


def test_softmax_of_the_longest_row_does_not_overflow() -> None:
    count = numerics_norm.MAX_SOFTMAX_ELEMENTS
    row = torch.full((1, count), 5, dtype=torch.int8)
    assert set(numerics_norm.softmax(row, 0.1, -128, 127)[0].tolist()) == {-128}
    row[0, 7] = 127
    got = numerics_norm.softmax(row, 10.0, -128, 127)[0]
    assert got[7] == 127
    assert int((got != -128).sum()) == 1
    with pytest.raises(ValueError, match="65536"):
        numerics_norm.softmax(torch.zeros(1, count + 1, dtype=torch.int8), 0.1, -128, 127)


@pytest.mark.parametrize("affine", ["both", "gamma", "beta", "none", "zero"])
@pytest.mark.parametrize("count", COUNTS)
def test_layer_norm_in_python_integers(count: int, affine: str) -> None:
    generator = torch.Generator().manual_seed(count)
    gamma = torch.randn(count, generator=generator).double() + 1
    beta = torch.randn(count, generator=generator).double()
    if affine == "zero":
        gamma = torch.zeros(count).double()
    g = gamma if affine in ("both", "gamma", "zero") else None
    b = beta if affine in ("both", "beta", "zero") else None
    for s_in, s_out, z_out, eps in (
        (0.05, 0.03, 7, 1e-5),
        (1e-4, 0.02, -128, 1e-5),  # eps outweighs the variance
        (2.0, 0.1, 127, 0.0),
    ):
        scales = (_float32(s_in), _float32(s_out))
        parameters = numerics_norm.affine_parameters(count, g, b, eps, *scales)
        rows = _rows(count, count + 2)
        got = numerics_norm.layer_norm(rows, parameters, z_out, -128, 127, torch.int8)
        lists = (None if p is None else p.tolist() for p in (g, b))
        first, second = lists
        expected = [_layer_norm(row, first, second, eps, *scales, z_out) for row in rows.tolist()]
        assert got.tolist() == expected


@pytest.mark.parametrize("count", [2, 3, 8, 64, 200, 768, 1024, 4096])
def test_layer_norm_against_the_real_one(count: int) -> None:
    """Within a code, but for what the variance loses: half a unit of 2^t in each square.

    That is at most 2^(t - 16) / variance of the result, the variance in codes.
    """
    generator = torch.Generator().manual_seed(count)
    gamma = torch.randn(count, generator=generator).double()
    beta = torch.randn(count, generator=generator).double() / 2
    gamma[0], beta[0] = 1.5, 0.25
    t = max(1, math.ceil(math.log2(count)))
    for amplitude in (2, 20, 128):
        rows = torch.randint(-128, 128, (16, count), generator=generator) * amplitude // 128
        for s_in, s_out in ((0.001, 0.02), (0.02, 0.05), (1.0, 0.04)):
            scales = (_float32(s_in), _float32(s_out))
            parameters = numerics_norm.affine_parameters(count, gamma, beta, 1e-5, *scales)
            codes = rows.to(torch.int8)
            got = numerics_norm.layer_norm(codes, parameters, 3, -128, 127, torch.int8).double()
            real = rows.double() * scales[0]
            exact = functional.layer_norm(real, (count,), gamma, beta, 1e-5)
            steps = exact / scales[1]
            variance = rows.double().var(-1, correction=0, keepdim=True) + 1e-5 / scales[0] ** 2
            lost = (steps - beta / scales[1]).abs() * 2.0 ** (t - 16) / variance
            wanted = torch.round(steps + 3).clamp(-128, 127)
            assert bool(((got - wanted).abs() <= 1 + lost).all())


def test_reciprocal_square_root_is_within_two_units() -> None:
    x = torch.arange(-16384, 32768)
    exact = 32767 / torch.sqrt((x.double() + 32768) / 2**14)
    assert float((numerics_norm.rsqrt(x).double() - exact).abs().max()) <= 1.5


def test_beta_is_clipped_and_a_ratio_without_multiplier_is_an_error() -> None:
    beta = torch.tensor([1e9, -1e9, 0.0])
    parameters = numerics_norm.affine_parameters(3, None, beta, 1e-5, 0.1, 0.1)
    assert parameters.beta.tolist() == [2**30, -(2**30), 0]
    with pytest.raises(ValueError, match="scale ratio"):
        numerics_norm.affine_parameters(3, torch.full((3,), 1e9), None, 1e-5, 0.1, 1e-9)


@pytest.mark.parametrize("count", [1, 2, 17, 1000, 65536])
@pytest.mark.parametrize("s_in", [2.0**-9, 0.05, 0.25, 3.0])
def test_log_softmax_within_its_bound_of_float64(count: int, s_in: float) -> None:
    """0.5 codes for the last rounding, 4e-5 for tables and sums."""
    generator = torch.Generator().manual_seed(count)
    x = torch.randint(-128, 128, (3, count), generator=generator).to(torch.int8)
    scale = float(torch.tensor(s_in))
    exact = torch.log_softmax(x.double() * scale, -1)
    for s_out in (scale, 0.0625, 2.0**-7):
        got = numerics_norm.log_softmax(x, scale, s_out, 0, -(2**31), 2**31 - 1, torch.int64)
        assert float((got - exact / s_out).abs().max()) <= 0.5 + 4e-5 / s_out


@pytest.mark.parametrize("count", [1, 3, 64, 1000, 4096])
@pytest.mark.parametrize("zero_point", [-128, -3, 127])
def test_rms_norm_within_a_code_of_float64(count: int, zero_point: int) -> None:
    generator = torch.Generator().manual_seed(count)
    x = torch.randint(-128, 128, (4, count), generator=generator).to(torch.int8)
    gamma = torch.randn(count, generator=generator)
    real = (x.double() - zero_point) * 0.03125
    exact = real / (real.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gamma.double()
    s_out = float((exact.abs().max() / 127).float())
    affine = numerics_norm.affine_parameters(count, gamma, None, 1e-5, 0.03125, s_out)
    got = numerics_norm.rms_norm(x, zero_point, affine, 0, -128, 127, torch.int8)
    assert float((got - exact / s_out).abs().max()) <= 1
