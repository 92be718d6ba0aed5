# SPDX-License-Identifier: BSD-3-Clause
"""One weight used by two partitions: each delegate gets its own copy, neither is refused."""

from __future__ import annotations

import torch
from executorch.exir import to_edge
from torch import nn

import fused_quant
from fused_quant.lower import quantize
from tests.e2e import routes
from tests.frontend.graphs import outside


class _Twice(nn.Module):
    """One linear layer on both sides of an operator that stays outside."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(outside(self.linear(x)))
        return result


def test_partition_shared_weight_does_not_split_claims() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 6)
    graph = quantize(_Twice().eval(), (x,), [x], progress=False)
    partitioner = fused_quant.FusedQuantPartitioner()
    edge = to_edge(torch.export.export(graph, (x,))).to_backend(partitioner)
    nodes = edge.exported_program().graph.nodes
    calls = [node for node in nodes if "call_delegate" in str(node.target)]
    assert len(calls) == 2
    assert [refusal.operator for refusal in partitioner.refusals] == ["aten.cumsum.default"]
    assert [node.name for node in nodes if node.op == "placeholder"] == ["x"]
    # The sum is computed by another kernel than PyTorch's: one code of its grid at most.
    difference = (routes.run(edge, (x,))[0] - graph(x)).abs().max()
    assert difference < 0.05
