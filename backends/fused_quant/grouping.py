# SPDX-License-Identifier: BSD-3-Clause
"""Group claimed nodes into partitions that are convex, acyclic among themselves and maximal."""

from __future__ import annotations

from collections.abc import Callable

from torch.fx import GraphModule, Node

from fused_quant import graph

_Cluster = int


def _levels(gm: GraphModule, claimed: Callable[[Node], bool]) -> dict[Node, int]:
    """How often a path into a node leaves the claimed nodes.

    Claimed nodes of one level can share a partition: a path between them through an unclaimed node
    would raise the level.
    """
    levels: dict[Node, int] = {}
    for node in gm.graph.nodes:
        level = 0
        for source in node.all_input_nodes:
            leaves = claimed(source) and not claimed(node)
            level = max(level, levels[source] + (1 if leaves else 0))
        levels[node] = level
    return levels


class _Clusters:
    """Clusters of claimed nodes with their direct edges; unclaimed nodes are clusters of one."""

    def __init__(self, gm: GraphModule, claimed: Callable[[Node], bool]) -> None:
        self.of: dict[Node, _Cluster] = {}
        self._gm = gm
        levels = _levels(gm, claimed)
        for index, node in enumerate(gm.graph.nodes):
            self.of[node] = index
        for node in gm.graph.nodes:
            for source in node.all_input_nodes:
                together = claimed(node) and claimed(source) and levels[node] == levels[source]
                if together:
                    self.merge(self.of[source], self.of[node])

    def merge(self, kept: _Cluster, merged: _Cluster) -> None:
        for node, cluster in self.of.items():
            if cluster == merged:
                self.of[node] = kept

    def edges(self) -> dict[_Cluster, set[_Cluster]]:
        successors: dict[_Cluster, set[_Cluster]] = {}
        for node in self._gm.graph.nodes:
            for source in node.all_input_nodes:
                if self.of[source] != self.of[node]:
                    successors.setdefault(self.of[source], set()).add(self.of[node])
        return successors


def _reaches_indirectly(edges: dict[_Cluster, set[_Cluster]], start: int, end: int) -> bool:
    """True if a path from start to end passes through a third cluster."""
    pending = [c for c in edges.get(start, ()) if c != end]
    seen = set(pending)
    while pending:
        for successor in edges.get(pending.pop(), ()):
            if successor == end:
                return True
            if successor not in seen:
                seen.add(successor)
                pending.append(successor)
    return False


def _merge_neighbours(clusters: _Clusters, claimed: set[_Cluster]) -> bool:
    edges = clusters.edges()
    for source in sorted(claimed):
        for sink in sorted(edges.get(source, set()) & claimed):
            if not _reaches_indirectly(edges, source, sink):
                clusters.merge(source, sink)
                return True
    return False


def _merge_independent(clusters: _Clusters, claimed: set[_Cluster]) -> None:
    """Merge clusters that no path through others joins, connected or not: one call for both.

    One look at each pair is enough: merging two never makes a third mergeable that was not.
    """
    remaining = sorted(claimed)
    while remaining:
        first, *others = remaining
        remaining = []
        edges = clusters.edges()
        for second in others:
            if _reaches_indirectly(edges, first, second) or _reaches_indirectly(
                edges, second, first
            ):
                remaining.append(second)
                continue
            clusters.merge(first, second)
            edges = clusters.edges()


def group(gm: GraphModule, units: set[Node]) -> list[list[Node]]:
    """Partition `units`; lists are in graph order, and so are their members.

    A getitem goes with the node it takes its value from. Every partition is convex (no path leaves
    and re-enters it), the partitions depend on each other without a cycle, and no two partitions
    could be merged.
    """

    def claimed(node: Node) -> bool:
        if graph.op_of(node) is graph.GETITEM:
            return node.args[0] in units
        return node in units

    clusters = _Clusters(gm, claimed)
    while _merge_neighbours(clusters, {clusters.of[node] for node in units}):
        pass
    _merge_independent(clusters, {clusters.of[node] for node in units})
    groups: dict[_Cluster, list[Node]] = {}
    for node in gm.graph.nodes:
        if node in units:
            groups.setdefault(clusters.of[node], []).append(node)
    return list(groups.values())
