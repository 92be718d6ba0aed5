# SPDX-License-Identifier: BSD-3-Clause
"""bmm of two activations, [B, M, K] x [B, K, N].

acc = sum_k((a - zp_a) * (b - zp_b)); q = clamp(zp_out + R(acc; M(s_a * s_b / s_out))).
Other matrix products become this one first (passes/restore_matmul.py).
"""

from __future__ import annotations

import torch

from fused_quant import numerics
from fused_quant.ops.common import check_int8_activations, check_ratio, parser, tensor
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    Fusion,
    Operand,
    OpSpec,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason

_aten = torch.ops.aten
_OPERANDS = ("inp", "other")


def _ratio(site: Site) -> float:
    s_a, s_b = (site.block(name).scale_value for name in _OPERANDS)
    return (s_a * s_b) / site.result.scale_value


def _largest(site: Site, name: str) -> int:
    """The largest |code - zero point| of an operand."""
    zero_point = site.block(name).zero_point_value
    return max(127 - zero_point, zero_point + 128)


def _covers(site: Site) -> Reason | None:
    reason = check_int8_activations(site, _OPERANDS)
    if reason is not None:
        return reason
    bound = site.shapes["inp"][-1] * _largest(site, "inp") * _largest(site, "other")
    if bound > numerics.INT32_MAX:
        return Reason("overflow", "int32 accumulator", f"up to {bound}", "2^31 - 1")
    return check_ratio(_ratio(site), "s_a * s_b / s_out")


def _aten_bmm(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return torch.bmm(tensor(tensors, "inp"), tensor(tensors, "other"))


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    # float64 holds every partial sum exactly: they are integers below 2^31.
    a, b = (
        (tensor(tensors, n).to(torch.int64) - site.block(n).zero_point_value).to(torch.float64)
        for n in _OPERANDS
    )
    out = site.result
    return numerics.requantize(
        torch.bmm(a, b).to(torch.int64),
        numerics.multiplier_from_ratio(_ratio(site)),
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
        out.dtype,
    )


register(
    OpSpec(
        name="bmm",
        fusion=Fusion(
            operands=tuple(Operand(name) for name in _OPERANDS),
            attributes=(),
            anchors={_aten.bmm.default: parser({"inp": "self", "other": "mat2"})},
            aten=_aten_bmm,
            reference=_reference,
            covers=_covers,
        ),
        annotation=Annotation(
            (_aten.bmm.default, _aten.matmul.default, _aten.mm.default),
            activations=("self", "other", "mat2"),
        ),
    )
)
