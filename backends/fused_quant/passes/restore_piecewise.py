# SPDX-License-Identifier: BSD-3-Clause
"""Functions with a bend out of the parts that decomposition makes of them.

threshold   = where(x <= threshold, value, x)
hardshrink  = where(|x| <= lambd, 0, x)
softshrink  = where(|x| > lambd, x - sign(x) * lambd, x * 0)
prelu       = where(x > 0, x, weight * x), weight viewed with its channels on dimension 1
log_sigmoid = min(0, x) - log1p(exp(-|x|))
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.passes.restoring import CONSTANT_COPIES, number_of, retarget, same_value

_aten = torch.ops.aten
_VIEWS = (_aten.view.default, _aten.view_copy.default, _aten.reshape.default)


@dataclasses.dataclass(frozen=True)
class _Found:
    """A function's overload, its operand and further arguments, and its parts, users first."""

    target: Any
    x: Node
    arguments: tuple[Any, ...]
    parts: tuple[Node, ...]


def restore_piecewise(gm: GraphModule, node: Node) -> None:
    """Rewrite one node in place, if it is the last part of one of these functions."""
    for match in (_threshold, _hardshrink, _softshrink, _prelu, _log_sigmoid):
        found = match(gm, node)
        if found is None or not graph.is_float_tensor(found.x):
            continue
        if graph.val_of(node).dtype == graph.val_of(found.x).dtype:
            retarget(gm, node, found.target, (found.x, *found.arguments), found.parts)
            return


def _operands(node: Any, target: Any, users: int = 1) -> tuple[Any, ...] | None:
    """The arguments of a call that only so many nodes read."""
    if graph.op_of(node) != target or len(node.users) != users:
        return None
    return tuple(graph.bind(node).values())


def _where(node: Any, comparison: Any) -> tuple[Node, Any, float, Any, Any] | None:
    """(condition, its operand, its bound, value where it holds, the other value)."""
    if graph.op_of(node) != _aten.where.self:
        return None
    condition, holds, fails = node.args
    compared = _operands(condition, comparison)
    return None if compared is None else (condition, compared[0], float(compared[1]), holds, fails)


def _threshold(gm: GraphModule, node: Node) -> _Found | None:
    split = _where(node, _aten.le.Scalar)
    if split is None:
        return None
    condition, compared, bound, holds, x = split
    value = number_of(gm, holds)
    if value is None or not same_value(compared, x):
        return None
    return _Found(_aten.threshold.default, x, (bound, value[0]), (condition, *value[1]))


def _hardshrink(gm: GraphModule, node: Node) -> _Found | None:
    split = _where(node, _aten.le.Scalar)
    if split is None:
        return None
    condition, compared, bound, holds, x = split
    value, magnitude = number_of(gm, holds), _operands(compared, _aten.abs.default)
    if value is None or value[0] != 0 or magnitude is None or not same_value(magnitude[0], x):
        return None
    return _Found(_aten.hardshrink.default, x, (bound,), (condition, compared, *value[1]))


def _softshrink(gm: GraphModule, node: Node) -> _Found | None:
    split = _where(node, _aten.gt.Scalar)
    if split is None:
        return None
    condition, compared, lambd, holds, fails = split
    magnitude, outside = _operands(compared, _aten.abs.default), _operands(holds, _aten.sub.Tensor)
    inside = _scaled(gm, fails)
    if magnitude is None or outside is None or inside is None or outside[2] != 1:
        return None
    x, step = outside[0], _scaled(gm, outside[1])
    sign = None if step is None else _operands(step[0], _aten.sign.default)
    if step is None or sign is None or inside[1] != 0:
        return None
    if not all(same_value(x, other) for other in (magnitude[0], inside[0], sign[0])):
        return None
    if step[1] != torch.tensor(lambd, dtype=graph.val_of(x).dtype):
        return None
    parts = (condition, compared, holds, outside[1], *step[2], step[0], fails, *inside[2])
    return _Found(_aten.softshrink.default, x, (lambd,), parts)


def _scaled(gm: GraphModule, node: Any) -> tuple[Any, float, tuple[Node, ...]] | None:
    """x, c and the nodes of the number c of a product x * c that one node reads."""
    product = _operands(node, _aten.mul.Tensor) or _operands(node, _aten.mul.Scalar)
    number = None if product is None else number_of(gm, product[1])
    return None if product is None or number is None else (product[0], *number)


def _prelu(gm: GraphModule, node: Node) -> _Found | None:
    split = _where(node, _aten.gt.Scalar)
    if split is None:
        return None
    condition, compared, bound, x, below = split
    product = _operands(below, _aten.mul.Tensor)
    if product is None or bound != 0 or not same_value(compared, x):
        return None
    view, other = product if same_value(product[1], x) else product[::-1]
    weight = view.args[0] if graph.op_of(view) in _VIEWS else view
    if not same_value(other, x) or not _is_slopes(gm, view, weight, graph.shape_of(x)):
        return None
    return _Found(_aten.prelu.default, x, (weight,), (condition, below, view))


def _is_slopes(gm: GraphModule, view: Any, weight: Any, shape: tuple[int, ...]) -> bool:
    """True for constant slopes, one, or as many as dimension 1 of x and viewed along it."""
    constant = weight
    while graph.op_of(constant) in CONSTANT_COPIES:
        constant = constant.args[0]
    if not isinstance(weight, Node) or graph.constant_of(gm, constant) is None:
        return False
    count = graph.val_of(weight).numel()
    if graph.val_of(weight).dim() != 1 or count == 1:
        return bool(graph.val_of(weight).dim() == 1)
    along = (1, count, *[1] * (len(shape) - 2))
    lead = graph.shape_of(view)
    return len(shape) > 1 and shape[1] == count and lead in (along, along[1:])


def _log_sigmoid(gm: GraphModule, node: Node) -> _Found | None:
    if graph.op_of(node) != _aten.sub.Tensor:
        return None
    least, logarithm, alpha = graph.bind(node).values()
    parts: list[Any] = [logarithm]
    targets = (_aten.log1p.default, _aten.exp.default, _aten.neg.default, _aten.abs.default)
    for target in targets:
        operands = _operands(parts[-1], target)
        if operands is None:
            return None
        parts.append(operands[0])
    x, smaller = parts.pop(), _operands(least, _aten.minimum.default)
    if smaller is None or alpha != 1:
        return None
    for zero, value in (smaller, smaller[::-1]):
        number = number_of(gm, zero)
        if number is not None and number[0] == 0 and same_value(value, x):
            return _Found(_aten.log_sigmoid.default, x, (), (least, *number[1], *parts))
    return None
