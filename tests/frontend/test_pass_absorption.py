# SPDX-License-Identifier: BSD-3-Clause
"""QuantAbsorption: formulas in exact fractions, what it reaches, its modes and their bounds."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.nn import functional

from fused_quant import graph
from fused_quant.dialect import blocks_of
from fused_quant.passes import QuantAbsorption, ReplaceDequantQuantWithRequantize
from fused_quant.passes.composite import consumer_grid, producer_grid
from fused_quant.qparams import QParams
from tests.frontend.graphs import Graph, Grid, Weights, exported, fused, targets
from tests.support import random_quantized
from tests.support.random_quantized import fused_targets, recorded

torch.set_num_threads(1)

IN = Grid(0.05, 3)
A, B, C = Grid(0.04, -9), Grid(0.06, 5), Grid(0.1, 20)
X = torch.linspace(-5, 5, 2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
REQUANTIZE = "fused_quant.requantize.default"


def _params(grid: Grid) -> QParams:
    return QParams.per_tensor(grid.scale, grid.zero_point, grid.dtype, grid.low, grid.high)


def _absorbed(gm: GraphModule, **modes: bool) -> tuple[GraphModule, bool]:
    changed = copy.deepcopy(gm)
    result = QuantAbsorption(**modes)(changed)
    assert not QuantAbsorption(**modes)(changed).modified
    return changed, result.modified


def _node(gm: GraphModule, name: str) -> Node:
    (found,) = [node for node in graph.calls(gm) if name in str(node.target)]
    return found


def _block(gm: GraphModule, name: str, block: str = "out") -> QParams:
    params = blocks_of(gm, _node(gm, name))[block]
    assert params is not None
    return params


_SCALES = (1.0, 0.5, 0.03, 0.007, 2.0**-9, 0.75)


@pytest.mark.parametrize("seed", range(40))
def test_composite_formulas_in_fractions(seed: int) -> None:
    """Producer: s = s_A * s_B / s_D, z = z_B + (z_A - z_D) * s_D / s_B; and the consumer's."""
    generator = torch.Generator().manual_seed(seed)

    def draw() -> Grid:
        scale = _SCALES[int(torch.randint(len(_SCALES), (1,), generator=generator))]
        return Grid(scale, int(torch.randint(-40, 40, (1,), generator=generator)))

    first, second, third = draw(), draw(), draw()
    s = [Fraction(g.scale) for g in (first, second, third)]
    z = [g.zero_point for g in (first, second, third)]
    blocks = [_params(g) for g in (first, second, third)]
    zero = z[2] + (z[0] - z[1]) * s[1] / s[2]
    got = producer_grid(*blocks)
    fits = abs(zero - round(zero)) <= Fraction(1, 10**6) and -128 <= round(zero) <= 127
    assert (got is not None) == fits
    if got is not None:
        assert got.zero_point_value == round(zero)
        error = abs(Fraction(got.scale_value) - s[0] * s[2] / s[1])
        assert error <= Fraction(1, 2**24) * s[0] * s[2] / s[1]  # float32's rounding
    zero = z[0] + (z[2] - z[1]) * s[1] / s[0]
    got = consumer_grid(*blocks)
    assert (got is not None) == (
        abs(zero - round(zero)) <= Fraction(1, 10**6) and -128 <= round(zero) <= 127
    )
    if got is not None:
        assert got.zero_point_value == round(zero)
        error = abs(Fraction(got.scale_value) - s[0] * s[2] / s[1])
        assert error <= Fraction(1, 2**24) * s[0] * s[2] / s[1]


def test_composite_grid_is_b_itself_where_a_is_d() -> None:
    a, b = _params(Grid(0.0371, -13)), _params(Grid(0.0593, 41))
    got = producer_grid(a, a, b)
    assert got is not None
    assert torch.equal(got.scale, b.scale)
    assert torch.equal(got.zero_point, b.zero_point)
    assert (got.quant_min, got.quant_max, got.dtype) == (-128, 127, torch.int8)


@pytest.mark.parametrize(
    ("off", "accepted"), [(0.0, True), (9e-7, True), (-9e-7, True), (1.1e-6, False), (0.5, False)]
)
def test_composite_zero_point_is_integral_to_a_millionth(off: float, accepted: bool) -> None:
    """Here z = 0 + (1 - 0) * s_D / s_B with s_D / s_B = 2 + off."""
    d = Grid(2.0 + off, 0, exact=True)
    got = producer_grid(_params(Grid(0.5, 1)), _params(d), _params(Grid(1.0, 0)))
    assert (got is not None) == accepted
    if got is not None:
        assert got.zero_point_value == 2


@pytest.mark.parametrize(
    ("a", "d", "b"),
    [
        (Grid(1.0, 100), Grid(1.0, 60), Grid(1.0, 88)),  # z = 128
        (Grid(1.0, -100), Grid(1.0, 60), Grid(1.0, 31)),  # z = -129
        (Grid(1.0, 10), Grid(1.0, 0), Grid(1.0, 0, -8, 7)),  # z = 10 in [-8, 7]
        (Grid(1.0, 0, -127), Grid(1.0, 0), Grid(1.0, 0)),  # other ranges
        (Grid(1.0, 0, -128, 126), Grid(1.0, 0), Grid(1.0, 0)),
        (Grid(float("inf"), 0, exact=True), Grid(1.0, 0), Grid(1.0, 0)),
        (Grid(1.0, 0), Grid(float("nan"), 0, exact=True), Grid(1.0, 0)),
        (Grid(1.0, 0), Grid(1.0, 0), Grid(0.0, 0, exact=True)),
        (Grid(1.0, 0), Grid(-1.0, 0, exact=True), Grid(1.0, 0)),
        (Grid(1e30, 0), Grid(1e-30, 0), Grid(1.0, 0)),  # s beyond float32
    ],
)
def test_composite_conditions_refuse(a: Grid, d: Grid, b: Grid) -> None:
    assert producer_grid(_params(a), _params(d), _params(b)) is None


def test_composite_refuses_per_channel() -> None:
    channels = QParams(
        torch.tensor([1.0, 2.0]), torch.zeros(2, dtype=torch.int64), torch.int8, 0, 1
    )
    one = _params(Grid(1.0, 0))
    for blocks in ((channels, one, one), (one, channels, one), (one, one, channels)):
        assert producer_grid(*blocks) is None
        assert consumer_grid(*blocks) is None


def _add(x: Tensor) -> Tensor:
    return IN.round(x) + IN.round(x)


def test_output_side_writes_b() -> None:
    """Add -> Q(A) -> DQ(A) -> Q(B): add writes B, rounded once."""
    gm = fused(Graph(lambda x: B.round(A.round(_add(x)))), X)
    got, modified = _absorbed(gm)
    assert modified
    assert REQUANTIZE not in targets(got)
    out = _block(got, "fused_quant.add")
    assert (out.scale_value, out.zero_point_value) == (B.scale, B.zero_point)
    assert (out.quant_min, out.quant_max) == (-128, 127)
    exact = 2 * IN.round(X).double()
    inside = exact.abs() < 4
    once, twice = (got(X) - exact).abs()[inside], (gm(X) - exact).abs()[inside]
    assert bool((once <= twice + 1e-6).all())
    assert float(once.mean()) < float(twice.mean())


@pytest.mark.parametrize("d", [Grid(0.08, -9), Grid(0.02, -6)])
def test_output_side_writes_the_composite_grid(d: Grid) -> None:
    """Codes written with A and read with another D: the reals are multiplied by s_D / s_A."""

    def function(x: Tensor) -> Tensor:
        return B.round(d.dequantize(A.quantize(_add(x))))

    b = Grid(0.06, 5)
    gm = fused(Graph(function), X / 4)
    got, modified = _absorbed(gm)
    zero = b.zero_point + (Fraction(A.zero_point) - d.zero_point) * Fraction(d.scale) / Fraction(
        b.scale
    )
    assert modified == (abs(zero - round(zero)) <= Fraction(1, 10**6))
    if modified:
        exact = 2 * IN.round(X / 4).double()
        read = (exact / A.scale + A.zero_point - d.zero_point) * d.scale
        assert float((got(X / 4) - read).abs().max()) <= b.scale * 0.5001


def test_output_side_works_on_pairs_that_are_not_requantizes_yet() -> None:
    """Dequantize -> permute -> quantize behind a fused operator, as another fuser leaves it."""
    small = X / 4  # where A does not saturate
    gm = fused(Graph(lambda x: A.quantize(_add(x))), small)
    (output,) = [node for node in gm.graph.nodes if node.op == "output"]
    codes = output.args[0][0] if isinstance(output.args[0], tuple) else output.args[0]
    with gm.graph.inserting_before(output):
        grid_a = (A.scale, A.zero_point, -128, 127, torch.int8)
        real = gm.graph.call_function(graph.DEQUANTIZE, (codes, *grid_a))
        moved = gm.graph.call_function(torch.ops.aten.permute.default, (real, [0, 2, 3, 1]))
        grid_b = (B.scale, B.zero_point, -128, 127, torch.int8)
        result = gm.graph.call_function(graph.QUANTIZE, (moved, *grid_b))
    for node in (real, moved, result):
        graph.refresh_val(node)
    output.replace_input_with(codes, result)
    gm.recompile()
    before = gm(small)
    got, modified = _absorbed(gm)
    assert modified
    assert not any("dequantize" in name for name in targets(got))
    assert _block(got, "fused_quant.add").scale_value == B.scale
    after = got(small)
    assert after.shape == before.shape
    assert int((after.int() - before.int()).abs().max()) <= 1 + A.scale / (2 * B.scale)


def test_output_side_reaches_through_views_and_permutes() -> None:
    def function(x: Tensor) -> Tensor:
        y = A.quantize(_add(x)).permute(0, 2, 3, 1).reshape(2, -1)
        return B.round(A.dequantize(y))

    got, modified = _absorbed(fused(Graph(function), X))
    assert modified
    assert REQUANTIZE not in targets(got)
    assert _block(got, "fused_quant.add").scale_value == B.scale


def test_output_side_keeps_a_fused_relu() -> None:
    """Its bound is real 0, which is z on the composite grid."""

    def function(x: Tensor) -> Tensor:
        return B.round(A.round(functional.relu(_add(x))))

    got, modified = _absorbed(fused(Graph(function), X))
    assert modified
    assert _block(got, "fused_quant.add").quant_min == B.zero_point
    assert float(got(X).min()) == 0.0


def test_output_side_of_a_pool_with_two_results() -> None:
    def function(x: Tensor) -> Tensor:
        return B.round(A.round(functional.max_pool2d(A.round(x), 2)))

    got, modified = _absorbed(fused(Graph(function), X))
    assert modified
    assert _block(got, "max_pool2d").scale_value == B.scale
    expected = B.round(functional.max_pool2d(A.round(X), 2))
    assert float((got(X) - expected).abs().max()) <= B.scale * 1.001


def _forked(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = A.round(_add(x))
    return B.round(y), torch.sin(y), C.round(functional.relu(y))


def test_fork_needs_its_option() -> None:
    gm = fused(Graph(_forked), X)
    got, modified = _absorbed(gm)
    assert not modified
    assert REQUANTIZE in targets(got)


def test_fork_gives_float_and_fused_readers_the_other_grid() -> None:
    gm = fused(Graph(_forked), X)
    got, modified = _absorbed(gm, absorb_with_fork=True)
    assert modified
    assert REQUANTIZE not in targets(got)
    y = got(X)[0]
    assert torch.equal(got(X)[1], torch.sin(y))
    assert _block(got, "relu", "inp").scale_value == B.scale
    exact = 2 * IN.round(X)
    inside = exact.abs() < 4
    read_before = A.round(exact)
    assert float((y - read_before).abs()[inside].max()) <= (A.scale + B.scale) / 2 * 1.001


def test_fork_whose_codes_are_an_output_stays() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        codes = A.quantize(_add(x))
        return B.round(A.dequantize(codes)), codes

    _, modified = _absorbed(fused(Graph(function), X), absorb_with_fork=True)
    assert not modified


def _late_graph() -> tuple[GraphModule, Tensor]:
    """Codes come from outside, so only the consumer can absorb the rewriting."""
    weights = Weights(torch.arange(-15, 15).reshape(6, 5) * 4, [0.02, 0.01, 0.03, 0.02, 0.01, 0.04])
    bias = torch.linspace(-1, 1, 6)

    class WithBias(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = weights
            self.register_buffer("bias", bias)

        def forward(self, x: Tensor) -> Tensor:
            y = B.round(A.dequantize(x))
            return C.round(functional.linear(y, self.weights(), self.get_buffer("bias")))

    codes = A.quantize(X)
    return fused(WithBias(), codes), codes


def test_input_side_is_opt_in() -> None:
    gm, _ = _late_graph()
    got, modified = _absorbed(gm)
    assert not modified
    assert REQUANTIZE in targets(got)


def test_input_side_reads_the_composite_grid_and_its_bias_follows() -> None:
    gm, codes = _late_graph()
    got, modified = _absorbed(gm, absorb_into_inputs=True)
    assert modified
    assert REQUANTIZE not in targets(got)
    inp = _block(got, "linear", "inp")
    assert (inp.scale_value, inp.zero_point_value) == (A.scale, A.zero_point)
    bias = _block(got, "linear", "bias")
    weight = _block(got, "linear", "weight")
    expected = A.scale * weight.scale.double().reshape(-1)
    assert torch.allclose(bias.scale.double().reshape(-1), expected, rtol=1e-6, atol=0)
    float_weight = weight.dequantize(torch.arange(-15, 15).reshape(6, 5).to(torch.int8) * 4)
    exact = functional.linear(A.dequantize(codes), float_weight, torch.linspace(-1, 1, 6))
    inside = exact.abs() < 8
    assert float((got(codes) - exact).abs()[inside].max()) <= C.scale * 0.51


def _check_output_bound(old: GraphModule, new: GraphModule, inputs: Any) -> int:
    """Codes of each rewriting that a producer took over, against its codes now; how many."""
    before, after = recorded(old, inputs), recorded(new, inputs)
    left = {node.name for node in graph.calls(new)}
    checked = 0
    for node in graph.calls(old):
        if str(node.target) != REQUANTIZE or node.name in left:
            continue
        source = node.args[0]
        assert isinstance(source, Node)
        blocks = blocks_of(old, node)
        d, b = blocks["inp"], blocks["out"]
        assert d is not None
        assert b is not None
        codes, kept = before[node.name], before[source.name]
        # Saturated codes of A are outside the bound.
        whole = (kept > d.quant_min) & (kept < d.quant_max)
        difference = (after[source.name].int() - codes.int()).abs()[whole]
        if difference.numel():
            limit = 1 + d.scale_value / (2 * b.scale_value) + 1e-3
            assert int(difference.max()) <= limit
        checked += 1
    return checked


@pytest.mark.parametrize("seed", range(50))
def test_random_graphs_output_side(seed: int) -> None:
    drawn = random_quantized.rewritten(seed)
    if drawn is None:
        return
    gm, inputs, _ = drawn
    # Several rewritings in a row would add up: the bound is one rewriting's.
    got, _ = _absorbed(gm)
    assert fused_targets(got) == fused_targets(gm)
    rewritings = [n for n in graph.calls(gm) if str(n.target) == REQUANTIZE]
    if len(rewritings) == 1:
        _check_output_bound(gm, got, inputs)


def test_random_graphs_do_absorb() -> None:
    """So that the property above says something."""
    modified = [
        _absorbed(drawn[0])[1]
        for drawn in map(random_quantized.rewritten, range(50))
        if drawn is not None
    ]
    assert sum(modified) >= 10


@pytest.mark.parametrize("seed", range(25))
def test_random_graphs_all_modes(seed: int) -> None:
    """Structure: nothing lost, nothing left to do, and the requantize pass still applies."""
    drawn = random_quantized.rewritten(seed)
    if drawn is None:
        return
    gm, inputs, _ = drawn
    got, _ = _absorbed(gm, absorb_into_inputs=True, absorb_with_fork=True)
    assert fused_targets(got) == fused_targets(gm)
    before, after = gm(*inputs), got(*inputs)
    pairs = zip(before, after, strict=True) if isinstance(before, tuple) else [(before, after)]
    for old, new in pairs:
        assert old.shape == new.shape
        assert old.dtype == new.dtype
    assert not ReplaceDequantQuantWithRequantize()(got).modified
    assert isinstance(exported(got, *inputs), GraphModule)
