# SPDX-License-Identifier: BSD-3-Clause
"""softplus, mish and celu out of the parts that decomposition makes of them.

    softplus = where(x * beta > threshold, x, log1p(exp(x * beta)) / beta)
    mish     = x * tanh(softplus(x)), with beta 1 and threshold 20
    celu     = where(x > 0, x, expm1(x / alpha) * alpha)

The product and the quotient are missing where beta or alpha is 1.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.passes.restoring import number_of, retarget, same_value

_aten = torch.ops.aten
_PRODUCTS = (_aten.mul.Tensor, _aten.mul.Scalar)
_QUOTIENTS = (_aten.div.Tensor, _aten.div.Scalar)

# The operand, further arguments, and the nodes that make the function up, users first.
Found = tuple[Node, tuple[float, ...], tuple[Node, ...]]


def restore_branches(gm: GraphModule, node: Node) -> None:
    """Rewrite one node in place, if it is the last part of one of these functions."""
    for target, match in (
        (_aten.softplus.default, _softplus),
        (_aten.celu.default, _celu),
        (_aten.mish.default, _mish),
    ):
        found = match(gm, node)
        if found is not None and graph.val_of(node).dtype == graph.val_of(found[0]).dtype:
            x, arguments, parts = found
            retarget(gm, node, target, (x, *arguments), [p for p in parts if p is not node])
            return


def _scaled(
    gm: GraphModule, node: Any, targets: tuple[Any, ...]
) -> tuple[Any, float, tuple[Node, ...]]:
    """x, c and the nodes of x * c or x / c; of any other node it and 1."""
    if graph.op_of(node) in targets:
        bound = graph.bind(node)
        number = number_of(gm, bound["other"])
        if number is not None and number[0] > 0 and len(node.users) <= 2:
            return bound["self"], number[0], (node, *number[1])
    return node, 1.0, ()


def _call_of(node: Any, target: Any) -> Any:
    """The operand of a call that only one node reads."""
    return node.args[0] if graph.op_of(node) == target and len(node.users) == 1 else None


def _branches(node: Node) -> tuple[Node, Any, float, Any, Any] | None:
    """(condition, its operand, its bound, value above, value below) of where(v > c, a, b)."""
    if graph.op_of(node) != _aten.where.self:
        return None
    condition, above, below = node.args
    if graph.op_of(condition) != _aten.gt.Scalar or len(condition.users) != 1:  # type: ignore[union-attr]
        return None
    compared, bound = condition.args  # type: ignore[union-attr]
    return condition, compared, float(bound), above, below  # type: ignore[arg-type, return-value]


def _softplus(gm: GraphModule, node: Node) -> Found | None:
    split = _branches(node)
    if split is None:
        return None
    condition, compared, threshold, above, below = split
    inner, divisor, quotient = _scaled(gm, below, _QUOTIENTS)
    exponential = _call_of(inner, _aten.log1p.default)
    argument = _call_of(exponential, _aten.exp.default)
    if argument is None:
        return None
    x, beta, product = (
        (argument, 1.0, ()) if same_value(argument, above) else _scaled(gm, argument, _PRODUCTS)
    )
    if not same_value(x, above) or not same_value(compared, argument) or beta != divisor:
        return None
    parts = (node, condition, *quotient, inner, exponential, *product)
    return above, (beta, threshold), parts


def _celu(gm: GraphModule, node: Node) -> Found | None:
    split = _branches(node)
    if split is None:
        return None
    condition, compared, bound, above, below = split
    inner, alpha, product = _scaled(gm, below, _PRODUCTS)
    argument = _call_of(inner, _aten.expm1.default)
    if argument is None or bound != 0 or not same_value(compared, above):
        return None
    x, divisor, quotient = (
        (argument, 1.0, ()) if same_value(argument, above) else _scaled(gm, argument, _QUOTIENTS)
    )
    if not same_value(x, above) or alpha != divisor:
        return None
    return above, (alpha,), (node, condition, *product, inner, *quotient)


def _mish(gm: GraphModule, node: Node) -> Found | None:
    if graph.op_of(node) not in (_aten.mul.Tensor, _aten.mul_.Tensor):
        return None
    for x, factor in (node.args[:2], node.args[1::-1]):
        gate = _call_of(factor, _aten.tanh.default)
        if graph.op_of(gate) != _aten.softplus.default or len(gate.users) != 1:
            continue
        bound = graph.bind(gate)
        if (bound["beta"], bound["threshold"]) == (1, 20) and same_value(x, bound["self"]):
            return bound["self"], (), (node, factor, gate)  # type: ignore[return-value]
    return None
