# SPDX-License-Identifier: BSD-3-Clause
"""Fusing where a graph is unusual: sizes, types, bounds, orders. Nothing may change or raise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.exir import to_edge
from torch import Tensor
from torch.ao.quantization.fx._decomposed import quantized_decomposed_lib  # noqa: F401
from torch.export import Dim
from torchao.quantization import quant_primitives  # noqa: F401  # registers its operators

import fused_quant
from fused_quant import dialect, graph
from fused_quant.fuse import fuse_graph
from fused_quant.partitioner import FusedQuantPartitioner
from fused_quant.qparams import QParams
from tests.frontend.graphs import Graph, Grid, exported, fused, targets

torch.set_num_threads(1)
_qd = torch.ops.quantized_decomposed

IN, OUT = Grid(0.05, -3), Grid(0.5, 7)


def _codes(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-128, 128, shape, dtype=torch.int8, generator=generator)


def _read(codes: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    real: Tensor = _qd.dequantize_per_tensor.default(
        codes, IN.scale, IN.zero_point, IN.low, IN.high, IN.dtype, out_dtype=dtype
    )
    return real


def _is_within_a_code(function: Callable[..., Any], *inputs: Tensor) -> list[str]:
    """Compare with the unfused graph, values and types; the operators of the fused one."""
    wanted = exported(Graph(function), *inputs)(*inputs)
    gm = fused(Graph(function), *inputs)
    for one, other in zip(gm(*inputs), wanted, strict=True):
        assert one.dtype == other.dtype
        limit = 0 if one.dtype.is_floating_point else 1
        assert float((one.double() - other.double()).abs().max()) <= limit
    return targets(gm)


DYNAMIC: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...], tuple[Any, ...]]] = {
    "matmul": (
        lambda a, b: OUT.quantize(IN.dequantize(a) @ IN.dequantize(b).t()),
        (_codes(4, 5), _codes(6, 5)),
        ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}),
    ),
    "mm": (
        lambda a, b: OUT.quantize(torch.mm(IN.dequantize(a), IN.dequantize(b))),
        (_codes(4, 5), _codes(5, 6)),
        ({0: Dim.DYNAMIC}, None),
    ),
    "expand": (
        lambda a: OUT.quantize(IN.dequantize(a).expand(a.shape[0], 5) + 1),
        (_codes(4, 5),),
        ({0: Dim.DYNAMIC},),
    ),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_sizes_are_left_or_fused_but_never_raise(name: str) -> None:
    function, inputs, shapes = DYNAMIC[name]

    def program() -> Any:
        dynamic = {"inputs": shapes}
        return torch.export.export(Graph(function), inputs, dynamic_shapes=dynamic)

    gm = fused_quant.fuse(program().module())
    smaller = tuple(x[:3] if shape else x for x, shape in zip(inputs, shapes, strict=True))
    for case in (inputs, smaller):
        difference = gm(*case).int() - function(*case).int()
        assert int(difference.abs().max()) <= 1
    partitioner = FusedQuantPartitioner()
    partitioner.partition(to_edge(program()).exported_program())
    assert partitioner.refusals


def test_dtype_integers_that_look_like_an_activation_stay_integers() -> None:
    def function(i: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        relu = OUT.quantize(IN.dequantize(x).relu())
        return (i + 3).clamp(0, 6) / 6, i * torch.sigmoid(i), relu

    operators = _is_within_a_code(function, torch.arange(-5, 5), _codes(4))
    assert not [name for name in operators if "hard" in name or "silu" in name]


def test_saturation_two_bounds_on_one_grid_are_two_results() -> None:
    narrow = dataclasses.replace(OUT, low=-64, high=63)

    def function(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        total = IN.dequantize(a) * IN.dequantize(b)
        return OUT.quantize(total), narrow.quantize(total)

    _is_within_a_code(function, _codes(50), _codes(50, seed=1))


def test_saturation_codes_of_a_caller_are_clamped_to_the_range_they_exceed() -> None:
    narrow = dataclasses.replace(IN, low=-127)

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return (narrow.quantize(narrow.dequantize(x).reshape(-1)),)

    x = torch.tensor([[-128, -127, 127]], dtype=torch.int8)
    gm = fused(Graph(function), x)
    assert gm(x)[0].tolist() == [-127, -127, 127]
    assert "fused_quant.requantize.default" in targets(gm)


def test_a_dropout_that_is_trained_stays_in_float() -> None:
    """Half of the elements become twice as large, which codes of the input's grid cannot show."""

    def function(x: Tensor) -> Tensor:
        return OUT.quantize(torch.dropout(IN.dequantize(x), 0.5, True))

    x = torch.full((400,), 47, dtype=torch.int8)  # 2.5
    gm = fused_quant.fuse(torch.export.export(Graph(function), (x,)).module())
    assert set(gm(x).tolist()) == {7, 17}


def test_reduced_precision_a_dequantize_keeps_its_type() -> None:
    half, brain = torch.float16, torch.bfloat16

    def function(x: Tensor) -> tuple[Tensor, ...]:
        one, other = _read(x, half), _read(x, brain)
        moved = other.reshape(-1)
        grid = (torch.tensor(0.25), torch.tensor(3), -128, 127, torch.int8)
        third = _qd.dequantize_per_tensor.tensor(x, *grid, out_dtype=half)
        return one.sin(), one.relu().sin(), moved.sin(), OUT.quantize(moved), third

    _is_within_a_code(function, _codes(5, 2))


def test_the_quantize_that_comes_first_is_replaced_first() -> None:
    """Quantizes of one value are in the order of their making, which need not be the graph's."""

    def function(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        total = IN.dequantize(a) + IN.dequantize(b)
        flat = OUT.quantize(total.reshape(-1))
        relu = OUT.quantize(OUT.dequantize(flat).relu())
        return relu, OUT.quantize(total)

    operators = _is_within_a_code(function, _codes(2, 3), _codes(2, 3, seed=1))
    assert operators.count("fused_quant.add.default") == 1


def test_a_clamp_bound_that_is_not_a_number_is_refused() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        real = IN.dequantize(x)
        return (OUT.quantize(torch.clamp(real + real, min=float("nan"))),)

    gm = exported(Graph(function), _codes(4))
    reasons = fuse_graph(gm)
    assert reasons["add"].code == "shape"
    assert "nan" in str(reasons["add"])


def test_a_number_that_is_copied_to_integers_loses_its_fraction() -> None:
    def function(x: Tensor) -> Tensor:
        return OUT.quantize(IN.dequantize(x) * torch.tensor(2.7).to(torch.int32))

    x = _codes(64)
    program = to_edge(torch.export.export(Graph(function), (x,))).exported_program()
    gm = graph.unlifted(program)
    fuse_graph(gm)
    assert int((gm(x)[0].int() - function(x).int()).abs().max()) <= 1


def test_constant_computed_zero_points_are_not_taken_for_zeros() -> None:
    scales = torch.tensor([0.5, 0.25])

    def function(x: Tensor, zeros: Tensor) -> tuple[Tensor, ...]:
        real = _qd.dequantize_per_channel.default(x, scales, zeros, 0, -128, 127, torch.int8)
        return (OUT.quantize(real + real),)

    _is_within_a_code(function, _codes(2, 3), torch.tensor([40, -9]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_overflow_reals_of_reduced_precision_are_computed_in_float32(dtype: torch.dtype) -> None:
    """Codes of a bias exceed float16, codes of 16 bits exceed what bfloat16 can tell apart."""
    bias = QParams.per_tensor(2.0**-16, 0, dtype, -(2**31), 2**31 - 1)
    assert bias.dequantize(torch.tensor([3 * 2**20], dtype=torch.int32)).tolist() == [48.0]
    out = QParams.per_tensor(2.0**-13, 0, torch.int16, -32768, 32767)
    x = torch.tensor([0.7, -1.3]).to(dtype)
    assert out.quantize(x).tolist() == [round(float(v) * 2**13) for v in x]


class _Affine(torch.nn.Module):
    """A linear between torchao's affine operators; blocks: of the weight [4, 6]."""

    def __init__(self, blocks: list[int]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        counts = [4 // blocks[0], 6 // blocks[1]]
        self.blocks = blocks
        self.register_buffer("weight", _codes(4, 6))
        self.register_buffer("scale", torch.rand(counts, generator=generator) / 50 + 0.01)
        self.register_buffer("zero", torch.zeros(counts, dtype=torch.int64))
        self.register_buffer("scale_x", torch.tensor([0.05]))
        self.register_buffer("scale_y", torch.tensor([0.5]))
        self.register_buffer("zero_x", torch.tensor([3]))

    def forward(self, x: Tensor) -> Tensor:
        ops, stored = torch.ops.torchao, (torch.int8, -128, 127)
        grid = ([2, 6], self.scale_x, self.zero_x, *stored)
        real = ops.dequantize_affine.default(ops.quantize_affine.default(x, *grid), *grid)
        weight = ops.dequantize_affine.default(
            self.weight, self.blocks, self.scale, self.zero, *stored
        )
        y = torch.nn.functional.linear(real, weight)
        grid = ([2, 4], self.scale_y, self.zero_x, *stored)
        result: Tensor = ops.quantize_affine.default(y, *grid)
        return result


@pytest.mark.parametrize("blocks", [[4, 6], [1, 6], [1, 3], [2, 2]])
def test_pattern_affine_operators_of_every_granularity(blocks: list[int]) -> None:
    x = torch.linspace(-5, 5, 12).reshape(2, 6)
    module = _Affine(blocks)
    wanted = module(x)
    gm = fused(module, x)
    assert [name for name in targets(gm) if "linear" in name] == ["fused_quant.linear.default"]
    assert not [name for name in targets(gm) if "affine" in name]
    assert int((gm(x).int() - wanted.int()).abs().max()) <= 1
    (node,) = [n for n in gm.graph.nodes if "linear" in str(n.target)]
    block = dialect.blocks_of(gm, node)["weight"]
    assert block is not None
    assert torch.equal(block.scale.reshape(-1), module.get_buffer("scale").reshape(-1))


@pytest.mark.parametrize("dim", [2, -3])
def test_a_dimension_that_is_not_there_is_an_error(dim: int) -> None:
    """As in ATen, and not another dimension."""
    ops, x = torch.ops.fused_quant, _codes(2, 3)
    grid = (torch.tensor([0.05]), torch.tensor([0]))
    source = (x, *grid, torch.float32, -128, 127)
    with pytest.raises(IndexError):
        ops.softmax(*source, *grid, torch.int8, -128, 127, dim)
    with pytest.raises(IndexError):
        ops.mean(*source, *grid, torch.int8, -128, 127, [dim], False)
    with pytest.raises(ValueError, match="cat: got no tensors, supported: 1 or more"):
        ops.cat([], [], [], torch.float32, [], [], *grid, torch.int8, -128, 127)
