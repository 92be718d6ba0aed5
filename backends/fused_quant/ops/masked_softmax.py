# SPDX-License-Identifier: BSD-3-Clause
"""softmax along one dimension of what a mask leaves in: the attention of decoders and of padding.

An element where the mask is True (with `keeps`, where it is False) is left out: it counts neither
for the largest nor for the sum, and its result is 0, which is the zero point. The others have
exactly the results of a softmax of them alone. A row without any element left in is 0, where
torch's softmax says NaN. The mask is a constant or is computed; its shape broadcasts to inp's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from fused_quant import graph, numerics, numerics_norm
from fused_quant.numerics_norm import SOFTMAX_SCALE, SOFTMAX_ZERO_POINT
from fused_quant.ops import normalizing, softmax
from fused_quant.ops.common import check_int8_activations, check_rank, tensor
from fused_quant.ops.masking import is_mask_taken_in, masked
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Attributes,
    Call,
    Fusion,
    Layout,
    Operand,
    OpSpec,
    Parser,
    Runtime,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder


def _with_mask(parse: Parser) -> Parser:
    """A softmax and the masking in front of it."""

    def parse_masked(node: Node) -> Call | Reason:
        source: Any = node.args[0]
        found = masked(source) if is_mask_taken_in(source) else None
        if found is None:
            return Reason("overload", "a softmax without a mask")
        call = parse(node)
        if isinstance(call, Reason):
            return call
        attributes = {"mask": found.mask, **call.attributes, "keeps": not found.hides}
        return Call({"inp": found.scores}, attributes, (source,))

    return parse_masked


def _parse_whole(node: Node) -> Call | Reason:
    """Torch's own operator of the two. Types 0 and 1 of a mask have shapes of their own."""
    bound = graph.bind(node)
    if bound["dim"] is None:
        return Reason("attribute", "argument dim", "None", "a dimension")
    if bound["mask_type"] not in (None, 2):
        return Reason("attribute", "argument mask_type", str(bound["mask_type"]), "None, 2")
    attributes = {"mask": bound["mask"], "dim": bound["dim"], "keeps": False}
    return Call({"inp": bound["self"]}, attributes)


def _covers(site: Site) -> Reason | None:
    return check_int8_activations(site, ["inp"]) or softmax.covers(site)


def _hidden(attributes: Attributes) -> torch.Tensor:
    """True for what is left out."""
    mask: torch.Tensor = attributes["mask"]
    return ~mask if attributes["keeps"] else mask


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    out, axis = site.result, normalizing.softmax_axis(site)
    on_grid = (out.scale_value, out.zero_point_value) == (SOFTMAX_SCALE, SOFTMAX_ZERO_POINT)
    bounds = (out.quant_min, out.quant_max) if on_grid else (-128, 127)
    codes = tensor(tensors, "inp")
    hidden = _hidden(site.attributes).expand(codes.shape).movedim(axis, -1)
    rows = codes.movedim(axis, -1)
    scale = site.block("inp").scale_value
    result = numerics_norm.masked_softmax(rows, hidden, scale, *bounds).movedim(-1, axis)
    if on_grid:
        return result
    return numerics.requantize(
        result.to(torch.int64) - SOFTMAX_ZERO_POINT,
        numerics.multiplier_from_ratio(SOFTMAX_SCALE / out.scale_value),
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
        out.dtype,
    )


def _aten_masked(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    scores = tensor(tensors, "inp").masked_fill(_hidden(attributes), -torch.inf)
    return torch.softmax(scores, attributes["dim"])


def _supported(site: Site, target: Target) -> Reason | None:
    reason = check_rank(site, target) or _covers(site)
    if reason is not None:
        return reason
    mask = _mask(site)
    if mask.dtype != torch.bool:
        return Reason("dtype", "mask dtype", str(mask.dtype), "torch.bool")
    return None


def _mask(site: Site) -> torch.Tensor:
    """The mask, or what is known of one that is computed."""
    mask = site.attributes["mask"]
    return graph.val_of(mask) if isinstance(mask, Node) else mask


def _lower(site: Site, builder: Builder) -> None:
    ratio = SOFTMAX_SCALE / site.result.scale_value  # 1 on the contract's grid: R is the identity
    params = normalizing.params(site, builder, numerics.multiplier_from_ratio(ratio))
    mask = site.attributes["mask"]
    if isinstance(mask, Node):
        hidden = builder.node_operand(mask)
    else:
        hidden = builder.constant("mask", mask.to(torch.int8).reshape(-1).numpy(), "s8")
    size = _mask(site).shape
    sizes = (1,) * (len(site.shapes["inp"]) - len(size)) + tuple(size)
    params.maskKeeps = site.attributes["keeps"]
    params.axes = [normalizing.softmax_axis(site)]
    params.affineAxes = [axis for axis, size in enumerate(sizes) if size > 1]
    table = numerics_norm.exponentials(site.block("inp").scale_value).numpy()
    inputs = [
        builder.operand("inp", builder.LOGICAL),
        hidden,
        builder.constant("exponentials", table, "s16"),
    ]
    builder.emit("masked_softmax", inputs, [builder.result(builder.LOGICAL)], params)


register(
    OpSpec(
        name="masked_softmax",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("Tensor mask", "int dim", "bool keeps=False"),
            anchors={
                **{target: _with_mask(parse) for target, parse in softmax.SPELLINGS.items()},
                torch.ops.aten._masked_softmax.default: _parse_whole,
            },
            aten=_aten_masked,
            reference=_reference,
            covers=_covers,
        ),
        runtime=Runtime(_supported, _lower, Layout.FREE),
    )
)
