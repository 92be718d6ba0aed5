# SPDX-License-Identifier: BSD-3-Clause
"""Patterns from outside of the package. Run by test_custom_pattern.py in a process of its own.

What is registered here would otherwise take part in every other test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fused_quant import dialect, fuse
from fused_quant.passes import AssertNoFusedQuantOps, DecomposeFusedQuant
from fused_quant.patterns import Operand, Site, Step, parser, register_pattern
from tests.frontend.exact import rescale
from tests.frontend.graphs import Graph, Grid, exported, targets

torch.set_num_threads(1)
_aten = torch.ops.aten

# No ratio of these scales makes ties: those round up in integers and to even in floats.
IN, OUT = Grid(0.0473, 3), Grid(0.0219, -7)
MID = Grid(0.02, 5, -60, 60)  # narrow: it saturates
CODES = torch.arange(-128, 128, dtype=torch.int8).reshape(2, 128)


def _negated_magnitude(site: Site, tensors: Mapping[str, Tensor | None]) -> Tensor:
    """Out = -(mid^2) with mid = neg(x) on its own grid, in plain Python integers."""
    codes = tensors["inp"]
    assert codes is not None
    inp, mid, out = site.block("inp"), site.block("mid"), site.result
    limits = (mid.zero_point_value, mid.quant_min, mid.quant_max)
    results = []
    for code in codes.flatten().tolist():
        ratio = inp.scale_value / mid.scale_value
        value = rescale(-(code - inp.zero_point_value), ratio, *limits) - mid.zero_point_value
        ratio = mid.scale_value / out.scale_value
        results.append(rescale(abs(value), ratio, out.zero_point_value))
    return torch.tensor(results, dtype=out.dtype).reshape(codes.shape)


NEG_ABS = register_pattern(
    "case_ops::neg_abs",
    operands=(Operand("inp"),),
    anchors={_aten.neg.default: parser({"inp": "self"})},
    aten=lambda tensors, _: torch.neg(tensors["inp"]),  # type: ignore[arg-type]
    steps=(Step("mid", (_aten.abs.default,), lambda x, _: torch.abs(x)),),
    reference=_negated_magnitude,
)
SIN_SQUARE = register_pattern(  # `fuse` writes a square as a product
    "case_ops::sin_square",
    operands=(Operand("inp"),),
    anchors={_aten.sin.default: parser({"inp": "self"})},
    aten=lambda tensors, _: torch.sin(tensors["inp"]),  # type: ignore[arg-type]
    steps=(Step("mid", (_aten.square.default,), lambda x, _: torch.square(x)),),
    reference=lambda site, tensors: torch.full_like(tensors["inp"], site.result.quant_min),  # type: ignore[arg-type]
)
OWN_TANH = register_pattern(
    "case_ops::step",
    operands=(Operand("inp"),),
    anchors={_aten.tanh.default: parser({"inp": "self"})},
    aten=lambda tensors, _: torch.tanh(tensors["inp"]),  # type: ignore[arg-type]
    reference=lambda site, tensors: torch.full_like(tensors["inp"], site.result.quant_max),  # type: ignore[arg-type]
)


def _chain(codes: Tensor) -> Tensor:
    return OUT.quantize(torch.abs(MID.round(torch.neg(IN.dequantize(codes)))))


def _expected(code: int) -> int:
    """In fractions of the scales, rounded where the graph rounds."""
    mid = rescale(-(code - IN.zero_point), IN.scale / MID.scale, MID.zero_point, MID.low, MID.high)
    real = abs(Fraction(mid - MID.zero_point)) * Fraction(MID.scale)
    steps = math.floor(real / Fraction(OUT.scale) + Fraction(1, 2))
    return min(OUT.high, max(OUT.low, steps + OUT.zero_point))


def test_a_chain_becomes_one_operator_that_keeps_the_intermediate_saturation() -> None:
    reference = _chain(CODES)
    gm = fuse(exported(Graph(_chain), CODES))
    assert targets(gm) == ["case_ops.neg_abs.default"]
    (node,) = [n for n in gm.graph.nodes if n.op == "call_function"]
    blocks = dialect.blocks_of(gm, node)
    assert list(blocks) == ["inp", "mid", "out"]
    mid = blocks["mid"]
    assert mid is not None
    assert (mid.scale_value, mid.zero_point_value) == (MID.scale, MID.zero_point)
    assert (mid.quant_min, mid.quant_max, mid.dtype) == (MID.low, MID.high, torch.int8)
    got = gm(CODES)
    assert got.flatten().tolist() == [_expected(code) for code in CODES.flatten().tolist()]
    assert int((got.int() - reference.int()).abs().max()) <= 1
    unsaturated = OUT.quantize(torch.abs(torch.neg(IN.dequantize(CODES))))
    assert int((got.int() - unsaturated.int()).abs().max()) > 20
    assert targets(fuse(gm)) == ["case_ops.neg_abs.default"]


def _in_place(codes: Tensor) -> Tensor:
    return OUT.quantize(MID.round(IN.dequantize(codes).neg_()).abs_())


def _square(codes: Tensor) -> Tensor:
    return OUT.quantize(torch.square(MID.round(torch.sin(IN.dequantize(codes)))))


@pytest.mark.parametrize(
    ("function", "name"), [(_in_place, "neg_abs"), (_square, "sin_square")], ids=str
)
def test_a_chain_is_named_as_its_user_writes_it(function: Any, name: str) -> None:
    gm = fuse(exported(Graph(function), CODES))
    assert targets(gm) == [f"case_ops.{name}.default"]
    assert targets(fuse(gm)) == [f"case_ops.{name}.default"]


def _read_twice(codes: Tensor) -> tuple[Tensor, Tensor]:
    mid = MID.quantize(torch.neg(IN.dequantize(codes)))
    return OUT.quantize(torch.abs(MID.dequantize(mid))), mid


def _read_elsewhere(codes: Tensor) -> Tensor:
    """On another grid than it was written on."""
    mid = MID.quantize(torch.neg(IN.dequantize(codes)))
    return OUT.quantize(torch.abs(OUT.dequantize(mid)))


def _unrounded(codes: Tensor) -> Tensor:
    return OUT.quantize(torch.abs(torch.neg(IN.dequantize(codes))))


def _another_step(codes: Tensor) -> Tensor:
    return OUT.quantize(torch.relu(MID.round(torch.neg(IN.dequantize(codes)))))


@pytest.mark.parametrize("function", [_read_twice, _read_elsewhere, _unrounded, _another_step])
def test_another_graph_is_no_chain(function: Any) -> None:
    wanted = function(CODES)
    gm = fuse(exported(Graph(function), CODES))
    assert "case_ops.neg_abs.default" not in targets(gm)
    results = gm(CODES)
    for got, value in zip(
        results if isinstance(results, tuple) else (results,),
        wanted if isinstance(wanted, tuple) else (wanted,),
        strict=True,
    ):
        assert int((got.int() - value.int()).abs().max()) <= 1


def test_a_pattern_of_one_operator_comes_before_the_packages_own() -> None:
    gm = fuse(exported(Graph(lambda x: OUT.quantize(torch.tanh(IN.dequantize(x)))), CODES))
    assert targets(gm) == ["case_ops.step.default"]
    assert torch.equal(gm(CODES), torch.full_like(CODES, 127))


def test_decomposition_gives_the_intermediate_back() -> None:
    gm = fuse(exported(Graph(_chain), CODES))
    program = torch.export.export(gm, (CODES,))
    plain = DecomposeFusedQuant()(program).exported_program
    names = targets(plain.graph_module)
    quantize = "quantized_decomposed.quantize_per_tensor.default"
    assert names.count(quantize) == 2  # the intermediate's, and the result's
    assert torch.equal(plain.module()(CODES), _chain(CODES))
    assert targets(fuse(plain.module())) == ["case_ops.neg_abs.default"]
    AssertNoFusedQuantOps()(program)  # another namespace is not the package's


def test_fake_out_and_float_edges() -> None:
    scale, zero = torch.tensor([0.1]), torch.tensor([0])
    null, full = (None, None, torch.float32, 0, 0), (scale, zero, torch.int8, -128, 127)
    op = torch.ops.case_ops.neg_abs
    x = torch.tensor([1.0, -2.0])
    # No intermediate block: float in between, and the float computation.
    assert torch.equal(op(x, *null, *null, *null), torch.tensor([1.0, 2.0]))
    assert op(x, *null, *full, *null).tolist() == pytest.approx([1.0, 2.0])
    out = torch.empty(2)
    assert op.out(x, *null, *null, *null, out=out) is out
    assert out.tolist() == [1.0, 2.0]
    shape = op(x.to("meta"), *null, *null, *full)
    assert (shape.shape, shape.dtype) == (x.shape, torch.int8)


def _register(name: str = "case_ops::new", **changes: Any) -> None:
    arguments: dict[str, Any] = {
        "operands": (Operand("inp"),),
        "anchors": {_aten.sign.default: parser({"inp": "self"})},
        "aten": lambda tensors, _: tensors["inp"],
        "reference": lambda site, tensors: tensors["inp"],
    }
    register_pattern(name, **{**arguments, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "conv"}, "got name 'conv', supported: 'namespace::operator'"),
        ({"name": "fused_quant::mine"}, "got name 'fused_quant::mine', supported: .* another name"),
        ({"name": "a::b c"}, "got name 'a::b c'"),
        ({"anchors": {}}, "case_ops::new: got no anchors"),
        ({"operands": (Operand("inp"), Operand("inp"))}, "got inp more than once"),
        (
            {"steps": (Step("inp", (_aten.sign.default,), lambda x, _: x),)},
            "case_ops::new: got inp more than once",
        ),
        (
            {"anchors": {_aten.square: parser({})}},
            r"got operator aten.square, supported: .*square.def",
        ),
        (
            {"anchors": {torch.square: parser({})}},
            "got operator .*, supported: an overload, such as",
        ),
        (
            {"steps": (Step("mid", (_aten.relu,), lambda x, _: x),)},
            r"got operator aten.relu, supported: torch.ops.aten.relu.default",
        ),
        ({"name": "case_ops::step"}, "operator case_ops::step: registered twice"),
    ],
)
def test_a_bad_registration_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _register(**changes)


def test_the_examples_model_is_near_fake_quantization_for_any_parameters() -> None:
    from examples import custom_pattern  # registers its own pattern

    generator = torch.Generator().manual_seed(0)
    for seed in range(20):
        torch.manual_seed(seed)
        conv = nn.Conv2d(3, 4, 3, stride=1 + seed % 2, padding=seed % 3, bias=bool(seed % 2))
        grids = [
            Grid(0.01 * 2 ** (seed % 5), seed * 7 - 60),
            Grid(0.005 * 2 ** (seed % 4), 30 - seed * 3, -128 + seed, 127),
            Grid(0.01 * 2 ** (seed % 3), seed - 9),
        ]
        weight = Grid(0.003, 0, -127, 127)

        def function(
            x: Tensor, conv: nn.Conv2d = conv, grids: list[Grid] = grids, weight: Grid = weight
        ) -> Tensor:
            taps = weight.round(conv.weight)
            y = functional.conv2d(
                grids[0].dequantize(x), taps, conv.bias, conv.stride, conv.padding
            )
            return grids[2].quantize(functional.hardswish(grids[1].round(y)))

        codes = torch.randint(-128, 128, (2, 3, 6, 5), generator=generator, dtype=torch.int8)
        wanted = function(codes).int()
        gm = fuse(exported(_Case(function, conv), codes))
        assert targets(gm) == ["my_ops.conv_hardswish.default"], targets(gm)
        # One code of the intermediate can be several of the result where hardswish is steep.
        slope = 1.5 * grids[1].scale / grids[2].scale
        assert int((gm(codes).int() - wanted).abs().max()) <= 1 + slope
    assert custom_pattern.CONV_HARDSWISH.key == "my_ops::conv_hardswish"


class _Case(nn.Module):
    """A function over a module's parameters."""

    def __init__(self, function: Any, conv: nn.Conv2d) -> None:
        super().__init__()
        self.function, self.conv = function, conv

    def forward(self, codes: Tensor) -> Tensor:
        return self.function(codes, self.conv)
