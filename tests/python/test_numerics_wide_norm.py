# SPDX-License-Identifier: BSD-3-Clause
"""softmax and the norms of int16 codes, in Python integers and against float64."""

from __future__ import annotations

import math
import struct

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fused_quant import numerics_wide_norm

torch.set_num_threads(1)

LOWEST, HIGHEST = -32768, 32767


def _float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _rows(count: int, seed: int) -> Tensor:
    """Random codes, both ends, constants, two values, a single outlier, small steps."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(LOWEST, HIGHEST + 1, (8, count), generator=generator)
    rows[1], rows[2] = LOWEST, HIGHEST
    rows[3] = torch.where(rows[3] < 0, LOWEST, HIGHEST)
    rows[4] = LOWEST
    rows[4, 0] = HIGHEST
    rows[5] = rows[5] % 3
    rows[6] = rows[6] // 64
    return rows.to(torch.int16)


def _softmax(row: list[int], scale: float) -> list[int]:
    def power(d: int) -> int:
        return round(2**30 * math.exp(-d * scale))

    largest = max(row)
    near = [power((largest - x) % 256) for x in row]
    far = [power((largest - x) // 256 * 256) for x in row]
    e = [(a * b + 2**29) >> 30 for a, b in zip(near, far, strict=True)]
    total = sum(e)
    k = total.bit_length() - 31
    r = 2**61 // (total >> k)
    return [min(HIGHEST, (v * r + 2 ** (45 + k)) >> (46 + k)) for v in e]


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**-12, 0.01, 3.0])
def test_softmax_in_python_integers(scale: float) -> None:
    for count in (1, 2, 3, 64, 513):
        rows = _rows(count, count)
        got = numerics_wide_norm.softmax(rows, scale, LOWEST, HIGHEST)
        assert got.tolist() == [_softmax(row, scale) for row in rows.tolist()]


@pytest.mark.parametrize("count", [1, 2, 17, 300, 2048, 16384])
def test_softmax_is_within_its_bound_of_the_real_one(count: int) -> None:
    """0.5 for the last rounding; each exponential is 1.5 * 2^-30 off, the quotient 2^-29 of it."""
    for scale in (2.0**-14, 2.0**-12, 2.0**-10, 0.05):
        rows = _rows(count, count + 1)
        exact = torch.softmax(rows.double() * scale, -1) * 2**15
        got = numerics_wide_norm.softmax(rows, scale, LOWEST, HIGHEST).double()
        error = float((got - exact.clamp(max=HIGHEST)).abs().max())
        assert error <= 0.5 + 1.5 * (count + 2) / 2**15


def test_too_many_elements_are_an_error() -> None:
    for function in (
        lambda x: numerics_wide_norm.softmax(x, 0.1, LOWEST, HIGHEST),
        lambda x: numerics_wide_norm.log_softmax(x, 0.1, 0.1, LOWEST, HIGHEST),
    ):
        with pytest.raises(ValueError, match="65536"):
            function(torch.zeros(1, 65537, dtype=torch.int16))


@pytest.mark.parametrize("count", [1, 2, 17, 1000])
def test_log_softmax_within_its_bound_of_float64(count: int) -> None:
    """0.5 codes for the last rounding, 4e-5 for tables and sums."""
    for s_in in (2.0**-14, 2.0**-12, _float32(0.001)):
        rows = _rows(count, count)
        exact = torch.log_softmax(rows.double() * s_in, -1)
        for s_out in (2.0**-11, 2.0**-13):
            got = numerics_wide_norm.log_softmax(rows, s_in, s_out, LOWEST, HIGHEST).double()
            steps = (exact / s_out).clamp(LOWEST, HIGHEST)
            assert float((got - steps).abs().max()) <= 0.5 + 4e-5 / s_out


def _norm(
    row: list[int],
    gamma: list[float],
    beta: list[float],
    eps: float,
    scales: tuple[float, float],
    centred: bool,
) -> list[int]:
    n, total = len(row), sum(row) * int(centred)
    epsilon = max(1, min(2**60, round(eps * n * n / scales[0] ** 2)))
    w = n * sum(x * x for x in row) - total * total + epsilon
    h = 0
    while w << (h + 2) < 2**62:
        h += 2
    assert 2**60 <= w << h < 2**62
    r = min(2**61 // math.isqrt(w << h), 2**31 - 1)
    v = 61 - 16 - h // 2
    s_gamma = max(map(abs, gamma)) / 32767
    mantissa, exponent = math.frexp(s_gamma * 2.0**-16 / scales[1])
    m, s = round(mantissa * 2**31), 31 - exponent
    codes = []
    for x, g, b in zip(row, gamma, beta, strict=True):
        u = ((n * x - total) * r + 2 ** (v - 1)) >> v
        acc = u * round(g / s_gamma) + round(b / (s_gamma * 2.0**-16))
        codes.append(min(HIGHEST, max(LOWEST, (acc * m + 2 ** (s - 1)) >> s)))
    return codes


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 513])
def test_norms_in_python_integers(count: int, centred: bool) -> None:
    generator = torch.Generator().manual_seed(count)
    gamma = torch.randn(count, generator=generator).double() + 1.5
    beta = torch.randn(count, generator=generator).double() * int(centred)
    for s_in, s_out, eps in ((2.0**-11, 0.0003, 1e-5), (1e-6, 2.0**-12, 1e-5), (2.0, 0.1, 0.0)):
        scales = (_float32(s_in), _float32(s_out))
        affine = numerics_wide_norm.affine_parameters(count, gamma, beta, eps, *scales)
        rows = _rows(count, count + 2)
        got = numerics_wide_norm.standardize(rows, affine, centred, LOWEST, HIGHEST)
        lists = (gamma.tolist(), beta.tolist())
        assert got.tolist() == [_norm(row, *lists, eps, scales, centred) for row in rows.tolist()]


@pytest.mark.parametrize("count", [2, 3, 64, 768, 4096, 16384])
def test_norms_are_within_their_bound_of_the_real_ones(count: int) -> None:
    """Half a code for the last rounding; half a unit of a weight, of u, and of eps in W.

    For typical rows (here: of many steps and 64 elements and more) that is within one code of the
    rounded real result.
    """
    generator = torch.Generator().manual_seed(count)
    gamma = torch.randn(count, generator=generator).double()
    beta = torch.randn(count, generator=generator).double() / 2
    for amplitude in (3, 300, 32768):
        rows = torch.randint(-amplitude, amplitude, (4, count), generator=generator)
        real = rows.double() * 2.0**-11
        exact = functional.layer_norm(real, (count,), gamma, beta, 1e-5)
        rms = real / (real.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gamma
        variance = rows.double().var(-1, correction=0, keepdim=True)
        square = rows.double().square().mean(-1, keepdim=True)
        for wanted, bias, centred in ((exact, beta, True), (rms, None, False)):
            s_out = _float32(float(wanted.abs().max()) / 32760)
            affine = numerics_wide_norm.affine_parameters(count, gamma, bias, 1e-5, 2.0**-11, s_out)
            codes = rows.to(torch.int16)
            got = numerics_wide_norm.standardize(codes, affine, centred, LOWEST, HIGHEST)
            error = (got.double() - (wanted / s_out).clamp(LOWEST, HIGHEST)).abs()
            w = ((variance if centred else square) + 1e-5 * 2.0**22) * count**2
            scaled = (wanted - (beta if centred else 0)).abs() / s_out
            weights = (scaled / gamma.abs()).amax() * float(gamma.abs().max()) / 32767 / 2
            weights = weights + float(gamma.abs().max()) * 2.0**-17 / s_out
            assert bool((error <= 0.52 + weights + scaled * 0.26 / w).all())
            if amplitude > 3 and count >= 64:
                rounded = (wanted / s_out).round().clamp(LOWEST, HIGHEST)
                assert float((got.double() - rounded).abs().max()) <= 1.0


def test_beta_is_clipped_and_a_ratio_without_multiplier_is_an_error() -> None:
    beta = torch.tensor([1e30, -1e30, 0.0])
    parameters = numerics_wide_norm.affine_parameters(3, None, beta, 1e-5, 0.1, 0.1)
    assert parameters.beta.tolist() == [2**46, -(2**46), 0]
    with pytest.raises(ValueError, match="scale ratio"):
        numerics_wide_norm.affine_parameters(3, torch.full((3,), 1e9), None, 1e-5, 0.1, 1e-12)
