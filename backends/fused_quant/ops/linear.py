# SPDX-License-Identifier: BSD-3-Clause
"""linear on inputs of any rank; leading dimensions are rows.

acc = bias[n] + sum_k((x - zp_x) * w[n, k]); q = clamp(zp_out + R(acc; M(s_x * s_w[n] / s_out))).
Weights of 4 bits, and in groups: see `narrow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F

from fused_quant import numerics
from fused_quant.ops import dot, narrow
from fused_quant.ops.common import parser, tensor
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    Fusion,
    Layout,
    Operand,
    OpSpec,
    Role,
    Runtime,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten


def _aten_linear(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    x, weight = tensor(tensors, "inp"), tensor(tensors, "weight")
    return F.linear(x, weight, tensors["bias"])


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    x, weight = tensor(tensors, "inp"), tensor(tensors, "weight")
    zero_point = site.block("inp").zero_point_value
    if narrow.group_size(site):
        rows = x.reshape(-1, x.shape[-1])
        codes = narrow.result(
            site, rows, tensors["bias"], 1, lambda x, w: numerics.linear(x, w, None, zero_point)
        )
        return codes.reshape(*x.shape[:-1], len(weight))
    acc = numerics.linear(x, weight, tensors["bias"], zero_point)
    return dot.result(site, acc, axis=-1)


def _supported(site: Site, target: Target) -> Reason | None:
    if not site.shapes["inp"]:
        return Reason("rank", "input rank", "0", "1 or more")
    return dot.supported(site, target) or narrow.check_groups(site)


def _lower(site: Site, builder: Builder) -> None:
    weight = site.constants["weight"]
    out = builder.result(builder.LOGICAL)
    packed = narrow.is_packed(site)
    dtype, params = "s4" if packed else "s8", dot.stored_weight_params(site, axis=0)
    inputs = [
        builder.operand("inp", builder.LOGICAL),
        builder.constant("weight", weight.numpy(), dtype, params),
        dot.store_bias(site, builder),
    ]
    macs = int(np.prod(site.out_shape)) * weight.shape[1]
    filled = dot.params(site, builder)
    if packed:
        scratch = weight.shape[1]
        builder.emit("linear_w4", inputs, [out], filled, macs=macs, scratch_bytes=scratch)
    else:
        builder.emit("linear", inputs, [out], filled, macs=macs)


register(
    OpSpec(
        name="linear",
        fusion=Fusion(
            operands=(
                Operand("inp"),
                Operand("weight", Role.WEIGHT),
                Operand("bias", Role.BIAS, optional=True),
            ),
            attributes=(),
            anchors={
                _aten.linear.default: parser({"inp": "input", "weight": "weight", "bias": "bias"})
            },
            aten=_aten_linear,
            reference=_reference,
            covers=dot.covers,
            real_result=True,
        ),
        annotation=Annotation((_aten.linear.default,), weights=("weight",)),
        runtime=Runtime(_supported, _lower, Layout.FREE),
    )
)
