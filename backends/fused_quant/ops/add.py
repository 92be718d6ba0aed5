# SPDX-License-Identifier: BSD-3-Clause
"""add and sub with broadcasting and `alpha`: inp +- alpha * other.

si = 2 * max(s_a, |alpha| * s_b) / 2^L, L = 20 for int8 and 12 for int16;
t = R(a - zp_a; M(s_a / si)) +- R(b - zp_b; M(|alpha| * s_b / si));
q = clamp(zp_out + R(t; M(si / s_out))).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from fused_quant import graph, numerics
from fused_quant.ops.common import check_rank, check_ratio, check_wide_activations, tensor
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
    Site,
    Tensors,
)
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten


def _parse(node: Node) -> Call | Reason:
    bound = graph.bind(node)
    alpha = bound["alpha"]
    if not isinstance(alpha, (int, float)):
        return Reason("attribute", "argument alpha", repr(alpha), "a number")
    if not isinstance(bound["other"], Node):
        return Reason("operand", "argument other", repr(bound["other"]), "a tensor")
    return Call({"inp": bound["self"], "other": bound["other"]}, {"alpha": float(alpha)})


def _parse_reversed(node: Node) -> Call | Reason:
    """rsub(a, b, alpha) is b - alpha * a."""
    call = _parse(node)
    if isinstance(call, Reason):
        return call
    operands = {"inp": call.operands["other"], "other": call.operands["inp"]}
    return Call(operands, call.attributes)


def _signed_alpha(site: Site, sign: int) -> float:
    return sign * float(site.attributes["alpha"])


def _multipliers(site: Site, alpha: float) -> tuple[numerics.Multiplier, ...]:
    s_b = abs(alpha) * site.block("other").scale_value
    bits = torch.iinfo(site.result.dtype).bits
    return numerics.add_multipliers(
        site.block("inp").scale_value, s_b, site.result.scale_value, bits
    )


def _covers(site: Site) -> Reason | None:
    reason = check_wide_activations(site, ["inp", "other"])
    if reason is not None:
        return reason
    alpha = abs(float(site.attributes["alpha"]))
    if not math.isfinite(alpha) or alpha == 0:
        return Reason("attribute", "argument alpha", repr(alpha), "finite and not 0")
    s_a, s_b = site.block("inp").scale_value, alpha * site.block("other").scale_value
    step = numerics.add_step(s_a, s_b, torch.iinfo(site.result.dtype).bits)
    return check_ratio(step / site.result.scale_value, "inputs to output")


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or _covers(site)


def _reference(sign: int) -> Callable[[Site, Tensors], torch.Tensor]:
    def reference(site: Site, tensors: Tensors) -> torch.Tensor:
        a, b = tensor(tensors, "inp"), tensor(tensors, "other")
        alpha = _signed_alpha(site, sign)
        m_a, m_b, m_out = _multipliers(site, alpha)
        out = site.result
        return numerics.add(
            a,
            site.block("inp").zero_point_value,
            b,
            site.block("other").zero_point_value,
            m_a,
            m_b,
            1 if alpha > 0 else -1,
            m_out,
            out.zero_point_value,
            out.quant_min,
            out.quant_max,
            out.dtype,
        )

    return reference


def _lower(sign: int) -> Callable[[Site, Builder], None]:
    def lower(site: Site, builder: Builder) -> None:
        alpha = _signed_alpha(site, sign)
        m_a, m_b, m_out = _multipliers(site, alpha)
        out = site.result
        params = builder.schema.ElementwiseParamsT()
        params.inputZeroPoint = [site.block(n).zero_point_value for n in ("inp", "other")]
        params.multiplier = [m_a.multiplier, m_b.multiplier]
        params.shift = [m_a.shift, m_b.shift]
        params.negate = [False, alpha < 0]
        params.outputMultiplier, params.outputShift = m_out.multiplier, m_out.shift
        params.outputZeroPoint = out.zero_point_value
        params.clampMin, params.clampMax = out.quant_min, out.quant_max
        order = builder.common_order()
        inputs = [builder.broadcast_operand(name, order) for name in ("inp", "other")]
        builder.emit("add", inputs, [builder.result(order)], params)

    return lower


def _register(
    name: str, sign: int, packets: tuple[Any, ...], further: dict[Any, Parser] | None = None
) -> None:
    aten_op = getattr(torch, name)

    def aten(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
        a, b = tensor(tensors, "inp"), tensor(tensors, "other")
        result: torch.Tensor = aten_op(a, b, alpha=attributes["alpha"])
        return result

    register(
        OpSpec(
            name=name,
            fusion=Fusion(
                operands=(Operand("inp"), Operand("other")),
                attributes=("float alpha=1.0",),
                anchors={**dict.fromkeys(packets, _parse), **(further or {})},
                aten=aten,
                reference=_reference(sign),
                covers=_covers,
            ),
            annotation=Annotation((*packets, *(further or {})), activations=("self", "other")),
            runtime=Runtime(_supported, _lower(sign), Layout.ANY),
        )
    )


_register("add", 1, (_aten.add.Tensor, _aten.add_.Tensor))
_register("sub", -1, (_aten.sub.Tensor, _aten.sub_.Tensor), {_aten.rsub.Tensor: _parse_reversed})
