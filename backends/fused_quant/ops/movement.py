# SPDX-License-Identifier: BSD-3-Clause
"""Operators that only move elements: reshapes and permutations of int8 tensors.

They commute with quantize and dequantize, so they run on codes and carry the parameters of their
input. A reshape costs nothing unless the stored dimension order must change first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from fused_quant import graph
from fused_quant.ops import registry
from fused_quant.ops.common import check_rank
from fused_quant.ops.registry import register
from fused_quant.ops.spec import Annotation, Layout, OpSpec, Runtime, Sharing, Site
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten

RESHAPES = (
    _aten.view.default,
    _aten.view_copy.default,
    _aten._unsafe_view.default,
    _aten.reshape.default,
    _aten.flatten.using_ints,
    _aten.squeeze.default,
    _aten.squeeze.dim,
    _aten.squeeze.dims,
    _aten.squeeze_copy.default,
    _aten.squeeze_copy.dim,
    _aten.squeeze_copy.dims,
    _aten.unsqueeze.default,
    _aten.unsqueeze_copy.default,
    _aten.clone.default,
    _aten.contiguous.default,
    _aten.alias.default,
    _aten.alias_copy.default,
    _aten.detach.default,
    _aten.dropout.default,
    _aten.dropout_.default,
    torch.ops.dim_order_ops._clone_dim_order.default,
)
PERMUTES = (
    _aten.permute.default,
    _aten.permute_copy.default,
    _aten.transpose.int,
    _aten.transpose_copy.int,
    _aten.t.default,
    _aten.t_copy.default,
    _aten.numpy_T.default,
    _aten.mT.default,
)

EXPANDS = (_aten.expand.default, _aten.expand_copy.default)


def moves(node: Any) -> bool:
    """True for a call that only moves elements, so that it commutes with quantize and dequantize.

    A dropout that is being trained computes.
    """
    spec = registry.spec_of(graph.op_of(node))
    return spec is not None and spec.moves_data and not graph.bind(node).get("train", False)


def permutation(node: Node) -> tuple[int, ...]:
    """Dims such that logical output dimension i is logical input dimension dims[i]."""
    bound = graph.bind(node)
    rank = graph.rank_of(node)
    if "dims" in bound:
        return tuple(axis % rank for axis in bound["dims"])
    order = list(range(rank))
    if graph.op_of(node) == _aten.numpy_T.default:
        return tuple(reversed(order))
    if graph.op_of(node) == _aten.mT.default:
        bound |= {"dim0": -2, "dim1": -1}
    if rank >= 2:
        first, second = bound.get("dim0", 0) % rank, bound.get("dim1", 1) % rank
        order[first], order[second] = order[second], order[first]
    return tuple(order)


def _check(site: Site, target: Target) -> Reason | None:
    assert site.node is not None
    dtype = graph.val_of(site.node).dtype
    if dtype != torch.int8:
        return Reason("dtype", "dtype", str(dtype), "torch.int8")
    bound = graph.bind(site.node)
    if bound.get("train", False):
        return Reason("attribute", "argument train", "True", "False")
    return check_rank(site, target)


def _lower_reshape(site: Site, builder: Builder) -> None:
    builder.reshape("inp")


def _lower_permute(site: Site, builder: Builder) -> None:
    assert site.node is not None
    builder.permute("inp", permutation(site.node))


def _spec(name: str, targets: tuple[Any, ...], lower: Any) -> OpSpec:
    return OpSpec(
        name=name,
        annotation=Annotation(targets, Sharing.INPUT),
        runtime=Runtime(_check, lower, Layout.FREE),
        targets=targets,
        moves_data=True,
    )


register(_spec("reshape", RESHAPES, _lower_reshape))
register(_spec("permute", PERMUTES, _lower_permute))
register(OpSpec(name="expand", targets=EXPANDS, moves_data=True))
