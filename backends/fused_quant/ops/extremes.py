# SPDX-License-Identifier: BSD-3-Clause
"""amax and amin over any axes, max and min along one: the extreme code, then a requantize.

q = clamp(zp_out + R(max(x) - zp_in; M(s_in / s_out))), and min likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from fused_quant import numerics
from fused_quant.ops import reducing
from fused_quant.ops.common import (
    check_rank,
    check_ratio,
    check_wide_activations,
    parser,
    tensor,
)
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    Call,
    Fusion,
    Layout,
    Operand,
    OpSpec,
    Parser,
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
_Extreme = Callable[..., torch.Tensor]
_read_axes = parser({"inp": "self"}, {"dim": lambda v: list(v or []), "keepdim": bool})
_read_axis = parser({"inp": "self"}, {"dim": lambda v: [int(v)], "keepdim": bool})
_read_whole = parser({"inp": "self"})


def _parse_whole(node: Node) -> Call | Reason:
    """All elements: no dimension is named."""
    call = _read_whole(node)
    return call if isinstance(call, Reason) else Call(call.operands, {"dim": [], "keepdim": False})


def _parse_axis(node: Node) -> Call | Reason:
    call = _read_axis(node)
    if isinstance(call, Reason):
        return call
    return Call(call.operands, {**call.attributes, "dim": call.attributes["dim"][0]})


def _several(site: Site) -> Site:
    """The site with `dim` as a list."""
    if isinstance(site.attributes["dim"], list):
        return site
    attributes = {**site.attributes, "dim": [site.attributes["dim"]]}
    return Site(**{**vars(site), "attributes": attributes})


def _ratio(site: Site) -> float:
    return site.block("inp").scale_value / site.result.scale_value


def _covers(site: Site) -> Reason | None:
    reason = reducing.check_axes(_several(site)) or check_wide_activations(site, ["inp"])
    return reason or check_ratio(_ratio(site), "input to output")


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or _covers(site)


def _reference(extreme: _Extreme) -> Callable[[Site, Tensors], torch.Tensor]:
    def reference(site: Site, tensors: Tensors) -> torch.Tensor:
        out, axes = site.result, reducing.axes_of(_several(site))
        codes = extreme(tensor(tensors, "inp"), axes, site.attributes["keepdim"])
        return numerics.requantize(
            codes.to(torch.int64) - site.block("inp").zero_point_value,
            numerics.multiplier_from_ratio(_ratio(site)),
            out.zero_point_value,
            out.quant_min,
            out.quant_max,
            out.dtype,
        )

    return reference


def _runtime(opcode: str) -> Runtime:
    def lower(site: Site, builder: Builder) -> None:
        multiplier = numerics.multiplier_from_ratio(_ratio(site))
        reducing.lower(_several(site), builder, opcode, multiplier)

    return Runtime(_supported, lower, Layout.FREE)


def _register(opcode: str, extreme: _Extreme, anchors: dict[Any, Parser]) -> None:
    def aten(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
        return extreme(tensor(tensors, "inp"), attributes["dim"], attributes["keepdim"])

    register(
        OpSpec(
            name=opcode,
            fusion=Fusion(
                operands=(Operand("inp"),),
                attributes=("int[] dim", "bool keepdim"),
                anchors=anchors,
                aten=aten,
                reference=_reference(extreme),
                covers=_covers,
                keeps_grid=True,
            ),
            annotation=Annotation(tuple(anchors), Sharing.INPUT),
            runtime=_runtime(opcode),
        )
    )


def _register_along(name: str, opcode: str, extreme: _Extreme, along: Any) -> None:
    """`name`.dim: values and indices; the indices are never quantized."""

    def results(tensors: Tensors, attributes: Attributes) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = along(tensor(tensors, "inp"), attributes["dim"], attributes["keepdim"])
        return values, indices

    register(
        OpSpec(
            name=name,
            fusion=Fusion(
                operands=(Operand("inp"),),
                attributes=("int dim", "bool keepdim"),
                anchors={along: _parse_axis},
                aten=lambda tensors, attributes: results(tensors, attributes)[0],
                reference=_reference(extreme),
                covers=_covers,
                overload="dim",
                results=2,
                others=lambda tensors, attributes: (results(tensors, attributes)[1],),
                keeps_grid=True,
            ),
            annotation=Annotation((along,), Sharing.INPUT),
            runtime=_runtime(opcode),
        )
    )


_register("amax", torch.amax, {_aten.amax.default: _read_axes, _aten.max.default: _parse_whole})
_register("amin", torch.amin, {_aten.amin.default: _read_axes, _aten.min.default: _parse_whole})
_register_along("max", "amax", torch.amax, _aten.max.dim)
_register_along("min", "amin", torch.amin, _aten.min.dim)
