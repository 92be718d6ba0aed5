# SPDX-License-Identifier: BSD-3-Clause
"""Values of nodes that depend on constants alone: indices and masks that a program computes."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.passes.restoring import CONSTANT_COPIES

_aten = torch.ops.aten
_LARGEST = 64  # nodes


def constant_value(
    gm: GraphModule, node: Node, absorbed: list[Node] | None = None
) -> torch.Tensor | None:
    """The value of a node that depends on constants alone; the nodes behind it join `absorbed`."""
    cone: dict[Node, Any] = {}

    def value(n: Node) -> Any:
        if n.op == "get_attr":
            return graph.constant_of(gm, n)
        if n not in cone:
            if n.op != "call_function" or len(cone) == _LARGEST:
                return None
            op = graph.op_of(n)
            known = {source: value(source) for source in n.all_input_nodes}
            if op is None or any(v is None for v in known.values()):
                return None
            if op in CONSTANT_COPIES:
                cone[n] = known[n.all_input_nodes[0]].to(graph.val_of(n).dtype)
            elif n.target in _PURE or _fills_its_own(n):
                args, kwargs = torch.fx.map_arg((n.args, dict(n.kwargs)), known.__getitem__)
                cone[n] = _IN_PLACE.get(op, op)(*args, **kwargs)
            else:
                return None
        return cone[n]

    result: torch.Tensor | None = value(node)
    if result is not None and absorbed is not None:
        absorbed += [n for n in cone if n not in absorbed]
    return result


def _fills_its_own(node: Node) -> bool:
    """True for a call in place on a tensor that nobody else reads."""
    target: Any = node.args[0] if node.args else None
    return graph.op_of(node) in _IN_PLACE and target.op != "get_attr" and len(target.users) == 1


_IN_PLACE = {
    _aten.masked_fill_.Scalar: _aten.masked_fill.Scalar,
    _aten.logical_not_.default: _aten.logical_not.default,
}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_PURE = frozenset(
    getattr(getattr(_aten, name), overload)
    for name, overload in (
        ("arange", "start_step"),
        ("arange", "start"),
        ("arange", "default"),
        ("full", "default"),
        ("zeros", "default"),
        ("ones", "default"),
        ("full_like", "default"),
        ("zeros_like", "default"),
        ("ones_like", "default"),
        ("scalar_tensor", "default"),
        ("abs", "default"),
        ("add", "Tensor"),
        ("add", "Scalar"),
        ("sub", "Tensor"),
        ("sub", "Scalar"),
        ("mul", "Tensor"),
        ("mul", "Scalar"),
        ("rsub", "Scalar"),
        ("fmod", "Scalar"),
        ("remainder", "Scalar"),
        ("clamp", "default"),
        ("view_copy", "default"),
        ("view", "default"),
        ("reshape", "default"),
        ("unsqueeze", "default"),
        ("unsqueeze_copy", "default"),
        ("slice", "Tensor"),
        ("slice_copy", "Tensor"),
        ("expand", "default"),
        ("expand_copy", "default"),
        ("select", "int"),
        ("select_copy", "int"),
        ("triu", "default"),
        ("tril", "default"),
        ("logical_not", "default"),
        ("logical_and", "default"),
        ("logical_or", "default"),
        ("bitwise_not", "default"),
        ("bitwise_and", "Tensor"),
        ("bitwise_or", "Tensor"),
        ("masked_fill", "Scalar"),
        ("where", "self"),
        ("where", "ScalarOther"),
        ("where", "ScalarSelf"),
        *((name, overload) for name in _COMPARISONS for overload in ("Scalar", "Tensor")),
    )
)
