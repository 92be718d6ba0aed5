# SPDX-License-Identifier: BSD-3-Clause
"""Which configuration applies to a node: by module name, module type, operator, or to all."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

from fused_quant import graph

_FIELDS = ("input_activation", "output_activation", "weight", "bias")


class Choice(enum.Enum):
    """What applies to a node when it is not a configuration of its own."""

    OWN = "own"  # the operator quantizer's configuration
    FLOAT = "float"  # kept in float, whoever asks next
    LEFT = "left"  # not ours; another quantizer may claim it


Applied: TypeAlias = QuantizationConfig | Choice


class Settings:
    """The configurations a user has set.

    Module name before module type before operator before global; of nested modules the innermost
    one that has a setting counts.
    """

    def __init__(self) -> None:
        self.names: dict[str, QuantizationConfig | None] = {}
        self.types: dict[str, QuantizationConfig | None] = {}
        self.operators: dict[Any, QuantizationConfig | None] = {}
        self.everywhere: Applied = Choice.OWN

    def of(self, node: Node, op: Any) -> Applied:
        """What applies to a node that the quantizer of operator `op` matched (None: nobody did)."""
        modules = _modules_of(node)
        operator = graph.op_of(node)
        stages: tuple[tuple[dict[Any, QuantizationConfig | None], Iterable[Any]], ...] = (
            (self.names, [name for name, _ in modules]),
            (self.types, [kind for _, kind in modules]),
            (self.operators, (operator, _packet(operator), op, _packet(op))),
        )
        for settings, keys in stages:
            for key in keys:
                if key in settings:
                    chosen = settings[key]
                    return Choice.FLOAT if chosen is None else chosen
        return self.everywhere

    def check_names(self, model: GraphModule) -> None:
        """ValueError for a module name that no operator of the graph comes from."""
        known = {name for node in model.graph.nodes for name, _ in _modules_of(node)}
        for name in self.names:
            if name not in known:
                listed = ", ".join(sorted(repr(other) for other in known))
                raise ValueError(
                    f"set_module_name: got {name!r}, which no operator of the graph comes from; "
                    f"supported: {listed}"
                )


def _modules_of(node: Node) -> list[tuple[str, str]]:
    """(name, qualified type) of the modules a node was traced in, innermost first."""
    stack = node.meta.get("nn_module_stack") or {}
    modules = []
    for path, kind in reversed(list(stack.values())):
        # A second call of the same module is traced as `name@1`.
        name = re.sub(r"@\d+", "", path.removeprefix("L['self'].").removeprefix("L['self']"))
        modules.append((name, kind if isinstance(kind, str) else qualified_type(kind)))
    return modules


def qualified_type(kind: type) -> str:
    """The name of a class as torch.export records it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _packet(op: Any) -> Any:
    return op.overloadpacket if isinstance(op, OpOverload) else None


def check_config(setter: str, config: Any) -> None:
    """ValueError unless `config` is None or has the fields of a `QuantizationConfig`."""
    if config is not None and not all(hasattr(config, field) for field in _FIELDS):
        raise ValueError(f"{setter}: got {config!r}, supported: a QuantizationConfig or None")


def check_module_name(name: Any) -> None:
    """ValueError unless `name` is a string."""
    if not isinstance(name, str):
        raise ValueError(f"set_module_name: got {name!r}, supported: a dotted name, a str")


def check_module_type(kind: Any) -> None:
    """ValueError unless `kind` is a class."""
    if not isinstance(kind, type):
        raise ValueError(f"set_module_type: got {kind!r}, supported: a class")


def check_operator(operator: Any, handled: Callable[[], Iterable[Any]]) -> None:
    """ValueError unless `operator` is an overload, or a packet, that some quantizer is for."""
    if isinstance(operator, (OpOverload, OpOverloadPacket)):
        known = list(handled())
        if operator in known or operator in map(_packet, known):
            return
        listed = ", ".join(sorted(str(op) for op in known))
        raise ValueError(
            f"set_operator_type: got {operator}, which no quantizer is for; supported: {listed}"
        )
    raise ValueError(
        f"set_operator_type: got {operator!r}, supported: an operator such as torch.ops.aten.linear"
    )
