# SPDX-License-Identifier: BSD-3-Clause
"""`FoldBatchNorm`: a batch normalization with fixed statistics goes into the weights before it.

    g = gamma / sqrt(var + eps);   w' = w * g[c];   b' = (b - mean) * g + beta

in float64, rounded once to the weight's type. PT2E does this for most layers while it prepares a
graph; this pass also does it for 3-d convolutions, and in any float graph.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.passes.base import GraphPass

_aten = torch.ops.aten
_CONVOLUTIONS = (
    *(getattr(_aten, f"conv{rank}d").default for rank in (1, 2, 3)),
    *(getattr(_aten, f"conv{rank}d").padding for rank in (1, 2, 3)),
)
_TRANSPOSED = (
    _aten.conv_transpose1d.default,
    _aten.conv_transpose2d.input,
    _aten.conv_transpose3d.input,
)
_NORMS = (_aten.batch_norm.default, _aten._native_batch_norm_legit_no_training.default)


@dataclasses.dataclass(frozen=True)
class Norm:
    """A batch normalization: its input, the node of its result, and y = x * scale + shift."""

    source: Node
    result: Node
    scale: Tensor
    shift: Tensor


class FoldBatchNorm(GraphPass):
    """Fold every batch normalization with fixed statistics into the operator in front of it.

    That is a convolution, a transposed one without groups, or a linear layer of two-dimensional
    inputs, read by nobody else, with constant weights. A normalization in training is left alone.
    The result is the same in real numbers; in float32 it differs by the rounding of the weights.
    """

    def rewrite(self, gm: GraphModule) -> bool:
        """Change the graph in place; True if anything was folded."""
        changed = False
        for node in graph.calls(gm):
            norm = norm_of(gm, node)
            changed = (norm is not None and _fold(gm, norm)) or changed
        if changed:
            gm.graph.eliminate_dead_code()
        return changed


def norm_of(gm: GraphModule, node: Node) -> Norm | None:
    """What a normalization with fixed, known statistics does; None for any other node."""
    if graph.op_of(node) not in _NORMS:
        return None
    bound = graph.bind(node)
    source, training = bound["input"], bound.get("training", False)
    names = ("weight", "bias", "running_mean", "running_var")
    given = {name: bound[name] for name in names}
    known = {name: graph.constant_of(gm, n) for name, n in given.items() if n is not None}
    if training or any(value is None for value in known.values()):
        return None
    values = {name: value.double() for name, value in known.items() if value is not None}
    if "running_mean" not in values or "running_var" not in values:
        return None
    result = node
    if graph.op_of(node) != _aten.batch_norm.default:
        users = [u for u in node.users if u.users]
        if len(users) != 1 or graph.op_of(users[0]) is not graph.GETITEM or users[0].args[1] != 0:
            return None
        result = users[0]
    scale = torch.rsqrt(values["running_var"] + bound["eps"]) * values.get("weight", 1.0)
    shift = values.get("bias", 0.0) - values["running_mean"] * scale
    return Norm(source, result, scale, shift)


def channel_axis(node: Node) -> int | None:
    """The dimension of the weight that the output channels are; None if it does not fold."""
    op = graph.op_of(node)
    if op in _CONVOLUTIONS:
        return 0
    if op in _TRANSPOSED:
        return 1 if graph.bind(node)["groups"] == 1 else None
    # Of an input with more dimensions, the channels of the normalization are not the features.
    if op == _aten.linear.default and graph.rank_of(node) == 2:
        return 0
    return None


def _fold(gm: GraphModule, norm: Norm) -> bool:
    node = norm.source
    axis = channel_axis(node)
    if axis is None or len(node.users) != 1:
        return False
    bound: dict[str, Any] = graph.bind(node)
    weight, bias = graph.constant_of(gm, bound["weight"]), bound["bias"]
    old = graph.constant_of(gm, bias)
    if weight is None or (bias is not None and old is None):
        return False
    shape = [1] * weight.dim()
    shape[axis] = -1
    scaled = weight.double() * norm.scale.reshape(shape)
    shifted = norm.shift if old is None else old.double() * norm.scale + norm.shift
    for name, value in (("weight", scaled), ("bias", shifted)):
        constant = value.to(weight.dtype).contiguous()
        bound[name] = graph.add_constant(gm, node, constant, f"folded_{name}")
    node.args, node.kwargs = tuple(bound.values()), {}
    norm.result.replace_all_uses_with(node)
    return True
