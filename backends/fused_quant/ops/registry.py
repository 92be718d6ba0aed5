# SPDX-License-Identifier: BSD-3-Clause
"""The operators the package knows, found by dialect operator or by ATen spelling."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from fused_quant.ops.spec import OpSpec, Parser

_specs: dict[str, OpSpec] = {}
_anchors: dict[Any, list[tuple[OpSpec, Parser]]] = {}
_targets: dict[Any, OpSpec] = {}


def register(spec: OpSpec) -> OpSpec:
    """Add an operator. A second one of the same name and overload is an error.

    Those from outside the package are asked first, the longest chain of them before the others.
    """
    from fused_quant import dialect

    if spec.key in _specs:
        raise ValueError(f"operator {spec.key}: registered twice")
    _specs[spec.key] = spec
    if spec.fusion is not None:
        _targets[dialect.define(spec)] = spec
        for target, parser in spec.fusion.anchors.items():
            candidates = _anchors.setdefault(target, [])
            candidates.append((spec, parser))
            candidates.sort(key=_order)
    for target in spec.targets:
        _targets[target] = spec
    return spec


def _order(candidate: tuple[OpSpec, Parser]) -> tuple[bool, int]:
    spec, _ = candidate
    return (spec.is_own, -len(spec.fusion.steps) if spec.fusion is not None else 0)


def load() -> None:
    """Import every module of `fused_quant.ops`; those of operators register them."""
    import fused_quant.ops as package

    for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"fused_quant.ops.{module}")


def specs() -> list[OpSpec]:
    """All operators, in order of registration."""
    return list(_specs.values())


def spec_of(target: Any) -> OpSpec | None:
    """The operator that a call target of a fused graph is an instance of."""
    return _targets.get(target)


def anchors_of(target: Any) -> list[tuple[OpSpec, Parser]]:
    """The operators that an ATen call may be folded into, with the parser of that spelling."""
    return _anchors.get(target, [])


def find(name: str) -> OpSpec:
    """The operator of a qualified name. Raises ValueError for an unknown one."""
    if name not in _specs:
        raise ValueError(f"operator: got {name!r}, supported: {', '.join(sorted(_specs))}")
    return _specs[name]
