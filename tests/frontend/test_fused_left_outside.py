# SPDX-License-Identifier: BSD-3-Clause
"""Fused operators that the delegate does not take still run, on both lowering routes."""

from __future__ import annotations

import copy

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge, to_edge_transform_and_lower
from torch import Tensor
from torch.fx import GraphModule
from torch.nn import functional

import fused_quant
from fused_quant.passes import AssertNoFusedQuantOps, DecomposeFusedQuant
from tests.e2e import routes
from tests.frontend.graphs import Graph, Grid, Weights, exported, targets

torch.set_num_threads(1)

IN, OUT = Grid(0.05, 3), Grid(0.02, -40)
# No kernel will ever take it: a rank above the runtime's.
DEEP = torch.randn(1, 1, 2, 1, 2, 2, 3, generator=torch.Generator().manual_seed(1))


def _deep(x: Tensor) -> Tensor:
    return OUT.round(functional.relu(IN.round(x)))


def _mixed(weight: Weights, x: Tensor) -> Tensor:
    """A linear that is claimed between two relus that are not."""
    y = OUT.round(functional.relu(IN.round(x)))
    z = IN.round(functional.linear(y.reshape(4, 6), weight()))
    return OUT.round(functional.relu(z.reshape(1, 1, 1, 1, 1, 4, 2)))


def _fused(function: object, x: Tensor) -> tuple[GraphModule, GraphModule]:
    codes = torch.tensor([[3, -5, 7, 11, -120, 127], [1, 2, 3, -4, -5, 6]])
    modules = {"weight": Weights(codes, [0.01])} if function is _mixed else {}
    raw = exported(Graph(function, **modules), x)  # type: ignore[arg-type]
    return raw, fused_quant.fuse(copy.deepcopy(raw))


@pytest.mark.parametrize("function", [_deep, _mixed])
def test_one_call_route(function: object) -> None:
    raw, fused = _fused(function, DEEP)
    assert any(name.startswith("fused_quant.relu") for name in targets(fused))
    program = torch.export.export(fused, (DEEP,))
    edge = to_edge_transform_and_lower(program, partitioner=[fused_quant.FusedQuantPartitioner()])
    AssertNoFusedQuantOps()(edge.exported_program().graph_module)
    assert routes.operators(edge).count("executorch_call_delegate") == (function is _mixed)
    got, expected = routes.run(edge, (DEEP,)), routes.eager(fused, (DEEP,))
    routes.assert_within_codes(got, expected, routes.result_scales(raw), 1)


@pytest.mark.parametrize("function", [_deep, _mixed])
def test_two_call_route_says_what_to_call(function: object) -> None:
    raw, fused = _fused(function, DEEP)
    edge = to_edge(torch.export.export(fused, (DEEP,)))
    message = r"edge\.transform\(\[fused_quant\.passes\.DecomposeFusedQuant\(\)\]\).*relu.*rank"
    with pytest.warns(UserWarning, match=message):
        lowered = edge.to_backend(fused_quant.FusedQuantPartitioner())
    with pytest.raises(ValueError, match="relu"):
        AssertNoFusedQuantOps()(lowered.exported_program().graph_module)
    decomposed = lowered.transform(
        [DecomposeFusedQuant()], compile_config=EdgeCompileConfig(_check_ir_validity=True)
    )
    AssertNoFusedQuantOps()(decomposed.exported_program().graph_module)
    got, expected = routes.run(decomposed, (DEEP,)), routes.eager(fused, (DEEP,))
    routes.assert_within_codes(got, expected, routes.result_scales(raw), 1)
