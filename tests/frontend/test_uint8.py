# SPDX-License-Identifier: BSD-3-Clause
"""uint8 graphs: eager, through the delegate, and where uint8 codes cross its boundary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import fused_quant
from fused_quant.rebase import rebase
from tests.e2e import routes
from tests.frontend.graphs import Graph, Grid, Weights, exported, fused, targets

torch.set_num_threads(1)

IN = Grid(0.05, 131, 0, 255, torch.uint8)
OUT = Grid(0.08, 90, 0, 255, torch.uint8)
SIGNED_IN = Grid(0.05, 3)
SIGNED_OUT = Grid(0.08, -38)
IMAGE = torch.randn(1, 4, 6, 5, generator=torch.Generator().manual_seed(3)) * 3


def _weights() -> Weights:
    codes = torch.randint(-127, 128, (6, 4, 3, 3), generator=torch.Generator().manual_seed(4))
    return Weights(codes, [0.01 * (1 + c) for c in range(6)])


def _conv(x: Grid, y: Grid) -> Callable[..., Tensor]:
    def forward(weight: Weights, image: Tensor) -> Tensor:
        result = functional.conv2d(x.round(image), weight(), padding=1)
        return y.round(functional.relu(result))

    return forward


def test_eager_equals_the_same_program_in_int8() -> None:
    unsigned = fused(Graph(_conv(IN, OUT), weight=_weights()), IMAGE)
    signed = fused(Graph(_conv(SIGNED_IN, SIGNED_OUT), weight=_weights()), IMAGE)
    assert "fused_quant.conv2d.default" in targets(unsigned)
    assert torch.equal(unsigned(IMAGE), signed(IMAGE))


@pytest.mark.parametrize("route", routes.ROUTES)
@pytest.mark.parametrize("fuse_first", [False, True])
def test_graph_is_one_delegate_call(route: str, fuse_first: bool) -> None:
    graph = exported(Graph(_conv(IN, OUT), weight=_weights()), IMAGE)
    expected = routes.eager(routes.fused_copy(graph), (IMAGE,))
    edge = routes.lowered(fused_quant.fuse(graph) if fuse_first else graph, (IMAGE,), route)
    assert routes.is_one_delegate_call(edge)
    routes.assert_same_bits(routes.run(edge, (IMAGE,)), expected)


def _codes_in_and_out(weight: Weights, codes: Tensor) -> Tensor:
    return OUT.quantize(functional.relu(functional.conv2d(IN.dequantize(codes), weight())))


def _moved_codes(weight: Weights, codes: Tensor) -> Tensor:
    image = IN.dequantize(codes.permute(0, 3, 1, 2))
    return OUT.quantize(functional.conv2d(image, weight())).flatten(1)


def _codes_used_twice(weight: Weights, codes: Tensor) -> tuple[Tensor, Tensor]:
    result = OUT.quantize(functional.conv2d(IN.dequantize(codes), weight()))
    return result, OUT.dequantize(result)


def _codes_for_an_outsider(weight: Weights, codes: Tensor) -> Tensor:
    result = OUT.quantize(functional.conv2d(IN.dequantize(codes), weight()))
    return torch.bitwise_and(result, 15)


def _codes_from_an_outsider(weight: Weights, codes: Tensor) -> Tensor:
    image = IN.dequantize(torch.bitwise_or(codes, 1))
    return OUT.round(functional.conv2d(image, weight()))


@pytest.mark.parametrize("route", routes.ROUTES)
@pytest.mark.parametrize(
    ("function", "shape", "outside"),
    [
        (_codes_in_and_out, (2, 4, 6, 5), 0),
        (_moved_codes, (2, 6, 5, 4), 0),
        (_codes_used_twice, (1, 4, 6, 5), 0),
        (_codes_for_an_outsider, (1, 4, 6, 5), 1),
        (_codes_from_an_outsider, (1, 4, 6, 5), 1),
    ],
)
def test_boundary_of_uint8_codes(
    function: Callable[..., Any], shape: tuple[int, ...], outside: int, route: str
) -> None:
    codes = torch.randint(0, 256, shape, dtype=torch.uint8)
    graph = exported(Graph(function, weight=_weights()), codes)
    expected = routes.eager(routes.fused_copy(graph), (codes,))
    float_result = routes.eager(graph, (codes,))
    edge = routes.lowered(graph, (codes,), route)
    names = routes.operators(edge)
    assert names.count("executorch_call_delegate") == 1
    assert len(names) == 1 + outside
    got = routes.run(edge, (codes,))
    routes.assert_same_bits(got, expected)
    if function is _codes_in_and_out:
        assert got[0].dtype == torch.uint8
        assert int((got[0].int() - float_result[0].int()).abs().max()) <= 1


def test_constant_operand() -> None:
    constant = torch.arange(20, dtype=torch.uint8).reshape(4, 1, 5) * 12

    def forward(codes: Tensor, image: Tensor) -> Tensor:
        return OUT.round(IN.round(image) + IN.dequantize(codes))

    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("codes", constant)

        def forward(self, image: Tensor) -> Tensor:
            return forward(self.get_buffer("codes"), image)

    graph = exported(Holder(), IMAGE)
    expected = routes.eager(routes.fused_copy(graph), (IMAGE,))
    edge = routes.lowered(graph, (IMAGE,), routes.TO_EDGE)
    assert routes.is_one_delegate_call(edge)
    routes.assert_same_bits(routes.run(edge, (IMAGE,)), expected)
    routes.assert_within_codes(
        expected, routes.eager(graph, (IMAGE,)), routes.result_scales(graph), 1
    )


def _joined(x: Tensor, y: Tensor) -> Tensor:
    return OUT.round(torch.cat([IN.round(x), OUT.round(y)], 1))


def test_list_operands_are_rebased_member_by_member() -> None:
    graph = fused(Graph(_joined), IMAGE, IMAGE)
    assert "fused_quant.cat.default" in targets(graph)
    expected = graph(IMAGE, IMAGE)
    before = [node.args for node in graph.graph.nodes if "cat" in str(node.target)]
    rebase(graph)
    after = [node.args for node in graph.graph.nodes if "cat" in str(node.target)]
    assert before != after
    dtypes = {node.meta["val"].dtype for node in graph.graph.nodes if "val" in node.meta}
    assert torch.uint8 not in dtypes
    assert torch.equal(graph(IMAGE, IMAGE), expected)
    float_result = _joined(IMAGE, IMAGE)
    assert float((expected - float_result).abs().max()) <= OUT.scale * 1.001


def test_a_scale_that_is_computed_stays_outside() -> None:
    class Computed(torch.nn.Module):
        def forward(self, codes: Tensor, scale: Tensor) -> Tensor:
            block = (torch.float32, 0, 255)
            zero = torch.zeros(1, dtype=torch.int64)
            result: Tensor = torch.ops.fused_quant.relu(
                codes, scale, zero, *block, scale, zero, torch.uint8, 0, 255
            )
            return result

    codes = torch.arange(40, dtype=torch.uint8)
    program = torch.export.export(Computed(), (codes, torch.tensor([0.5])))
    rows = {row["operator"]: row for row in fused_quant.explain(program).rows()}
    assert "is not a constant" in rows["fused_quant.relu.default"]["reason"]
