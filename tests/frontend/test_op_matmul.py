# SPDX-License-Identifier: BSD-3-Clause
"""bmm, and every matrix product that becomes one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.frontend.blocks import FLOAT, GRIDS, OPS, block, codes, error, fitting, real
from tests.frontend.both_graphs import both, converted, fused_names, result_of
from tests.frontend.exact import rescale
from tests.frontend.graphs import Graph, Grid, fused, targets

torch.set_num_threads(1)


@pytest.mark.parametrize("first", GRIDS)
@pytest.mark.parametrize("second", GRIDS[:3])
def test_sums_in_python_integers(first: tuple[float, int], second: tuple[float, int]) -> None:
    a, b = codes(2, 3, 5, seed=1), codes(2, 5, 4, seed=2)
    left, right = block(*first), block(*second)
    out = fitting(real(a, left) @ real(b, right), 9)
    ratio = (float(left[0]) * float(right[0])) / float(out[0])
    got = OPS.bmm(a, b, *left, *right, *out)
    for n in range(2):
        for i in range(3):
            for j in range(4):
                pairs = zip(a[n, i].tolist(), b[n, :, j].tolist(), strict=True)
                acc = sum((p - first[1]) * (q - second[1]) for p, q in pairs)
                assert int(got[n, i, j]) == rescale(acc, ratio, 9)


def test_batch_items_are_independent() -> None:
    a, b = codes(3, 4, 6, seed=1), codes(3, 6, 2, seed=2)
    blocks = (*block(0.05, -3), *block(0.04, 5), *block(2.0, 7, out=True))
    whole = OPS.bmm(a, b, *blocks)
    for n in range(3):
        assert torch.equal(whole[n : n + 1], OPS.bmm(a[n : n + 1], b[n : n + 1], *blocks))


@pytest.mark.parametrize("quantized", [(0, 0, 0), (1, 0, 0), (0, 1, 1), (1, 1, 0), (1, 0, 1)])
def test_float_edges(quantized: tuple[int, int, int]) -> None:
    params = (block(0.05, -3), block(0.04, 5))
    operands = (codes(2, 3, 5, seed=1), codes(2, 5, 4, seed=2))
    reals = [real(x, p).float() for x, p in zip(operands, params, strict=True)]
    exact = reals[0] @ reals[1]
    out = fitting(exact, 3)
    tensors = [x if q else r for x, r, q in zip(operands, reals, quantized, strict=False)]
    blocks = [p if q else FLOAT for p, q in zip(params, quantized, strict=False)]
    got = OPS.bmm(*tensors, *blocks[0], *blocks[1], *(out if quantized[2] else FLOAT))
    if quantized[2]:
        assert error(got, exact, out) <= 0.5 + 1e-3
    else:
        torch.testing.assert_close(got, exact)


def test_overflow_of_the_accumulator_computes_in_float() -> None:
    a = torch.full((1, 1, 40_000), 127, dtype=torch.int8)
    b = a.transpose(1, 2).contiguous()
    out = block(2.0**25, out=True)
    got = OPS.bmm(a, b, *block(1.0, -128), *block(1.0, -128), *out)
    assert int(got) == round(40_000 * 255 * 255 / 2**25)


def test_weights_in_blocks_compute_in_float() -> None:
    a, b = codes(1, 3, 4, seed=1), codes(1, 4, 6, seed=2)
    scale = torch.rand(1, 2, 6) + 0.5
    exact = real(a, block(0.05)) @ (b.double() * scale.repeat_interleave(2, 1).double())
    out = fitting(exact)
    got = OPS.bmm(a, b, *block(0.05), *block(scale), *out)
    assert error(got, exact, out) <= 0.5 + 1e-3


A, B = Grid(0.05, -3), Grid(0.04, 11)
Shapes = tuple[tuple[int, ...], tuple[int, ...]]
PRODUCTS: dict[str, tuple[Shapes, Callable[[Tensor, Tensor], Tensor]]] = {
    "bmm": (((2, 3, 4), (2, 4, 5)), torch.bmm),
    "matmul": (((2, 3, 4), (2, 4, 5)), torch.matmul),
    "transposed": (((2, 3, 4), (2, 5, 4)), lambda a, b: a @ b.transpose(-1, -2)),
    "matrices": (((3, 4), (4, 5)), torch.mm),
    "matrices-transposed": (((3, 4), (5, 4)), lambda a, b: a @ b.T),
    "heads": (((1, 2, 3, 4), (1, 2, 5, 4)), lambda a, b: a @ b.mT),
    "rows": (((2, 2, 3, 4), (4, 5)), torch.matmul),
    "matrix-first": (((3, 4), (2, 4, 5)), torch.matmul),
    "broadcast": (((2, 3, 3, 4), (3, 4, 5)), torch.matmul),
    "broadcast-ones": (((2, 1, 3, 4), (1, 3, 4, 5)), torch.matmul),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_pattern_every_product_is_one_bmm(name: str) -> None:
    shapes, function = PRODUCTS[name]
    inputs = (codes(*shapes[0], seed=1), codes(*shapes[1], seed=2))
    exact = function(A.dequantize(inputs[0]), B.dequantize(inputs[1]))
    out = Grid(float(exact.abs().max()) / 100, 7)
    module = Graph(lambda a, b: out.quantize(function(A.dequantize(a), B.dequantize(b))))
    results = []
    for gm in both(module, *inputs):
        assert fused_names(gm) == ["bmm.default"]
        results.append(result_of(gm, inputs))
        assert results[-1].shape == exact.shape
        assert int((results[-1].int() - module(*inputs).int()).abs().max()) <= 1
    assert torch.equal(*results)


def test_vectors_stay() -> None:
    module = Graph(lambda a, b: A.quantize(A.dequantize(a) @ B.dequantize(b)))
    inputs = (codes(3, 4), codes(4))
    gm = fused(module, *inputs)
    assert not fused_names(gm)
    assert torch.equal(gm(*inputs), module(*inputs))


def test_attention_is_integer_as_a_whole() -> None:
    """Two products around a softmax, with a scaled transpose in between."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.transpose(-1, -2) * 0.5, -1) @ v

    inputs = tuple(
        torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(i)) for i in range(3)
    )
    raw = converted(Graph(attend), *inputs)
    for gm in both(raw, *inputs):
        names = [name for name in fused_names(gm) if name != "requantize.default"]
        assert names == ["bmm.default", "mul.Scalar", "softmax.default", "bmm.default"]
        assert not [name for name in targets(gm) if "softmax" in name and "aten" in name]
