# SPDX-License-Identifier: BSD-3-Clause
"""maximum and minimum with broadcasting: both operands on the output's grid, then max or min.

q = max(C(zo + R(a - za; M(sa / so))), C(zo + R(b - zb; M(sb / so)))), and min likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from fused_quant.ops import rescaling
from fused_quant.ops.common import check_wide_activations, parser, tensor
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
_OPERANDS = ("inp", "other")


def _covers(site: Site) -> Reason | None:
    reason = check_wide_activations(site, _OPERANDS)
    for name in _OPERANDS:
        reason = reason or rescaling.check(site, name)
    return reason


def _register(
    name: str,
    choose: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    spellings: tuple[Any, ...],
) -> None:
    def aten(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
        return choose(tensor(tensors, "inp"), tensor(tensors, "other"))

    def reference(site: Site, tensors: Tensors) -> torch.Tensor:
        bounds = (site.result.quant_min, site.result.quant_max)
        a, b = (rescaling.reference(site, tensors, bounds, operand) for operand in _OPERANDS)
        return choose(a, b)

    def lower(site: Site, builder: Builder) -> None:
        rescaling.lower_pair(site, builder, name, _OPERANDS)

    register(
        OpSpec(
            name=name,
            fusion=Fusion(
                operands=tuple(Operand(operand) for operand in _OPERANDS),
                attributes=(),
                anchors=dict.fromkeys(spellings, parser({"inp": "self", "other": "other"})),
                aten=aten,
                reference=reference,
                covers=_covers,
            ),
            annotation=Annotation(spellings, activations=("self", "other")),
            runtime=Runtime(rescaling.supported_with(_covers), lower, Layout.ANY),
        )
    )


_register("maximum", torch.maximum, (_aten.maximum.default, _aten.max.other))
_register("minimum", torch.minimum, (_aten.minimum.default, _aten.min.other))
