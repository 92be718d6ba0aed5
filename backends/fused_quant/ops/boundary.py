# SPDX-License-Identifier: BSD-3-Clause
"""quantize and dequantize, where a claimed region meets float tensors.

A change of the dimension order is folded into the copy.
quantize: q = clamp(zp + rint(x * f32(1 / s))), clamped in float first; NaN gives zp.
dequantize: y = f32(q - zp) * f32(s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from fused_quant import graph, numerics
from fused_quant.ops.common import check_codes, check_rank
from fused_quant.ops.registry import register
from fused_quant.ops.spec import Layout, OpSpec, Runtime, Site
from fused_quant.qparams import QParams
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder


def params_of(node: Node) -> QParams:
    """The per-tensor parameters written on a quantize or dequantize node."""
    bound = graph.bind(node)
    return QParams.per_tensor(
        bound["scale"], bound["zero_point"], bound["dtype"], bound["quant_min"], bound["quant_max"]
    )


def _check(site: Site, target: Target) -> Reason | None:
    assert site.node is not None
    node, params = site.node, params_of(site.node)
    reason = check_codes("quantized", params.dtype, params, (torch.int8, torch.int16))
    if reason is not None:
        return reason
    is_float = graph.op_of(node) == graph.QUANTIZE
    val = graph.val_of(node.args[0] if is_float else node)  # type: ignore[arg-type]
    if val.dtype != torch.float32:
        return Reason("dtype", "float dtype", str(val.dtype), "torch.float32")
    return params.check(node.name) or check_rank(site, target)


def _cast_params(site: Site, builder: Builder) -> Any:
    assert site.node is not None
    source = params_of(site.node)
    params = builder.schema.CastParamsT()
    params.scale = source.scale_value
    params.inverseScale = numerics.inverse_scale(source.scale_value)
    params.zeroPoint = source.zero_point_value
    params.clampMin, params.clampMax = source.quant_min, source.quant_max
    return params


def _lower(opcode: str) -> Any:
    def lower(site: Site, builder: Builder) -> None:
        params = _cast_params(site, builder)
        order = builder.wanted_order()
        source = builder.order_of("inp")
        perm = [source.index(axis) for axis in order]
        params.perm = perm if perm != sorted(perm) else []
        builder.emit(opcode, [builder.operand("inp", source)], [builder.result(order)], params)

    return lower


register(
    OpSpec(
        name="quantize",
        targets=(graph.QUANTIZE,),
        runtime=Runtime(_check, _lower("quantize"), Layout.FREE),
    )
)
register(
    OpSpec(
        name="dequantize",
        targets=(graph.DEQUANTIZE,),
        runtime=Runtime(_check, _lower("dequantize"), Layout.FREE),
    )
)
