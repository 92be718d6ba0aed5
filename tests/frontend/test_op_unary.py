# SPDX-License-Identifier: BSD-3-Clause
"""Functions of one element: every table against 60-digit arithmetic, float edges, spellings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath  # type: ignore[import-untyped]
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fused_quant.ops.unary import UNARY
from tests.frontend.blocks import FLOAT, GRIDS, OPS, block, codes, fitting, real, stepped
from tests.frontend.both_graphs import both, fused_names, result_of
from tests.frontend.graphs import Graph, Grid

torch.set_num_threads(1)
mp = mpmath.mp.clone()
mp.dps = 60
Exact = Callable[..., Any]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _clamp(x: Any, low: int, high: int) -> Any:
    return min(max(x, mp.mpf(low)), mp.mpf(high))


def _gelu(x: Any, approximate: str) -> Any:
    if approximate == "none":
        return x * (1 + mp.erf(x / mp.sqrt(2))) / 2
    return x * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))) / 2


def _elu(x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    negative = mp.mpf(alpha) * mp.expm1(x * mp.mpf(input_scale))
    return mp.mpf(scale) * (x if x > 0 else negative)


def _softplus(x: Any, beta: float, threshold: float) -> Any:
    return x if x * beta > threshold else mp.log1p(mp.exp(x * beta)) / beta


def _pole(function: Exact, defined: Callable[[Any], bool], otherwise: Exact) -> Exact:
    return lambda x: function(x) if defined(x) else otherwise(x)


NAN, INF = mp.nan, mp.inf


def _within(function: Exact, low: float, high: float) -> Exact:
    """NaN outside [low, high]."""
    return lambda x: function(x) if low <= x <= high else NAN


def _logit(x: Any, eps: float | None) -> Any:
    if eps is not None:
        x = min(max(x, mp.mpf(eps)), mp.mpf(1.0 - eps))
    if x in (0, 1):
        return INF if x else -INF
    return mp.log(x / (1 - x)) if 0 < x < 1 else NAN


def _atanh(x: Any) -> Any:
    if abs(x) == 1:
        return INF * x
    return mp.atanh(x) if abs(x) < 1 else NAN


def _logarithm(base: int) -> Exact:
    return _pole(lambda x: mp.log(x, base), lambda x: x > 0, lambda x: NAN if x < 0 else -INF)


def _trunc(x: Any) -> Any:
    return mp.floor(x) if x > 0 else mp.ceil(x)


EXACT: dict[str, Exact] = {
    "sigmoid": _sigmoid,
    "tanh": mp.tanh,
    "silu": lambda x: x * _sigmoid(x),
    "hardswish": lambda x: x * _clamp(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda x: _clamp(x + 3, 0, 6) / 6,
    "gelu": _gelu,
    "mish": lambda x: x * mp.tanh(mp.log1p(mp.exp(x))),
    "leaky_relu": lambda x, slope: x if x > 0 else x * mp.mpf(slope),
    "elu": _elu,
    "softplus": _softplus,
    "abs": abs,
    "neg": lambda x: -x,
    "exp": mp.exp,
    "expm1": mp.expm1,
    "log": _pole(mp.log, lambda x: x > 0, lambda x: NAN if x < 0 else -INF),
    "log1p": _pole(mp.log1p, lambda x: x > -1, lambda x: NAN if x < -1 else -INF),
    "sqrt": _pole(mp.sqrt, lambda x: x >= 0, lambda x: NAN),
    "rsqrt": _pole(lambda x: 1 / mp.sqrt(x), lambda x: x > 0, lambda x: NAN if x < 0 else INF),
    "reciprocal": _pole(lambda x: 1 / x, lambda x: x != 0, lambda x: INF),
    "erf": mp.erf,
    "sin": mp.sin,
    "cos": mp.cos,
    "celu": lambda x, alpha: _elu(x, alpha, 1.0, 1 / mp.mpf(alpha)),
    "hardshrink": lambda x, lambd: x if abs(x) > lambd else mp.mpf(0),
    "softshrink": lambda x, lambd: mp.sign(x) * max(abs(x) - mp.mpf(lambd), 0),
    "threshold": lambda x, threshold, value: x if x > threshold else mp.mpf(value),
    "log_sigmoid": lambda x: -mp.log1p(mp.exp(-x)),
    "sign": mp.sign,
    "floor": mp.floor,
    "ceil": mp.ceil,
    "round": mp.nint,
    "trunc": _trunc,
    "frac": lambda x: x - _trunc(x),
    "exp2": lambda x: mp.mpf(2) ** x,
    "log2": _logarithm(2),
    "log10": _logarithm(10),
    "logit": _logit,
    "erfc": mp.erfc,
    "tan": mp.tan,
    "asin": _within(mp.asin, -1, 1),
    "acos": _within(mp.acos, -1, 1),
    "atan": mp.atan,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "asinh": mp.asinh,
    "acosh": _within(mp.acosh, 1, mp.inf),
    "atanh": _atanh,
}
ARGUMENTS: dict[str, list[tuple[Any, ...]]] = {
    "gelu": [("none",), ("tanh",)],
    "leaky_relu": [(0.01,), (-0.5,)],
    "elu": [(1.0, 1.0, 1.0), (0.5, 2.0, 3.0)],
    "softplus": [(1.0, 20.0), (2.0, 0.5)],
    "celu": [(1.0,), (0.5,)],
    "hardshrink": [(0.5,), (0.0,)],
    "softshrink": [(0.5,), (3.0,)],
    "threshold": [(0.25, -1.5)],
    "logit": [(None,), (0.125,)],
}
# Grids whose codes from -90 on are inside the domain, where positive numbers are not.
DOMAINS = {
    **dict.fromkeys(("asin", "acos", "atanh", "logit"), (0.004, -100)),
    "acosh": (0.05, -128),
}
NAMES = [unary.name for unary in UNARY]


def test_every_function_of_the_table_is_tested() -> None:
    assert set(EXACT) == set(NAMES)


def _code(value: Any, scale: float, zero_point: int) -> set[int]:
    """The codes that are right: two of them only where float64 cannot tell a tie from its side."""
    if mp.isnan(value):
        return {zero_point}
    if mp.isinf(value):
        return {127 if value > 0 else -128}
    steps = value / mp.mpf(scale)
    low = int(mp.floor(steps))
    distance = steps - low - mp.mpf("0.5")
    slack = mp.mpf(2) ** -45 * max(1, abs(steps))
    ends = {low, low + 1} if abs(distance) <= slack else {low + (1 if distance > 0 else 0)}
    if distance == 0:
        ends = {low + low % 2}
    return {min(127, max(-128, end + zero_point)) for end in ends}


@pytest.mark.parametrize("name", NAMES)
def test_the_table_in_sixty_digits(name: str) -> None:
    every = torch.arange(-128, 128).to(torch.int8)
    for number, (s_in, z_in) in enumerate(GRIDS):
        source = block(s_in, z_in)
        scale = float(source[0])
        for arguments in ARGUMENTS.get(name, [()]):
            values = [EXACT[name](mp.mpf(scale) * (int(q) - z_in), *arguments) for q in every]
            for s_out, z_out in ((0.0113, 127), (1 / 128, 0), (0.7, GRIDS[number][1])):
                out = block(s_out, z_out, out=True)
                got = getattr(OPS, name)(every, *source, *out, *arguments).tolist()
                wanted = [_code(value, float(out[0]), z_out) for value in values]
                assert all(code in right for code, right in zip(got, wanted, strict=True))
                assert sum(len(right) > 1 for right in wanted) <= 2


@pytest.mark.parametrize("name", NAMES)
def test_float_edges(name: str) -> None:
    """A null block on either side, or both: the ATen operator in float."""
    aten = getattr(torch.ops.aten, name).default
    names = [a.name for a in aten._schema.arguments[1:]]
    scale, zero_point = DOMAINS.get(name, (0.05, -100))
    source = block(scale, zero_point)
    x = codes(3, 4, seed=1, low=-90)
    values = (x.float() - zero_point) * scale
    for arguments in ARGUMENTS.get(name, [()]):
        op = getattr(OPS, name)
        exact = aten(values, **dict(zip(names, arguments, strict=True)))
        out = fitting(exact)
        torch.testing.assert_close(op(values, *FLOAT, *FLOAT, *arguments), exact)
        torch.testing.assert_close(op(x, *source, *FLOAT, *arguments), exact)
        got = op(values, *FLOAT, *out, *arguments)
        assert float((got.double() - stepped(exact, out)).abs().max()) <= 0.5 + 1e-4


@pytest.mark.parametrize(
    "name", ["log", "log2", "log10", "sqrt", "rsqrt", "acosh", "asin", "logit"]
)
def test_nan_is_the_code_of_zero(name: str) -> None:
    """Outside the domain the result has the code of the zero point; bounds may move it."""
    out, every = block(0.5, 17, out=True), torch.arange(-128, 0).to(torch.int8)
    op = getattr(OPS, name)
    arguments = ARGUMENTS.get(name, [()])[0]
    below = every[: 127 if name == "asin" else 128]  # -1 is in the domain of asin
    source = block(1.0)
    assert set(op(below, *source, *out, *arguments).tolist()) == {17}
    assert set(op(below, *source, *out[:3], 20, 60, *arguments).tolist()) == {20}


def test_a_clamp_behind_it_is_part_of_the_table() -> None:
    out = (*block(0.02, 5, out=True)[:3], 5, 60)
    got = OPS.tanh(codes(256), *block(0.05), *out)
    assert int(got.min()) == 5
    assert int(got.max()) == min(60, 5 + 50)


@pytest.mark.parametrize("scale", [torch.tensor([[0.1], [0.2], [0.4]]), torch.rand(3, 2) + 0.1])
def test_other_granularities_compute_in_float(scale: Tensor) -> None:
    """Per channel and in blocks: scales per row, and per row and half."""
    x, out = codes(3, 4, seed=2), block(0.01, out=True)
    widened = scale.repeat_interleave(4 // scale.shape[1], 1)
    exact = torch.tanh(x.double() * widened.double())
    got = OPS.tanh(x, *block(scale), *out)
    assert float((got.double() - stepped(exact, out)).abs().max()) <= 0.5 + 1e-4


def _softplus_in_parts(x: Tensor) -> Tensor:
    twice = x * 2
    return torch.where(twice > 0.5, x, torch.log1p(torch.exp(twice)) / 2)


IN, OUT = Grid(0.05, -3), Grid(0.03, 7)
CODES = codes(2, 3, 8, seed=3)
SPELLINGS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor], str]] = {
    "sigmoid": (torch.sigmoid, torch.sigmoid_, "sigmoid"),
    "tanh": (torch.tanh, torch.tanh_, "tanh"),
    "silu": (functional.silu, lambda x: functional.silu(x, inplace=True), "silu"),
    "silu-in-parts": (functional.silu, lambda x: torch.sigmoid(x) * x, "silu"),
    "hardswish": (
        functional.hardswish,
        lambda x: functional.hardswish(x, inplace=True),
        "hardswish",
    ),
    "hardswish-in-parts": (
        functional.hardswish,
        lambda x: x * functional.relu6(x + 3) / 6,
        "hardswish",
    ),
    "hardswish-of-hardsigmoid": (
        functional.hardswish,
        lambda x: functional.hardsigmoid(x) * x,
        "hardswish",
    ),
    "hardswish-times-a-sixth": (
        functional.hardswish,
        lambda x: (3 + x).clamp(0, 6) * (1 / 6) * x,
        "hardswish",
    ),
    "hardsigmoid": (
        functional.hardsigmoid,
        lambda x: functional.hardsigmoid(x, inplace=True),
        "hardsigmoid",
    ),
    "hardsigmoid-in-parts": (
        functional.hardsigmoid,
        lambda x: functional.hardtanh(x + 3, 0, 6).div_(6),
        "hardsigmoid",
    ),
    "gelu": (functional.gelu, torch.ops.aten.gelu_.default, "gelu"),
    "leaky_relu": (
        lambda x: functional.leaky_relu(x, 0.2),
        lambda x: functional.leaky_relu_(x, 0.2),
        "leaky_relu",
    ),
    "elu": (lambda x: functional.elu(x, 0.5), lambda x: functional.elu_(x, 0.5), "elu"),
    "selu": (functional.selu, functional.selu_, "elu"),
    "mish": (functional.mish, lambda x: functional.mish(x, inplace=True), "mish"),
    "softplus": (
        lambda x: functional.softplus(x, 2.0, 0.5),
        _softplus_in_parts,
        "softplus",
    ),
    "celu": (functional.celu, functional.celu_, "celu"),
    "celu-alpha": (lambda x: functional.celu(x, 0.3), lambda x: functional.celu_(x, 0.3), "celu"),
    "threshold": (
        lambda x: functional.threshold(x, 0.3, -0.5),
        lambda x: functional.threshold(x.clone(), 0.3, -0.5, inplace=True),
        "threshold",
    ),
    "hardshrink": (functional.hardshrink, nn.Hardshrink(), "hardshrink"),
    "softshrink": (
        functional.softshrink,
        lambda x: torch.where(x.abs() > 0.5, x - torch.sign(x) * 0.5, x * 0),
        "softshrink",
    ),
    "prelu": (
        lambda x: functional.prelu(x, torch.tensor([0.25, -0.1, 1.5])),
        lambda x: torch.where(x > 0, x, x * torch.tensor([0.25, -0.1, 1.5]).view(1, 3, 1)),
        "prelu",
    ),
    "log_sigmoid": (
        functional.logsigmoid,
        nn.LogSigmoid(),
        "log_sigmoid",
    ),
    "abs": (torch.abs, torch.abs_, "abs"),
    "neg": (torch.neg, torch.neg_, "neg"),
    "exp": (torch.exp, torch.exp_, "exp"),
    "erf": (torch.erf, torch.erf_, "erf"),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_and_decompositions_are_one_operator(name: str) -> None:
    """Functional, in place, in parts; in the training-IR graph and in the edge program."""
    first, second, wanted = SPELLINGS[name]
    results = []
    for function in (first, second):
        module = Graph(lambda x, f=function: OUT.quantize(f(IN.dequantize(x))))
        reference = module(CODES)
        for gm in both(module, CODES):
            assert fused_names(gm) == [f"{wanted}.default"]
            results.append(result_of(gm, (CODES,)))
            assert int((results[-1].int() - reference.int()).abs().max()) <= 1
    assert all(torch.equal(result, results[0]) for result in results)


_WHOLE = (
    *("silu", "hardswish", "softplus", "celu", "mish", "threshold", "hardshrink"),
    *("softshrink", "prelu", "log_sigmoid"),
)


def _read_twice(x: Tensor) -> Tensor:
    gate = torch.sigmoid(x)
    return x * gate + gate


NEAR_MISSES: dict[str, Callable[[Tensor], Tensor]] = {
    "another-factor": lambda x: x * torch.sigmoid(x + 1),
    "another-offset": lambda x: x * functional.relu6(x + 2) / 6,
    "another-divisor": lambda x: x * functional.relu6(x + 3) / 5,
    "another-clamp": lambda x: x * (x + 3).clamp(0, 5) / 6,
    "scaled-sum": lambda x: x * functional.relu6(torch.add(x, 3, alpha=2)) / 6,
    "part-read-twice": _read_twice,
    "softplus-another-beta": lambda x: torch.where(
        x * 2 > 20, x, torch.log1p(torch.exp(x * 2)) / 3
    ),
    "celu-another-bound": lambda x: torch.where(x > 0.5, x, torch.expm1(x)),
    "threshold-of-another": lambda x: torch.where(x + 1 <= 0.3, -0.5, x),
    "hardshrink-to-another-number": lambda x: torch.where(x.abs() <= 0.5, 1, x),
    "softshrink-by-another": lambda x: torch.where(x.abs() > 0.5, x - torch.sign(x) * 0.25, x * 0),
    "prelu-another-bound": lambda x: torch.where(x > 0.5, x, x * torch.tensor(0.25)),
    "prelu-along-another-dimension": lambda x: torch.where(
        x > 0, x, x * torch.tensor([0.25, -0.1, 1.5, 1.0, 2.0, 3.0, 4.0, 5.0]).view(1, 1, 8)
    ),
    "prelu-of-computed-slopes": lambda x: torch.where(x > 0, x, x * (x + 1)),
    "log-sigmoid-of-another": lambda x: (
        torch.minimum(x, torch.zeros([])) - torch.log1p(torch.exp(-(x + 1).abs()))
    ),
    "mish-of-another": lambda x: x * torch.tanh(functional.softplus(x + 1)),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_what_only_looks_like_one_stays(name: str) -> None:
    module = Graph(lambda x: OUT.quantize(NEAR_MISSES[name](IN.dequantize(x))))
    for gm in both(module, CODES):
        assert not {f"{n}.default" for n in _WHOLE} & set(fused_names(gm))
        assert torch.equal(result_of(gm, (CODES,)), module(CODES))


def test_real_numbers_of_a_code() -> None:
    """The helper of these tests: scale * (code - zero point)."""
    assert real(torch.tensor([-128, 5]), block(0.5, 3)).tolist() == [-65.5, 1.0]
