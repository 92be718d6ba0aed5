# SPDX-License-Identifier: BSD-3-Clause
"""`explain`: every node of a quantized program that stays outside the delegate, and why.

    print(fused_quant.explain(edge_or_exported_program))
    python -m fused_quant explain model.pt2 [--json] [--all] [--target generic]

model.pt2: a quantized program written by `torch.export.save`.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from executorch.exir import EdgeProgramManager, to_edge
from tabulate import tabulate
from torch.export import ExportedProgram

from fused_quant.claims import Claims, Refusal, claim, computes
from fused_quant.target import Target, resolve_target

_HEADERS = ("method", "node", "operator", "code", "reason", "got", "supported")


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What the delegate takes of a program.

    claimed: compute nodes taken. partitions: delegate calls. left: (method, refusal) of every node
    that stays outside; of those, `computing` are compute nodes, the others quantize, dequantize and
    views.
    """

    claimed: int
    partitions: int
    left: tuple[tuple[str, Refusal], ...]

    @property
    def computing(self) -> tuple[tuple[str, Refusal], ...]:
        """The compute nodes that stay outside."""
        return tuple(item for item in self.left if item[1].computes)

    def rows(self, every: bool = False) -> list[dict[str, str]]:
        """One dict a node, keys as the columns of the table; `every`: not only compute nodes."""
        chosen = self.left if every else self.computing
        return [
            dict(
                zip(
                    _HEADERS,
                    (method, r.node, r.operator, r.reason.code, *_texts(r)),
                    strict=True,
                )
            )
            for method, r in chosen
        ]

    def to_json(self, every: bool = False) -> str:
        """claimed, partitions and the rows as JSON."""
        summary: dict[str, Any] = {"claimed": self.claimed, "partitions": self.partitions}
        return json.dumps({**summary, "left": self.rows(every)}, indent=2)

    def to_table(self, every: bool = False) -> str:
        """The summary line and the rows as a text table."""
        rows = self.rows(every)
        summary = (
            f"{self.claimed} compute nodes in {self.partitions} delegate call(s), "
            f"{len(self.computing)} left outside"
        )
        if not rows:
            return summary
        table = tabulate([list(row.values()) for row in rows], headers=_HEADERS)
        return f"{summary}\n\n{table}"

    def __str__(self) -> str:
        return self.to_table()


def _texts(refusal: Refusal) -> tuple[str, str, str]:
    reason = refusal.reason
    return reason.message, reason.got, reason.supported


def explain(
    program: ExportedProgram | EdgeProgramManager, target: str | Target | None = None
) -> Explanation:
    """Say what `FusedQuantPartitioner(target)` would leave outside, without changing `program`.

    program: an edge program before `to_backend`, or a quantized program of `torch.export.export`,
    which is brought to the edge dialect first.
    Raises TypeError for anything else, ValueError for an unknown target.
    """
    chosen = resolve_target(target)
    manager = to_edge(program) if isinstance(program, ExportedProgram) else program
    if not isinstance(manager, EdgeProgramManager):
        raise TypeError(
            f"program: got {type(program).__name__}, supported: ExportedProgram of a quantized "
            "module, or EdgeProgramManager"
        )
    found = [(name, manager.exported_program(name)) for name in sorted(manager.methods)]
    claims = [(name, edge, claim(edge, chosen)) for name, edge in found]
    return Explanation(
        claimed=sum(_claimed(edge, made) for _, edge, made in claims),
        partitions=sum(len(set(made.partitions.values())) for _, _, made in claims),
        left=tuple((name, refusal) for name, _, made in claims for refusal in made.refusals),
    )


def _claimed(program: ExportedProgram, claims: Claims) -> int:
    return sum(node.name in claims.partitions and computes(node) for node in program.graph.nodes)
