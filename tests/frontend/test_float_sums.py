# SPDX-License-Identifier: BSD-3-Clause
"""A sum of a dequantized tensor and a float result, as the x86 quantizer leaves residuals."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import fused_quant
from fused_quant.claims import claim
from fused_quant.target import GENERIC
from tests.e2e import routes
from tests.frontend.graphs import Graph, Grid, Weights, exported, run_natively, targets
from tests.support.foreign import x86_inductor_quantizer

torch.set_num_threads(1)

Sum = Callable[[Tensor, Tensor], Tensor]
IN, MID, OUT = Grid(0.05, -3), Grid(0.031, 11), Grid(0.042, -7)
BYTES = dataclasses.replace(MID, zero_point=90, low=0, high=255, dtype=torch.uint8)
FOLDED = ["linear", "requantize", "quantize_per_tensor", "add", "requantize"]


def _weights(seed: int = 0) -> Weights:
    codes = torch.randint(-127, 128, (6, 5), generator=torch.Generator().manual_seed(seed))
    return Weights(codes, [0.003, 0.002, 0.001, 0.004, 0.002, 0.005])


def _module(total: Sum, x: Grid = MID, out: Grid = OUT) -> Graph:
    def function(weight: Weights, codes: Tensor, other: Tensor) -> Tensor:
        y = nn.functional.linear(IN.dequantize(codes), weight())
        return out.quantize(total(x.dequantize(other), y))

    return Graph(function, weight=_weights())


def _codes(grid: Grid, columns: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (64, columns)
    return torch.randint(grid.low, grid.high + 1, shape, generator=generator).to(grid.dtype)


def _names(gm: torch.fx.GraphModule) -> list[str]:
    return [name.split(".")[1] for name in targets(gm) if "_guards_fn" not in name]


SUMS: dict[str, Sum] = {
    "grid-first": lambda x, y: x + y,
    "grid-second-relu": lambda x, y: torch.relu(y + x),
    "in-place-relu6": lambda x, y: nn.functional.relu6(y.add_(x)),
}


@pytest.mark.parametrize("grid", [MID, BYTES], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", SUMS)
def test_boundary_a_float_operand_is_added_in_int16(name: str, grid: Grid) -> None:
    module, inputs = _module(SUMS[name], grid), (_codes(IN, 5, 1), _codes(grid, 6, 2))
    gm = fused_quant.fuse(exported(module, *inputs))
    assert sorted(_names(gm)) == sorted(FOLDED)
    got = gm(*inputs)
    apart = (got.int() - module(*inputs).int()).abs()
    assert int(apart.max()) <= 1
    assert int(apart.count_nonzero()) <= got.numel() // 20  # only near ties
    assert torch.equal(run_natively(gm, *inputs)[0], got)
    assert _names(fused_quant.fuse(gm)) == _names(gm)


def test_rounding_and_saturation_for_any_scales() -> None:
    """At most one code from the float graph, whatever the scales."""
    closed = 0
    for x_scale, out_scale, zero in itertools.product(
        (0.0007, 0.02, 0.1), (0.004, 0.03, 0.25), (-128, 5)
    ):
        grid, out = Grid(x_scale, zero), Grid(out_scale, -zero - 1)
        module = _module(SUMS["grid-first"], grid, out)
        inputs = (_codes(IN, 5, 3), _codes(grid, 6, 4))
        gm = fused_quant.fuse(exported(module, *inputs))
        closed += "fused_quant.add.default" in targets(gm)
        assert int((gm(*inputs).int() - module(*inputs).int()).abs().max()) <= 1
    assert closed >= 12


def _read_twice(x: Tensor, y: Tensor) -> Tensor:
    return x + y + y.abs()


LEFT: dict[str, tuple[Sum, Grid, Grid]] = {
    "alpha": (lambda x, y: torch.add(x, y, alpha=2), MID, OUT),
    "read-twice": (_read_twice, MID, OUT),
    "no-product": (lambda x, y: x + torch.sin(y), MID, OUT),
    "result-too-fine": (lambda x, y: x + y, Grid(1.0), Grid(0.01)),
    "int16": (lambda x, y: x + y, Grid(0.01, 0, -32768, 32767, torch.int16), OUT),
}


@pytest.mark.parametrize("name", LEFT)
def test_boundary_other_sums_of_floats_stay(name: str) -> None:
    function, grid, out = LEFT[name]
    module, inputs = _module(function, grid, out), (_codes(IN, 5, 1), _codes(grid, 6, 2))
    gm = fused_quant.fuse(exported(module, *inputs))
    assert "aten.add.Tensor" in targets(gm)
    assert int((gm(*inputs).int() - module(*inputs).int()).abs().max()) <= 1


@pytest.mark.parametrize("units", [1, 2, 3, 5])
def test_boundary_a_sum_is_never_claimed_without_its_operand(units: int) -> None:
    """A partition that ends between the two leaves both outside."""
    inputs = (_codes(IN, 5, 1), _codes(MID, 6, 2))
    program = torch.export.export(exported(_module(SUMS["grid-first"]), *inputs), inputs)
    target = dataclasses.replace(GENERIC, partition_units=units)
    partitions = claim(program, target).partitions
    assert partitions.get("linear") == partitions.get("add")
    assert ("add" in partitions) == (units == 5)


class _Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.last = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x) + x)
        return self.last(x) + x


def test_boundary_residuals_of_the_x86_quantizer_are_one_delegate_call() -> None:
    torch.manual_seed(0)
    x = (torch.randn(2, 3, 6, 5),)
    raw = routes.quantize_dequantize(_Residual(), [x], x86_inductor_quantizer())
    edge = routes.lowered(copy.deepcopy(raw), x, routes.TO_EDGE)
    assert routes.operators(edge).count("executorch_call_delegate") == 1
    routes.assert_same_bits(routes.run(edge, x), routes.eager(routes.fused_copy(raw), x))
