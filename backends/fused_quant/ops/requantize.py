# SPDX-License-Identifier: BSD-3-Clause
"""requantize: the same reals on another grid, q = clamp(zp_out + R(x - zp_in; M(s_in / s_out)))."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fused_quant.ops import rescaling
from fused_quant.ops.common import tensor
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Attributes,
    Fusion,
    Layout,
    Operand,
    OpSpec,
    Runtime,
    Site,
    Tensors,
)

if TYPE_CHECKING:
    from fused_quant.lowering import Builder


def _aten(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    x = tensor(tensors, "inp")
    return x.clone()


def _bounds(site: Site) -> tuple[int, int]:
    return site.result.quant_min, site.result.quant_max


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    return rescaling.reference(site, tensors, _bounds(site))


def _lower(site: Site, builder: Builder) -> None:
    rescaling.lower(site, builder, _bounds(site))


REQUANTIZE = register(
    OpSpec(
        name="requantize",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=(),
            anchors={},
            aten=_aten,
            reference=_reference,
            covers=rescaling.covers,
        ),
        runtime=Runtime(rescaling.supported_with(rescaling.covers), _lower, Layout.ANY),
    )
)
