# SPDX-License-Identifier: BSD-3-Clause
"""bmm of two activations, [B, M, K] x [B, K, N]; a batch of 1 meets every matrix of the other.

acc = sum_k((a - zp_a) * (b - zp_b)); q = clamp(zp_out + R(acc; M(s_a * s_b / s_out))),
or y = f32(acc) * f32(s_a * s_b) where the result stays in float.
Other matrix products become this one first (passes/restore_matmul.py).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch.fx import Node

from fused_quant import graph, numerics, numerics_real, numerics_wide
from fused_quant.ops.common import (
    CODE_BOUNDS,
    check_rank,
    check_ratio,
    check_real_scales,
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
    Runtime,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten
_OPERANDS = ("inp", "other")


_BMM = parser({"inp": "self", "other": "mat2"})
_MATMUL = parser({"inp": "self", "other": "other"})


def _parse_matmul(node: Node) -> Call | Reason:
    """Batches of matrices, as restore_matmul leaves them where a batch of 1 is broadcast."""
    call = _MATMUL(node)
    if isinstance(call, Reason):
        return call
    ranks = [graph.rank_of(x) for x in call.operands.values() if x is not None]
    if ranks != [3, 3]:
        return Reason("rank", "matmul operand ranks", str(ranks), "static sizes of rank 2 and more")
    return call


def _ratio(site: Site) -> float:
    s_a, s_b = (site.block(name).scale_value for name in _OPERANDS)
    return (s_a * s_b) / site.result.scale_value


def _is_wide(site: Site) -> bool:
    return site.dtypes["inp"] == torch.int16


def _largest(site: Site, name: str) -> int:
    """The largest |code - zero point| of an operand."""
    zero_point, (low, high) = site.block(name).zero_point_value, CODE_BOUNDS[site.dtypes[name]]
    return max(high - zero_point, zero_point - low)


def _covers(site: Site) -> Reason | None:
    reason = check_wide_activations(site, _OPERANDS, real=True)
    if reason is not None:
        return reason
    ranks = [len(site.shapes[name]) for name in _OPERANDS]
    if ranks != [3, 3]:
        return Reason("rank", "operand ranks", str(ranks), "[B, M, K] and [B, K, N]")
    bound = site.shapes["inp"][-1] * _largest(site, "inp") * _largest(site, "other")
    bits = 48 if _is_wide(site) else 32
    if bound >= 2 ** (bits - 1):
        limit = f"2^{bits - 1} - 1"
        return Reason("overflow", f"int{bits} accumulator", f"up to {bound}", limit)
    if site.out is None:
        s_a, s_b = (site.block(name).scale_value for name in _OPERANDS)
        return check_real_scales(s_a, [s_b])
    return check_ratio(_ratio(site), "s_a * s_b / s_out")


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or _covers(site)


def _real_scale(site: Site) -> float:
    s_a, s_b = (site.block(name).scale_value for name in _OPERANDS)
    return numerics_real.real_scale(s_a, s_b)


def _aten_bmm(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return torch.matmul(tensor(tensors, "inp"), tensor(tensors, "other"))


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    # float64 holds every partial sum exactly: they are integers below 2^47.
    a, b = (
        (tensor(tensors, n).to(torch.int64) - site.block(n).zero_point_value).to(torch.float64)
        for n in _OPERANDS
    )
    acc, out = torch.matmul(a, b).to(torch.int64), site.out
    if out is None:
        return numerics_real.real_value(acc, [_real_scale(site)], axis=-1)
    multiplier = numerics.multiplier_from_ratio(_ratio(site))
    if _is_wide(site):
        return numerics_wide.requantize(acc, multiplier, out.quant_min, out.quant_max)
    return numerics.requantize(
        acc,
        multiplier,
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
        out.dtype,
    )


def _lower(site: Site, builder: Builder) -> None:
    params, out = builder.schema.ElementwiseParamsT(), site.out
    params.inputZeroPoint = [site.block(name).zero_point_value for name in _OPERANDS]
    if out is None:
        params.realScale = _real_scale(site)
    else:
        multiplier = numerics.multiplier_from_ratio(_ratio(site))
        params.outputMultiplier, params.outputShift = multiplier.multiplier, multiplier.shift
        params.outputZeroPoint = out.zero_point_value
        params.clampMin, params.clampMax = out.quant_min, out.quant_max
    inputs = [builder.operand(name, builder.LOGICAL) for name in _OPERANDS]
    macs = math.prod(site.out_shape) * site.shapes["inp"][-1]
    builder.emit("bmm", inputs, [builder.result(builder.LOGICAL)], params, macs=macs)


register(
    OpSpec(
        name="bmm",
        fusion=Fusion(
            operands=tuple(Operand(name) for name in _OPERANDS),
            attributes=(),
            anchors={_aten.bmm.default: _BMM, _aten.matmul.default: _parse_matmul},
            aten=_aten_bmm,
            reference=_reference,
            covers=_covers,
            real_result=True,
        ),
        annotation=Annotation(
            (_aten.bmm.default, _aten.matmul.default, _aten.mm.default),
            activations=("self", "other", "mat2"),
        ),
        runtime=Runtime(_supported, _lower, Layout.FREE),
    )
)
