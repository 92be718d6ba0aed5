# SPDX-License-Identifier: BSD-3-Clause
"""prelu: below zero each channel has a slope of its own, a_c, which stays a float number.

q = clamp(zo + R(x - zi; M(si / so))) for x >= zi, else
q = clamp(zo + R(sign(a_c) * (x - zi); M(si * |a_c| / so))).

a_c stands for the nearest float32 number. Channels lie on dimension 1; one slope for all of them is
a function of one element, and so a table of these results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from fused_quant import layout, numerics, numerics_lut
from fused_quant.ops import rescaling, table
from fused_quant.ops.common import check_int8_activations, check_ratio, parser, tensor
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    Fusion,
    Layout,
    Operand,
    OpSpec,
    Runtime,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten


def _slopes(site: Site) -> list[float]:
    weight: torch.Tensor = site.attributes["weight"]
    slopes: list[float] = weight.detach().to(torch.float32).flatten().tolist()
    return slopes


def _ratio(site: Site, slope: float) -> float:
    return site.block("inp").scale_value * abs(slope) / site.result.scale_value


def _covers(site: Site) -> Reason | None:
    weight = site.attributes["weight"]
    if not isinstance(weight, torch.Tensor):
        return Reason("constant", "weight", "computed", "a constant")
    if not bool(torch.isfinite(weight).all()):
        return Reason("attribute", "weight", "infinite or NaN", "finite numbers")
    reason = check_int8_activations(site, ["inp"])
    for slope in (1.0, *_slopes(site)):
        reason = reason or check_ratio(_ratio(site, slope), "s_in * slope / s_out")
    return reason


def _aten_prelu(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    x = tensor(tensors, "inp")
    result: torch.Tensor = _aten.prelu.default(x, attributes["weight"].to(x.dtype))
    return result


def _branch(site: Site, centred: torch.Tensor, slope: float) -> torch.Tensor:
    """The codes of `slope * x` for codes less their zero point."""
    out = site.result
    return numerics.requantize(
        -centred if slope < 0 else centred,
        numerics.multiplier_from_ratio(_ratio(site, slope)),
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
        out.dtype,
    )


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    x = tensor(tensors, "inp").to(torch.int64) - site.block("inp").zero_point_value
    slopes = _slopes(site)
    channels = x.split(1, 1) if len(slopes) > 1 else [x]
    below = [_branch(site, channel, a) for channel, a in zip(channels, slopes, strict=True)]
    return torch.where(x >= 0, _branch(site, x, 1.0), torch.cat(below, 1 if x.dim() > 1 else 0))


def _lower(site: Site, builder: Builder) -> None:
    slopes = _slopes(site)
    if len(slopes) == 1:
        codes = numerics_lut.CODES.to(torch.int8)
        table.lower(site, builder, _reference(site, {"inp": codes}))
        return
    multipliers = [numerics.multiplier_from_ratio(_ratio(site, a)) for a in (1.0, *slopes)]
    params, out = builder.schema.ElementwiseParamsT(), site.result
    params.inputZeroPoint = [site.block("inp").zero_point_value]
    params.multiplier = [m.multiplier for m in multipliers]
    params.shift = [m.shift for m in multipliers]
    params.negate = [False, *(slope < 0 for slope in slopes)]
    params.outputZeroPoint = out.zero_point_value
    params.clampMin, params.clampMax = out.quant_min, out.quant_max
    order = _channels_innermost(len(site.out_shape))
    builder.emit("prelu", [builder.operand("inp", order)], [builder.result(order)], params)


def _channels_innermost(rank: int) -> layout.Order:
    return (0, *range(2, rank), 1) if rank > 1 else layout.identity(rank)


def _weight(value: Any) -> Any:
    return value


register(
    OpSpec(
        name="prelu",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("Tensor weight",),
            anchors={_aten.prelu.default: parser({"inp": "self"}, {"weight": _weight})},
            aten=_aten_prelu,
            reference=_reference,
            covers=_covers,
        ),
        annotation=Annotation((_aten.prelu.default,)),
        runtime=Runtime(rescaling.supported_with(_covers), _lower, Layout.CHANNELS_LAST),
    )
)
