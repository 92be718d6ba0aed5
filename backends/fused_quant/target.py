# SPDX-License-Identifier: BSD-3-Clause
"""Targets: what a build of the runtime can run, as frozen, validated values."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Target:
    """A named set of limits. Claims are checked against it; the payload carries its name."""

    name: str
    max_rank: int = 6  # kMaxRank in runtime/tensor_view.h

    def __post_init__(self) -> None:
        if not self.name or self.max_rank < 1:
            raise ValueError(f"target: got {self!r}, supported: a name and max_rank >= 1")


GENERIC = Target("generic")
_TARGETS = {target.name: target for target in (GENERIC,)}


def resolve_target(target: str | Target | None) -> Target:
    """The target of a name; None means `generic`, whose payload runs everywhere."""
    if target is None:
        return GENERIC
    if isinstance(target, Target):
        return target
    if target not in _TARGETS:
        raise ValueError(f"target: got {target!r}, supported: {', '.join(sorted(_TARGETS))}")
    return _TARGETS[target]
