# SPDX-License-Identifier: BSD-3-Clause
"""The arena and scratch that a payload promises are what the loader asks for."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fused_quant import graph, memory_plan, native, payload
from fused_quant.fuse import fuse_graph
from fused_quant.lower import quantize
from fused_quant.lowering import lower_graph
from fused_quant.passes.repair import repair


class _Mean(nn.Module):
    def __init__(self, axes: tuple[int, ...], keepdim: bool) -> None:
        super().__init__()
        self.axes, self.keepdim = axes, keepdim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(self.axes, self.keepdim)


MODULES = {
    "conv": nn.Conv2d(6, 5, 3),
    "depthwise": nn.Conv2d(6, 18, 3, groups=6),
    "depthwise_then_conv": nn.Sequential(nn.Conv2d(6, 12, 3, groups=6), nn.Conv2d(12, 4, 1)),
    "linear": nn.Linear(5, 7),
    "max_pool": nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)),
    "avg_pool": nn.AvgPool2d(2),
    "adaptive": nn.AdaptiveAvgPool2d((3, 2)),
    "mean_spatial": _Mean((2, 3), True),
    "mean_flat": _Mean((-1, -2), False),
    "mean_batch": _Mean((0,), False),
    "mean_channels": _Mean((1,), True),
    "mean_mixed": _Mean((1, 3), False),
}


@pytest.mark.parametrize("name", MODULES)
def test_memory_arena_and_scratch_are_known_ahead_of_time(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 6, 9, 5)
    gm = quantize(MODULES[name].eval(), (x,), [x], progress=False)
    program = torch.export.export(gm, (x,))
    unlifted = graph.unlifted(program)
    repair(unlifted)
    fuse_graph(unlifted)
    lowered = lower_graph(unlifted, "generic")
    memory_plan.plan_memory(lowered)
    data = payload.serialize(lowered)
    needs = native.memory_needs(data, "scalar")
    read = payload.deserialize(data)
    assert needs.arena_bytes == read.arena_bytes + read.scratch_bytes
    assert needs.persistent_bytes <= read.persistent_bytes
