# SPDX-License-Identifier: BSD-3-Clause
"""silu, hardswish and hardsigmoid out of the parts that decomposition makes of them.

    silu        = x * sigmoid(x)
    hardsigmoid = clamp(x + 3, 0, 6) / 6
    hardswish   = x * clamp(x + 3, 0, 6) / 6

The clamp may be one operator or two, the factor behind or in front, the division a product.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops import activation
from fused_quant.passes.restoring import number_of, retarget, same_value

_aten = torch.ops.aten
_PRODUCTS = (_aten.mul.Tensor, _aten.mul_.Tensor, _aten.mul.Scalar, _aten.mul_.Scalar)
_QUOTIENTS = (_aten.div.Tensor, _aten.div_.Tensor, _aten.div.Scalar, _aten.div_.Scalar)
_SUMS = (_aten.add.Tensor, _aten.add_.Tensor, _aten.add.Scalar, _aten.add_.Scalar)
_SIGMOIDS = (_aten.sigmoid.default, _aten.sigmoid_.default)
_HARDSIGMOIDS = (_aten.hardsigmoid.default, _aten.hardsigmoid_.default)
_SIXTH = float(torch.tensor(1 / 6, dtype=torch.float32))

# The operand of a part, and the nodes that make the part up, users first.
Part = tuple[Node, tuple[Node, ...]]


def restore_activations(gm: GraphModule, node: Node) -> None:
    """Rewrite one node in place, if it is the last part of one of these functions."""
    for target, match in (
        (_aten.silu.default, _silu),
        (_aten.hardsigmoid.default, _hardsigmoid),
        (_aten.hardswish.default, _hardswish),
    ):
        found = match(gm, node)
        if found is not None and _is_of_one_type(node, found[0]):
            x, parts = found
            retarget(gm, node, target, (x,), [part for part in parts if part is not node])
            return


def _is_of_one_type(node: Node, x: Node) -> bool:
    """The parts compute with integers too; the functions do not."""
    return graph.is_float_tensor(x) and graph.val_of(x).dtype == graph.val_of(node).dtype


def _inner(node: Any) -> bool:
    """True for a part that only the next part reads."""
    return isinstance(node, Node) and len(node.users) == 1


def _factors(node: Any) -> list[tuple[Any, Any]]:
    """Both orders of a product's operands."""
    if graph.op_of(node) not in _PRODUCTS:
        return []
    bound = graph.bind(node)
    a, b = bound["self"], bound["other"]
    return [(a, b), (b, a)]


def _silu(gm: GraphModule, node: Node) -> Part | None:
    for x, factor in _factors(node):
        if graph.op_of(factor) in _SIGMOIDS and _inner(factor) and same_value(x, factor.args[0]):
            return factor.args[0], (node, factor)
    return None


def _hardsigmoid(gm: GraphModule, node: Node) -> Part | None:
    sixth = _sixth(gm, node)
    if sixth is None or not _inner(sixth[0]):
        return None
    clamp = _clamped_sum(gm, sixth[0])
    return None if clamp is None else (clamp[0], (*sixth[1], *clamp[1]))


def _hardswish(gm: GraphModule, node: Node) -> Part | None:
    sixth = _sixth(gm, node)
    if sixth is not None and _inner(sixth[0]):
        for x, factor in _factors(sixth[0]):
            clamp = _clamped_sum(gm, factor) if _inner(factor) else None
            if clamp is not None and same_value(x, clamp[0]):
                return clamp[0], (*sixth[1], sixth[0], *clamp[1])
    for x, factor in _factors(node):
        if not _inner(factor):
            continue
        if graph.op_of(factor) in _HARDSIGMOIDS:
            gate: Part | None = (factor.args[0], (factor,))
        else:
            gate = _hardsigmoid(gm, factor)
        if gate is not None and same_value(x, gate[0]):
            return gate[0], (node, *gate[1])
    return None


def _sixth(gm: GraphModule, node: Any) -> Part | None:
    """The operand of a division by 6, or of a product with a sixth."""
    if graph.op_of(node) in _QUOTIENTS:
        pairs, wanted = [tuple(graph.bind(node)[n] for n in ("self", "other"))], 6.0
    else:
        pairs, wanted = _factors(node), _SIXTH
    for x, other in pairs:
        number = number_of(gm, other)
        if number is None or not isinstance(x, Node):
            continue
        value = float(torch.tensor(number[0], dtype=torch.float32))
        if value == wanted:
            return x, (node, *number[1])
    return None


def _clamped_sum(gm: GraphModule, node: Node) -> Part | None:
    """The x of clamp(x + 3, 0, 6)."""
    low, high = -math.inf, math.inf
    clamps: list[Node] = []
    current: Any = node
    while (limits := activation.real_range(current)) is not None:
        if clamps and not _inner(current):
            return None
        clamps.append(current)
        # An inner clamp acts first: the outer one may only narrow it.
        inner_low = -math.inf if limits[0] is None else limits[0]
        inner_high = math.inf if limits[1] is None else limits[1]
        low, high = max(low, inner_low), min(high, inner_high)
        current = current.args[0]
    if (low, high) != (0.0, 6.0) or graph.op_of(current) not in _SUMS or not _inner(current):
        return None
    bound = graph.bind(current)
    for x, other in ((bound["self"], bound["other"]), (bound["other"], bound["self"])):
        number = number_of(gm, other)
        if number is not None and number[0] == 3 and bound["alpha"] == 1 and isinstance(x, Node):
            return x, (*clamps, current, *number[1])
    return None
