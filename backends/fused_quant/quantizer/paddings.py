# SPDX-License-Identifier: BSD-3-Clause
"""The padding of a convolution as numbers instead of a word."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule

from fused_quant import graph

_aten = torch.ops.aten
_NUMBERED = {
    _aten.conv1d.padding: _aten.conv1d.default,
    _aten.conv2d.padding: _aten.conv2d.default,
    _aten.conv3d.padding: _aten.conv3d.default,
}


def number_paddings(model: GraphModule) -> None:
    """Rewrite in place; "same" of an even total padding differs on the two sides and stays."""
    for node in graph.calls(model):
        numbered = _NUMBERED.get(graph.op_of(node))
        if numbered is None:
            continue
        bound = graph.bind(node)
        kernel = graph.shape_of(bound["weight"])[2:]
        padding = _numbers(bound["padding"], kernel, bound["dilation"])
        if padding is not None:
            node.target = numbered
            node.args = tuple({**bound, "padding": padding}.values())
            node.kwargs = {}
    model.recompile()


def _numbers(word: Any, kernel: tuple[int, ...], dilation: list[int]) -> list[int] | None:
    if word == "valid":
        return [0] * len(kernel)
    spread = dilation * len(kernel) if len(dilation) == 1 else dilation
    totals = [d * (k - 1) for k, d in zip(kernel, spread, strict=True)]
    return None if any(total % 2 for total in totals) else [total // 2 for total in totals]
