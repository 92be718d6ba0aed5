# SPDX-License-Identifier: BSD-3-Clause
"""One module fused as its training-IR graph, and as the edge program that to_edge makes of it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from executorch.exir import to_edge
from torch import Tensor, nn
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import fused_quant
from fused_quant import graph
from fused_quant.fuse import fuse_graph
from tests.frontend.graphs import exported, targets


def fused_names(gm: GraphModule) -> list[str]:
    """The fused operators of a graph, without the namespace."""
    prefix = "fused_quant."
    return [name.removeprefix(prefix) for name in targets(gm) if name.startswith(prefix)]


def result_of(gm: GraphModule, inputs: tuple[Tensor, ...]) -> Tensor:
    """The first result of a graph."""
    result: Any = gm(*inputs)
    return result[0] if isinstance(result, (tuple, list)) else result


def from_edge(module: nn.Module, inputs: tuple[Tensor, ...]) -> GraphModule:
    """The fused copy of the edge program, as the partitioner sees it."""
    program = to_edge(torch.export.export(module, inputs)).exported_program()
    gm = graph.unlifted(program)
    fuse_graph(gm)
    return gm


def both(module: nn.Module, *inputs: Tensor) -> tuple[GraphModule, GraphModule]:
    """(fused from the training-IR graph, fused from the edge program) of a module left as it is."""
    if isinstance(module, GraphModule):
        return fused_quant.fuse(copy.deepcopy(module)), from_edge(module, inputs)
    module = module.eval()
    return fused_quant.fuse(exported(copy.deepcopy(module), *inputs)), from_edge(module, inputs)


def converted(module: nn.Module, *inputs: Tensor) -> GraphModule:
    """The q/dq graph that the default quantizer and convert_pt2e make."""
    prepared = prepare_pt2e(exported(module, *inputs), fused_quant.default_quantizer())
    prepared(*inputs)
    return convert_pt2e(prepared)
