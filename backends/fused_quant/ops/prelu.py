# SPDX-License-Identifier: BSD-3-Clause
"""prelu: below zero each channel has a slope of its own, a_c, which stays a float number.

q = clamp(zo + R(x - zi; M(si / so))) for x >= zi, else
q = clamp(zo + R(sign(a_c) * (x - zi); M(si * |a_c| / so))).

a_c stands for the nearest float32 number. Channels lie on dimension 1; one slope for all of them is
a function of one element, and so of int8 codes a table of these results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from fused_quant import layout, numerics_lut
from fused_quant.ops import rescaling, slopes, table
from fused_quant.ops.common import check_wide_activations, is_wide, parser, tensor
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
    values: list[float] = weight.detach().to(torch.float32).flatten().tolist()
    return values


def _covers(site: Site) -> Reason | None:
    weight = site.attributes["weight"]
    if not isinstance(weight, torch.Tensor):
        return Reason("constant", "weight", "computed", "a constant")
    if not bool(torch.isfinite(weight).all()):
        return Reason("attribute", "weight", "infinite or NaN", "finite numbers")
    reason = check_wide_activations(site, ["inp"])
    return reason or slopes.check(site, (1.0, *_slopes(site)))


def _aten_prelu(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    x = tensor(tensors, "inp")
    result: torch.Tensor = _aten.prelu.default(x, attributes["weight"].to(x.dtype))
    return result


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    return slopes.reference(site, tensor(tensors, "inp"), 1.0, _slopes(site))


def _lower(site: Site, builder: Builder) -> None:
    below = _slopes(site)
    if len(below) == 1 and not is_wide(site):
        codes = numerics_lut.CODES.to(torch.int8)
        table.lower(site, builder, _reference(site, {"inp": codes}))
    else:
        order = _channels_innermost(len(site.out_shape))
        slopes.lower(site, builder, order, 1.0, below)


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
