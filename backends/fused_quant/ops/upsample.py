# SPDX-License-Identifier: BSD-3-Clause
"""upsample_nearest2d: C(zo + R(x - zi; M(si / so))), then codes are repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.fx import Node

from fused_quant import graph
from fused_quant.ops import moving, rescaling
from fused_quant.ops.common import check_rank, check_wide_activations, parser, tensor
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    Call,
    Fusion,
    Layout,
    Operand,
    OpSpec,
    Runtime,
    Sharing,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten
_SPELLINGS = (_aten.upsample_nearest2d.vec, _aten.upsample_nearest2d.default)


def _parse_vec(node: Node) -> Call | Reason:
    """Sizes or factors: with factors, the sizes are those that ATen computed."""
    bound = graph.bind(node)
    scales = bound["scale_factors"] or [None, None]
    sizes = bound["output_size"] or graph.shape_of(node)[2:]
    attributes = {"output_size": list(sizes), "scales_h": scales[0], "scales_w": scales[1]}
    return Call({"inp": bound["input"]}, attributes)


def _keep(value: float | None) -> float | None:
    return value


def _upsample(x: torch.Tensor, attributes: Attributes) -> torch.Tensor:
    result: torch.Tensor = _aten.upsample_nearest2d.default(
        x, attributes["output_size"], attributes["scales_h"], attributes["scales_w"]
    )
    return result


def _covers(site: Site) -> Reason | None:
    return check_wide_activations(site, ["inp"]) or rescaling.check(site, "inp")


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    codes = rescaling.reference(site, tensors, (site.result.quant_min, site.result.quant_max))
    return _upsample(codes.to(torch.float32), site.attributes).to(codes.dtype)


def _aten_upsample(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    """In the core overload, `vec`, where it says the same: by factors alone or by sizes alone."""
    x, sizes = tensor(tensors, "inp"), attributes["output_size"]
    scales = [attributes["scales_h"], attributes["scales_w"]]
    if None not in scales:
        if sizes == [int(n * s) for n, s in zip(x.shape[2:], scales, strict=True)]:
            return _vec(x, None, scales)
    elif scales == [None, None]:
        return _vec(x, sizes, None)
    return _upsample(x, attributes)


def _vec(x: torch.Tensor, sizes: list[int] | None, scales: list[float] | None) -> torch.Tensor:
    result: torch.Tensor = _aten.upsample_nearest2d.vec(x, sizes, scales)
    return result


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or _covers(site)


def _lower(site: Site, builder: Builder) -> None:
    """On the small side of the copy the codes are brought to the output's grid."""
    order = builder.order_of("inp")
    source = builder.operand("inp", order)
    if rescaling.is_needed(site):
        target = builder.regridded(source, site.result)
        rescaling.emit(
            site, builder, (site.result.quant_min, site.result.quant_max), source, target
        )
        source = target

    def positions(x: torch.Tensor) -> torch.Tensor:  # exact in float64, which ATen has a kernel for
        return _upsample(x.to(torch.float64), site.attributes).to(x.dtype)

    moving.emit(builder, source, order, positions)


register(
    OpSpec(
        name="upsample_nearest2d",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("int[] output_size", "float? scales_h=None", "float? scales_w=None"),
            anchors={
                _aten.upsample_nearest2d.vec: _parse_vec,
                _aten.upsample_nearest2d.default: parser(
                    {"inp": "self"},
                    {"output_size": list, "scales_h": _keep, "scales_w": _keep},
                ),
            },
            aten=_aten_upsample,
            reference=_reference,
            covers=_covers,
            keeps_grid=True,
        ),
        annotation=Annotation(_SPELLINGS, Sharing.INPUT),
        runtime=Runtime(_supported, _lower, Layout.FREE),
    )
)
register(
    OpSpec(  # becomes picks along the last dimension before it is fused
        name="upsample_nearest1d",
        annotation=Annotation(
            (_aten.upsample_nearest1d.vec, _aten.upsample_nearest1d.default), Sharing.INPUT
        ),
    )
)
