# SPDX-License-Identifier: BSD-3-Clause
"""Hide from rewrites what another quantizer claimed: its operators and the edges between them.

A hidden node is no operator to `graph.op_of`, so no rewrite matches it. An edge (quantize,
dequantize) is hidden unless it leads to or from an operator of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.passes.blocks import is_fused

_ANNOTATION = "quantization_annotation"
_QUANTIZES = (graph.QUANTIZE, graph.QUANTIZE_TENSOR, graph.QUANTIZE_CHANNEL)
_DEQUANTIZES = (graph.DEQUANTIZE, graph.DEQUANTIZE_TENSOR, graph.DEQUANTIZE_CHANNEL)


@contextmanager
def shielded(gm: GraphModule, owned: Callable[[Node], bool] | None) -> Iterator[None]:
    """Hide, for the time of the context, nodes that are claimed and that `owned` refuses.

    owned: None hides nothing.
    """
    if owned is None:
        yield
        return
    for node in _foreign(gm, owned):
        node.meta[graph.SHIELDED] = True
    try:
        yield
    finally:
        for node in gm.graph.nodes:
            node.meta.pop(graph.SHIELDED, None)


def _foreign(gm: GraphModule, owned: Callable[[Node], bool]) -> list[Node]:
    claimed = {node for node in graph.calls(gm) if _is_claimed(node) and not owned(node)}
    if not claimed:
        return []
    near = {node for node in graph.calls(gm) if owned(node) or is_fused(node)}
    edges = [node for node in graph.calls(gm) if graph.op_of(node) in _QUANTIZES + _DEQUANTIZES]
    # Against the order of the graph, so that what an edge leads to is known before the edge.
    for node in reversed(edges):
        source: Any = node.args[0]
        leads = any(user in near for user in node.users)
        if leads or (graph.op_of(node) in _QUANTIZES and source in near):
            near.add(node)
    return [*claimed, *(node for node in edges if node not in near)]


def _is_claimed(node: Node) -> bool:
    annotation = node.meta.get(_ANNOTATION)
    return annotation is not None and annotation._annotated
