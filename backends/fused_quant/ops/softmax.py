# SPDX-License-Identifier: BSD-3-Clause
"""softmax along one dimension, on the grid scale 1/256, zero point -128, by numerics_norm.softmax.

Any other output grid at least as coarse is that result followed by a requantize; a finer one is
outside the contract, because codes of 1/256 would be all it could show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fused_quant import numerics, numerics_norm
from fused_quant.numerics_norm import SOFTMAX_SCALE, SOFTMAX_ZERO_POINT
from fused_quant.ops import normalizing
from fused_quant.ops.common import check_rank, parser, tensor
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    FixedOutput,
    Fusion,
    Layout,
    Operand,
    OpSpec,
    Runtime,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten


def _covers(site: Site) -> Reason | None:
    reason = normalizing.check_softmax(site)
    if reason is not None:
        return reason
    scale = site.result.scale_value
    if scale < SOFTMAX_SCALE:
        return Reason("scale", "scale of the output", repr(scale), "1/256 or more")
    return None


def _on_contract_grid(site: Site) -> bool:
    out = site.result
    return (out.scale_value, out.zero_point_value) == (SOFTMAX_SCALE, SOFTMAX_ZERO_POINT)


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    out, axis = site.result, normalizing.softmax_axis(site)
    bounds = (out.quant_min, out.quant_max) if _on_contract_grid(site) else (-128, 127)
    rows = tensor(tensors, "inp").movedim(axis, -1)
    codes = numerics_norm.softmax(rows, site.block("inp").scale_value, *bounds).movedim(-1, axis)
    if _on_contract_grid(site):
        return codes
    return numerics.requantize(
        codes.to(torch.int64) - SOFTMAX_ZERO_POINT,
        numerics.multiplier_from_ratio(SOFTMAX_SCALE / out.scale_value),
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
        out.dtype,
    )


def _aten_softmax(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return torch.softmax(tensor(tensors, "inp"), attributes["dim"])


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or _covers(site)


def _lower(site: Site, builder: Builder) -> None:
    ratio = SOFTMAX_SCALE / site.result.scale_value  # 1 on the contract's grid: R is the identity
    params = normalizing.params(site, builder, numerics.multiplier_from_ratio(ratio))
    table = numerics_norm.exponentials(site.block("inp").scale_value).numpy()
    normalizing.emit_softmax(site, builder, "softmax", params, {"exponentials": (table, "s16")})


register(
    OpSpec(
        name="softmax",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("int dim",),
            anchors={
                _aten.softmax.int: parser({"inp": "self"}, {"dim": int, "dtype": (None,)}),
                _aten._softmax.default: parser(
                    {"inp": "self"}, {"dim": int, "half_to_float": (False,)}
                ),
            },
            aten=_aten_softmax,
            reference=_reference,
            covers=_covers,
        ),
        annotation=Annotation(
            (_aten.softmax.int, _aten._softmax.default),
            fixed_output=FixedOutput(SOFTMAX_SCALE, SOFTMAX_ZERO_POINT),
        ),
        runtime=Runtime(_supported, _lower, Layout.FREE),
    )
)
