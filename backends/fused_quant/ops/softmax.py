# SPDX-License-Identifier: BSD-3-Clause
"""softmax along one dimension, on the grid scale 1/256, zero point -128, by numerics_norm.softmax.

Of int16 codes it is on the grid 2^-15, by numerics_wide_norm.softmax. Any other output grid at
least as coarse is that result followed by a requantize; a finer one is outside the contract,
because codes of that grid would be all it could show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from fused_quant import numerics, numerics_norm, numerics_wide_norm
from fused_quant.numerics_norm import SOFTMAX_SCALE, SOFTMAX_ZERO_POINT
from fused_quant.ops import normalizing
from fused_quant.ops.common import CODE_BOUNDS, check_rank, is_wide, parser, tensor
from fused_quant.ops.masking import is_mask_taken_in
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    Call,
    FixedOutput,
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

_aten = torch.ops.aten
SPELLINGS: dict[Any, Parser] = {
    _aten.softmax.int: parser({"inp": "self"}, {"dim": int, "dtype": (None,)}),
    _aten._softmax.default: parser({"inp": "self"}, {"dim": int, "half_to_float": (False,)}),
}


def _without_mask(parse: Parser) -> Parser:
    def parse_plain(node: Node) -> Call | Reason:
        if is_mask_taken_in(node.args[0]):
            return Reason("overload", "a softmax with a mask")
        return parse(node)

    return parse_plain


def covers(site: Site) -> Reason | None:
    """A reason why no integer contract defines this softmax."""
    reason = normalizing.check_softmax(site)
    if reason is not None:
        return reason
    scale, (finest, _) = site.result.scale_value, _contract_grid(site)
    if scale < finest:
        return Reason("scale", "scale of the output", repr(scale), f"1/{round(1 / finest)} or more")
    return None


def _contract_grid(site: Site) -> tuple[float, int]:
    """Scale and zero point of the contract's result."""
    if is_wide(site):
        return numerics_wide_norm.SOFTMAX_SCALE, 0
    return SOFTMAX_SCALE, SOFTMAX_ZERO_POINT


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    out, axis = site.result, normalizing.softmax_axis(site)
    scale, zero_point = _contract_grid(site)
    is_final = (out.scale_value, out.zero_point_value) == (scale, zero_point)
    bounds = (out.quant_min, out.quant_max) if is_final else CODE_BOUNDS[out.dtype]
    rows = tensor(tensors, "inp").movedim(axis, -1)
    softmax = (numerics_wide_norm if is_wide(site) else numerics_norm).softmax
    codes = softmax(rows, site.block("inp").scale_value, *bounds).movedim(-1, axis)
    if is_final:
        return codes
    return numerics.requantize(
        codes.to(torch.int64) - zero_point,
        numerics.multiplier_from_ratio(scale / out.scale_value),
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
        out.dtype,
    )


def _aten_softmax(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return torch.softmax(tensor(tensors, "inp"), attributes["dim"])


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or covers(site)


def _lower(site: Site, builder: Builder) -> None:
    ratio = _contract_grid(site)[0] / site.result.scale_value  # 1 on the contract's grid
    params = normalizing.params(site, builder, numerics.multiplier_from_ratio(ratio))
    exponentials = (numerics_wide_norm if is_wide(site) else numerics_norm).exponentials
    table = exponentials(site.block("inp").scale_value).numpy()
    tables = {"exponentials": (table, "s32" if is_wide(site) else "s16")}
    normalizing.emit_softmax(site, builder, "softmax", params, tables)


register(
    OpSpec(
        name="softmax",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("int dim",),
            anchors={target: _without_mask(parse) for target, parse in SPELLINGS.items()},
            aten=_aten_softmax,
            reference=_reference,
            covers=covers,
        ),
        annotation=Annotation(
            (_aten.softmax.int, _aten._softmax.default),
            fixed_output=FixedOutput(SOFTMAX_SCALE, SOFTMAX_ZERO_POINT),
        ),
        runtime=Runtime(_supported, _lower, Layout.FREE),
    )
)
