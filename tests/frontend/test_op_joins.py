# SPDX-License-Identifier: BSD-3-Clause
"""cat, maximum, minimum, constant_pad_nd, upsample_nearest2d, embedding: one rescale per input."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import fused_quant
from fused_quant import dialect
from tests.frontend.blocks import FLOAT, GRIDS, OPS, Block, block, codes, error, fitting, real
from tests.frontend.both_graphs import both, converted, fused_names, result_of
from tests.frontend.exact import float32, rescale
from tests.frontend.graphs import Graph, Grid, fused

torch.set_num_threads(1)

OUT = block(0.06, 9, out=True)


def _rescaled(x: Tensor, source: Block, out: Block) -> Tensor:
    """Every code on the output's grid, in Python integers."""
    ratio = float(source[0]) / float(out[0])
    flat = [
        rescale(code - int(source[1]), ratio, int(out[1]), out[3], out[4])
        for code in x.flatten().tolist()
    ]
    return torch.tensor(flat, dtype=torch.int8).reshape(x.shape)


def _lists(*blocks: Block) -> tuple[Any, ...]:
    """The block of a list operand."""
    scales, zero_points, dtypes, *bounds = map(list, zip(*blocks, strict=True))
    return (scales, zero_points, dtypes[0], *bounds)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_qparam_mismatch_each_input_of_cat_is_rescaled(dim: int) -> None:
    """Three inputs on three grids, one of them the output's, one used twice."""
    tensors = [codes(2, 3, 4, seed=i) for i in range(3)]
    blocks = [block(0.05, -3), block(5.0, 127), block(0.06, 9)]
    inputs, params = [*tensors, tensors[0]], [*blocks, blocks[0]]
    got = OPS.cat(inputs, *_lists(*params), *OUT, dim)
    parts = [_rescaled(x, p, OUT) for x, p in zip(inputs, params, strict=True)]
    assert torch.equal(got, torch.cat(parts, dim))
    assert torch.equal(parts[2], tensors[2])


def test_cat_of_one_and_of_different_sizes() -> None:
    assert torch.equal(OPS.cat([codes(2, 3)], *_lists(block(0.06, 9)), *OUT), codes(2, 3))
    sizes = [codes(2, 1, seed=1), codes(2, 5, seed=2)]
    got = OPS.cat(sizes, *_lists(block(0.06, 9), block(0.06, 9)), *OUT, 1)
    assert torch.equal(got, torch.cat(sizes, 1))


@pytest.mark.parametrize("edges", list(itertools.product([False, True], repeat=3)))
def test_cat_float_edges(edges: tuple[bool, bool, bool]) -> None:
    params = [block(0.05, -3), block(0.3, 20)]
    tensors = [codes(2, 3, seed=1), codes(2, 2, seed=2)]
    reals = [real(x, p).float() for x, p in zip(tensors, params, strict=True)]
    chosen = [x if q else r for x, r, q in zip(tensors, reals, edges, strict=False)]
    blocks = [p if q else FLOAT for p, q in zip(params, edges, strict=False)]
    got = OPS.cat(chosen, *_lists(*blocks), *(OUT if edges[2] else FLOAT), 1)
    exact = torch.cat(reals, 1)
    if edges[2]:
        assert error(got, exact, OUT) <= 0.5 + 1e-3
    else:
        torch.testing.assert_close(got, exact)


def test_cat_blocks_of_the_wrong_length_are_an_error() -> None:
    scales, zero_points, dtype, *bounds = _lists(block(0.05), block(0.06))
    wrong = (scales[:1], zero_points, dtype, *bounds)
    with pytest.raises(ValueError, match=r"inp_scale: got 1 entries for 2 tensors"):
        OPS.cat([codes(2), codes(2)], *wrong, *OUT)
    half = ([scales[0], None], zero_points, dtype, *bounds)
    with pytest.raises(ValueError, match=r"inp_1.*None"):
        OPS.cat([codes(2), codes(2)], *half, *OUT)


def test_cat_blocks_by_name() -> None:
    """blocks_of and the site of a node know the members of the list as operands."""
    first, second, out = Grid(0.05, -3), Grid(0.5, 7), Grid(0.4, 1)

    def function(a: Tensor, b: Tensor) -> Tensor:
        return out.quantize(torch.cat([first.dequantize(a), second.dequantize(b)], 1))

    gm = fused(Graph(function), codes(2, 3), codes(2, 4))
    node = next(n for n in gm.graph.nodes if "fused_quant.cat" in str(n.target))
    blocks = dialect.blocks_of(gm, node)
    assert list(blocks) == ["inp_0", "inp_1", "out"]
    assert [b.zero_point_value for b in blocks.values() if b is not None] == [-3, 7, 1]
    site = dialect.site_of(gm, node)
    assert dict(site.shapes) == {"inp_0": (2, 3), "inp_1": (2, 4)}


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("first", GRIDS)
def test_extremes_on_the_outputs_grid(name: str, first: tuple[float, int]) -> None:
    a, b = codes(2, 3, 4, seed=1), codes(3, 1, seed=2)
    left, right = block(*first), block(0.04, 12)
    out = (*block(0.06, 9, out=True)[:3], -100, 90)
    got = getattr(OPS, name)(a, b, *left, *right, *out)
    aten = getattr(torch, name)
    assert torch.equal(got, aten(_rescaled(a, left, out), _rescaled(b, right, out)))
    assert error(got, aten(real(a, left), real(b, right)), out) <= 1


@pytest.mark.parametrize("value", [0.0, 0.5, -3.3, 1e9, -1e9, float("inf")])
@pytest.mark.parametrize("pad", [[1, 2], [1, 0, 2, 3], [-1, 2, 0, -1]])
def test_padding_has_the_code_of_its_value(value: float, pad: list[int]) -> None:
    x, source = codes(2, 3, 4), block(0.05, -3)
    got = OPS.constant_pad_nd(x, *source, *OUT, pad, value)
    steps = torch.round(torch.tensor(value) * torch.tensor(float32(1 / float(OUT[0]))))
    code = int((steps + 9).clamp(-128, 127))
    assert torch.equal(got, functional.pad(_rescaled(x, source, OUT), pad, value=code))
    assert got.shape == functional.pad(x, pad).shape


def test_padding_with_nan_computes_in_float() -> None:
    got = OPS.constant_pad_nd(codes(2, 3), *block(0.05), *OUT, [1, 0], float("nan"))
    assert got[:, 0].tolist() == [9, 9]


@pytest.mark.parametrize(
    "sizes", [([4, 6], None, None), ([5, 7], None, None), ([6, 9], 3.0, 3.0), ([5, 7], 2.5, 2.4)]
)
def test_upsampling_repeats_codes(sizes: tuple[list[int], float | None, float | None]) -> None:
    x, source = codes(3, 2, 2, 3), block(0.05, -3)
    got = OPS.upsample_nearest2d(x, *source, *OUT, *sizes)
    index = torch.arange(6.0).reshape(1, 1, 2, 3)
    places = torch.ops.aten.upsample_nearest2d.default(index, *sizes).long().flatten()
    expected = _rescaled(x, source, OUT).flatten(2)[..., places].reshape(3, 2, *sizes[0])
    assert torch.equal(got, expected)


def test_rows_of_an_embedding() -> None:
    table, source = codes(7, 4), block(0.05, -3)
    indices = torch.tensor([[6, 0, 3], [3, 3, 1]])
    got = OPS.embedding(table, *source, *OUT, indices)
    assert torch.equal(got, _rescaled(table, source, OUT)[indices])
    assert torch.equal(OPS.embedding(table, *source, *OUT, indices.int(), 3), got)


@pytest.mark.parametrize(
    "scale", [torch.rand(7, 1) + 0.1, torch.rand(1, 4) + 0.1, torch.rand(7, 2)]
)
def test_embedding_of_other_granularity_computes_in_float(scale: Tensor) -> None:
    """Per row, per column, and in groups of two columns."""
    table, indices = codes(7, 4), torch.tensor([6, 0, 3])
    widened = scale.repeat_interleave(4 // scale.shape[1], 1) if scale.shape[1] == 2 else scale
    exact = (table.double() * widened.double())[indices]
    out = fitting(exact)
    assert error(OPS.embedding(table, *block(scale), *out, indices), exact, out) <= 0.5 + 1e-3
    got = OPS.embedding(table, *block(scale), *FLOAT, indices)
    torch.testing.assert_close(got, exact.float())


UNARY_FLOAT: dict[str, tuple[tuple[Any, ...], Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "constant_pad_nd": (([1, 2], 0.5), lambda x: functional.pad(x, [1, 2], value=0.5), (3, 4)),
    "upsample_nearest2d": (
        ([4, 6],),
        lambda x: functional.interpolate(x, size=(4, 6)),
        (1, 2, 2, 3),
    ),
}


@pytest.mark.parametrize("name", UNARY_FLOAT)
def test_float_edges(name: str) -> None:
    further, aten, shape = UNARY_FLOAT[name]
    op = getattr(OPS, name)
    x, source = codes(*shape), block(0.05, -3)
    values = real(x, source).float()
    torch.testing.assert_close(op(values, *FLOAT, *FLOAT, *further), aten(values))
    torch.testing.assert_close(op(x, *source, *FLOAT, *further), aten(values))
    assert error(op(values, *FLOAT, *OUT, *further), aten(values), OUT) <= 0.5 + 1e-3


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_one_float_edge(name: str) -> None:
    x, other = codes(3, 4), torch.linspace(-3, 3, 4)
    exact = getattr(torch, name)(real(x, block(0.05)).float(), other)
    got = getattr(OPS, name)(x, other, *block(0.05), *FLOAT, *FLOAT)
    torch.testing.assert_close(got, exact)
    rounded = getattr(OPS, name)(x, other, *block(0.05), *FLOAT, *OUT)
    assert error(rounded, exact, OUT) <= 0.5 + 1e-3


A, B, AFTER = Grid(0.05, -3), Grid(0.3, 11), Grid(0.31, 7)
PAIR = (codes(2, 3, 4, 4, seed=1), codes(2, 3, 4, 4, seed=2))
SPELLINGS: dict[str, tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "cat": ("cat", lambda a, b: torch.cat([a, b, a], 1)),
    "concat": ("cat", lambda a, b: torch.concat([a, b], -1)),
    "cat-default-dim": ("cat", lambda a, b: torch.cat([a, b])),
    "maximum": ("maximum", torch.maximum),
    "max": ("maximum", torch.max),
    "minimum": ("minimum", torch.minimum),
    "min": ("minimum", torch.min),
    "pad": ("constant_pad_nd", lambda a, b: functional.pad(a, [1, 2])),
    "pad-value": ("constant_pad_nd", lambda a, b: functional.pad(a, [1, 0, 0, 2], value=0.7)),
    "upsample": ("upsample_nearest2d", lambda a, b: functional.interpolate(a, scale_factor=2)),
    "upsample-size": ("upsample_nearest2d", lambda a, b: functional.interpolate(a, size=(5, 9))),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_are_one_operator(name: str) -> None:
    wanted, function = SPELLINGS[name]
    module = Graph(lambda a, b: AFTER.quantize(function(A.dequantize(a), B.dequantize(b))))
    results = []
    for gm in both(module, *PAIR):
        assert fused_names(gm) == [f"{wanted}.default"]
        results.append(result_of(gm, PAIR))
        assert int((results[-1].int() - module(*PAIR).int()).abs().max()) <= 1
    assert torch.equal(*results)


def test_other_padding_modes_move_codes() -> None:
    """Mirrored elements are input elements: only the grid changes, behind the movement."""
    module = Graph(
        lambda a: AFTER.quantize(functional.pad(A.dequantize(a), [1, 1, 1, 1], "reflect"))
    )
    gm = fused(module, PAIR[0])
    assert fused_names(gm) == ["requantize.default"]
    got = result_of(gm, PAIR[:1])
    assert got.shape == module(PAIR[0]).shape
    assert int((got.int() - module(PAIR[0]).int()).abs().max()) <= 1


def test_an_embedding_of_a_quantized_table() -> None:
    module = nn.Sequential(nn.Embedding(10, 4, padding_idx=2), nn.Linear(4, 3))
    x = torch.tensor([[1, 2, 9]])
    raw = converted(module, x)
    reference = raw(x)
    results = []
    for gm in both(raw, x):
        assert "embedding.default" in fused_names(gm)
        results.append(result_of(gm, (x,)))
    assert torch.equal(*results)
    assert float((results[0] - reference).abs().max()) <= float(reference.abs().max()) / 20


@pytest.mark.parametrize("name", ["cat", "maximum", "constant_pad_nd", "upsample_nearest2d"])
def test_the_default_quantizer_takes_it(name: str) -> None:
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "cat": lambda x: torch.cat([torch.relu(x), torch.sigmoid(x)], 1),
        "maximum": lambda x: torch.maximum(torch.relu(x), torch.sigmoid(x)),
        "constant_pad_nd": lambda x: torch.relu(functional.pad(torch.tanh(x), [1, 1], value=0.5)),
        "upsample_nearest2d": lambda x: functional.interpolate(torch.relu(x), scale_factor=2),
    }
    x = torch.linspace(-2, 5, 96).reshape(2, 3, 4, 4)
    raw = converted(Graph(functions[name]), x)
    reference = raw(x)
    gm = fused_quant.fuse(raw)
    assert f"{name}.default" in fused_names(gm)
    assert float((gm(x) - reference).abs().max()) <= 0.1
