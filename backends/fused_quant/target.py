# SPDX-License-Identifier: BSD-3-Clause
"""Targets: what a build of the runtime can run, as frozen, validated values.

The limits of every operator stand here and nowhere else; claims are checked against them, and a
test compares them with the constants of the runtime's loader.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What the kernels of one operator take. Sizes are inclusive upper limits.

    rank: of any tensor. tensor_bytes: of any tensor, at the width of float32. window: a kernel
    size, stride, dilation or padding. extent: (kernel - 1) * dilation + 1. divisors: different
    window sizes of an average that needs a table of them; divisor_axis: output size along an axis
    of such an average, and every size of an adaptive one. inputs: tensors that are joined.
    """

    rank: int = 6
    tensor_bytes: int = 2**31 - 1
    window: int = 65535
    extent: int = 2**30
    divisors: int = 256
    divisor_axis: int = 65535
    inputs: int = 1024

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(
                    f"bounds: got {field.name}={getattr(self, field.name)}, supported: 1 or more"
                )


@dataclasses.dataclass(frozen=True)
class Target:
    """A named set of limits. Claims are checked against it; the payload carries its name.

    operators: bounds of an operator (by its name) that differ from `default`. partition_units:
    fused operators in one partition, so that a payload stays below the loader's counts; a longer
    region becomes several delegate calls.
    """

    name: str
    default: Bounds = Bounds()
    operators: Mapping[str, Bounds] = dataclasses.field(default_factory=dict)
    partition_units: int = 512

    def __post_init__(self) -> None:
        if not self.name or self.partition_units < 1:
            raise ValueError(f"target: got {self!r}, supported: a name and partition_units >= 1")
        object.__setattr__(self, "operators", MappingProxyType(dict(self.operators)))

    def bounds(self, operator: str) -> Bounds:
        """The limits of an operator."""
        return self.operators.get(operator, self.default)


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
