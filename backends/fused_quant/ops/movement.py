# SPDX-License-Identifier: BSD-3-Clause
"""Operators that only move codes: reshapes, permutations, slices and the like.

They commute with quantize and dequantize, so they run on codes and carry the parameters of their
input. A reshape or a permutation costs nothing unless the stored dimension order must change; any
other movement is a strided copy or picks by constant indices, whatever its spelling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from fused_quant import graph
from fused_quant.ops import moving, registry
from fused_quant.ops.common import check_rank
from fused_quant.ops.registry import register
from fused_quant.ops.source_map import Apply
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
    _aten.unflatten.int,
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
    _aten.adjoint.default,
    _aten.movedim.int,
    _aten.movedim.intlist,
    _aten.moveaxis.int,
    _aten.moveaxis.intlist,
    _aten.swapaxes.default,
    _aten.swapdims.default,
)
EXPANDS = (_aten.expand.default, _aten.expand_copy.default)
COPIES = (
    _aten.slice.Tensor,
    _aten.slice_copy.Tensor,
    _aten.select.int,
    _aten.select_copy.int,
    _aten.narrow.default,
    _aten.narrow_copy.default,
    _aten.diagonal.default,
    _aten.diagonal_copy.default,
    _aten.flip.default,
    _aten.fliplr.default,
    _aten.flipud.default,
    _aten.rot90.default,
    _aten.roll.default,
    _aten.repeat.default,
    _aten.tile.default,
    _aten.repeat_interleave.self_int,
    _aten.pixel_shuffle.default,
    _aten.pixel_unshuffle.default,
    _aten.channel_shuffle.default,
)
PADS = (
    _aten.reflection_pad1d.default,
    _aten.reflection_pad2d.default,
    _aten.reflection_pad3d.default,
    _aten.replication_pad1d.default,
    _aten.replication_pad2d.default,
    _aten.replication_pad3d.default,
    _aten.pad.default,  # of a mode that repeats elements
)
INDEXES = (
    _aten.index_select.default,
    _aten.index.Tensor,
    _aten._unsafe_index.Tensor,
    _aten.gather.default,
)
# Their results are slices, and become slices before anything else looks at them.
SPLITS = (
    _aten.split.Tensor,
    _aten.split.sizes,
    _aten.split_copy.Tensor,
    _aten.split_with_sizes.default,
    _aten.split_with_sizes_copy.default,
    _aten.unsafe_split.Tensor,
    _aten.chunk.default,
    _aten.unsafe_chunk.default,
    _aten.tensor_split.sections,
    _aten.tensor_split.indices,
    _aten.unbind.int,
    _aten.unbind_copy.int,
)
_SIZES = (2, 3, 5, 7, 11, 13)  # of a tensor whose dimensions can be told apart


def moves(node: Any) -> bool:
    """True for a call that only moves elements, so that it commutes with quantize and dequantize.

    A dropout that is being trained computes; a padding with a constant adds elements.
    """
    spec = registry.spec_of(graph.op_of(node))
    if spec is None or not spec.moves_data or not isinstance(node.meta.get("val"), torch.Tensor):
        return False
    bound = graph.bind(node)
    return not bound.get("train", False) and bound.get("mode") != "constant"


def permutation(node: Node) -> tuple[int, ...]:
    """Dims such that logical output dimension i is logical input dimension dims[i]."""
    op, rank = graph.op_of(node), graph.rank_of(node)
    if rank > len(_SIZES):
        raise ValueError(f"{node.name}: got rank {rank}, supported: up to {len(_SIZES)}")
    moved = op(torch.empty(_SIZES[:rank], device="meta"), *node.args[1:], **node.kwargs)
    return tuple(_SIZES.index(size) for size in moved.shape)


def _apply(site: Site) -> Apply:
    """The operator on any tensor of the input's shape, with its constant arguments."""
    assert site.node is not None
    op = graph.op_of(site.node)
    first = op._schema.arguments[0].name

    def apply(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = op(**{first: x}, **site.attributes)
        return result

    return apply


def _check(site: Site, target: Target) -> Reason | None:
    assert site.node is not None
    dtype = graph.val_of(site.node).dtype
    if dtype not in (torch.int8, torch.int16):
        return Reason("dtype", "dtype", str(dtype), "torch.int8, torch.int16")
    if not moves(site.node):
        return Reason("attribute", "training or constant padding", "True", "False")
    return check_rank(site, target)


def _check_copy(site: Site, target: Target) -> Reason | None:
    reason = _check(site, target)
    if reason is not None:
        return reason
    for name, value in site.attributes.items():
        members = value if isinstance(value, (list, tuple)) else [value]
        if any(isinstance(member, Node) for member in members):
            return Reason("indices", f"argument {name}", "computed", "known ahead of time")
        if any(isinstance(m, torch.Tensor) and m.dtype == torch.bool for m in members):
            return Reason("indices", f"argument {name}", "a mask", "integers")
    try:
        _apply(site)(torch.empty(site.shapes["inp"], dtype=torch.int8))
    except (IndexError, RuntimeError) as error:
        return Reason("indices", "arguments", str(error).splitlines()[0], "within the input")
    return None


def _lower_reshape(site: Site, builder: Builder) -> None:
    builder.reshape("inp")


def _lower_permute(site: Site, builder: Builder) -> None:
    assert site.node is not None
    builder.permute("inp", permutation(site.node))


def _lower_copy(site: Site, builder: Builder) -> None:
    order = builder.order_of("inp")
    moving.emit(builder, builder.operand("inp", order), order, _apply(site))


def _spec(name: str, targets: tuple[Any, ...], check: Any, lower: Any) -> OpSpec:
    return OpSpec(
        name=name,
        annotation=Annotation(targets, Sharing.INPUT, condition=_is_annotated_here),
        runtime=Runtime(check, lower, Layout.FREE),
        targets=targets,
        moves_data=True,
    )


def _is_annotated_here(node: Node) -> bool:
    """A padding with a constant is an operator of its own."""
    return graph.bind(node).get("mode") != "constant"


register(_spec("reshape", RESHAPES, _check, _lower_reshape))
register(_spec("permute", PERMUTES, _check, _lower_permute))
register(_spec("expand", EXPANDS, _check_copy, _lower_copy))
register(_spec("slice", COPIES, _check_copy, _lower_copy))
register(_spec("mirror_pad", PADS, _check_copy, _lower_copy))
register(_spec("gather", INDEXES, _check_copy, _lower_copy))
register(
    OpSpec(
        name="split",
        annotation=Annotation(SPLITS, Sharing.INPUT),
        targets=SPLITS,
        moves_data=True,
    )
)
