# SPDX-License-Identifier: BSD-3-Clause
"""Dimension orders inside a delegate: which values are stored channels last.

Operators that run channels last pull every value that is tied to theirs by layout-agnostic
operators into the same order, so a transpose is needed only where a region of images meets an
operator that wants the logical order, or the boundary (where quantize and dequantize fold it in).
"""

from __future__ import annotations

from collections.abc import Iterable

from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops import registry
from fused_quant.ops.spec import Layout

Order = tuple[int, ...]
SPATIAL_RANKS = (3, 4, 5)  # [N, C, spatial...]


def channels_last(rank: int) -> Order:
    """Channels last of [N, C, spatial...]: (0, 2, ..., rank - 1, 1)."""
    return (0, *range(2, rank), 1)


CHANNELS_LAST = channels_last(4)


def identity(rank: int) -> Order:
    """The logical order."""
    return tuple(range(rank))


def is_relabeling(shape: tuple[int, ...], source: Order, target: Order) -> bool:
    """True if both orders store the same bytes: they differ only in dimensions of size one."""

    def significant(order: Order) -> list[int]:
        return [axis for axis in order if shape[axis] != 1]

    return significant(source) == significant(target)


class _Regions:
    """Union-find over nodes; a region is channels last if any of its members asks for it."""

    def __init__(self) -> None:
        self._parent: dict[Node, Node] = {}
        self._channels_last: set[Node] = set()

    def find(self, node: Node) -> Node:
        root = node
        while self._parent.setdefault(root, root) is not root:
            root = self._parent[root]
        self._parent[node] = root
        return root

    def join(self, nodes: Iterable[Node]) -> None:
        members = list(nodes)
        for node in members[1:]:
            first, second = self.find(members[0]), self.find(node)
            self._parent[second] = first
            if second in self._channels_last:
                self._channels_last.add(first)

    def ask_channels_last(self, node: Node) -> None:
        self._channels_last.add(self.find(node))

    def is_channels_last(self, node: Node) -> bool:
        return self.find(node) in self._channels_last


def _images(nodes: Iterable[object]) -> list[Node]:
    return [
        node
        for node in nodes
        if isinstance(node, Node)
        and node.op != "get_attr"
        and hasattr(node.meta.get("val"), "shape")
        and len(node.meta["val"].shape) in SPATIAL_RANKS
    ]


def plan_orders(gm: GraphModule) -> dict[Node, Order]:
    """The wanted stored order of every tensor-valued node of a fused graph."""
    regions = _Regions()
    for node in graph.calls(gm):
        spec = registry.spec_of(graph.op_of(node))
        if spec is None or spec.runtime is None or graph.op_of(node) is graph.GETITEM:
            continue
        results = [user for user in node.users if graph.op_of(user) is graph.GETITEM] or [node]
        images = _images([*results, *node.all_input_nodes])
        if spec.runtime.layout is Layout.CHANNELS_LAST:
            for image in images:
                regions.ask_channels_last(image)
        elif spec.runtime.layout is Layout.ANY:
            for rank in SPATIAL_RANKS:  # a value of another rank broadcasts: it has its own order
                regions.join(image for image in images if graph.rank_of(image) == rank)
    orders = {}
    for node in gm.graph.nodes:
        val = node.meta.get("val")
        if not hasattr(val, "shape"):
            continue
        rank = len(val.shape)
        last = rank in SPATIAL_RANKS and regions.is_channels_last(node)
        orders[node] = channels_last(rank) if last else identity(rank)
    return orders
