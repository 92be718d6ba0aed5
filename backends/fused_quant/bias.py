# SPDX-License-Identifier: BSD-3-Clause
"""Float biases become int32 codes of the accumulator, b = round(bias / (s_x * s_w[c])).

s_w[c] is the largest of the scales of a channel's weights. When it is so small that the bias would
not fit, those scales of the channel are enlarged until it does and its weights are rounded again:
next to such a bias they are tiny.
"""

from __future__ import annotations

import dataclasses

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph, numerics
from fused_quant.qparams import QParams
from fused_quant.reasons import Reason

# Half of int32 for the bias leaves the other half to the products.
_LARGEST_BIAS = 2.0**30


@dataclasses.dataclass(frozen=True)
class QuantizedBias:
    """Codes and parameters of a bias, and of the weight if its scales had to change."""

    codes: Node
    params: QParams
    weight: tuple[Node, QParams] | None = None


def quantize_bias(
    gm: GraphModule,
    node: Node,
    weight: Node | None,
    blocks: dict[str, QParams | None],
    axis: int = 0,
) -> QuantizedBias | Reason:
    """Quantize the constant float bias `node` of an operator with weight codes `weight`.

    axis: the weight's dimension of output channels. Rounds half to even in float64. Returns a
    reason when bias or weight are not constants or the other operands are not quantized.
    """
    value, x, w = graph.constant_of(gm, node), blocks.get("inp"), blocks.get("weight")
    if value is None:
        return Reason("constant", f"bias {node.name}", "computed", "a constant")
    if x is None or w is None or weight is None or not x.is_per_tensor:
        return Reason("float_input", "bias without quantized operands", "", "quantized operands")
    largest = w.largest_scales(axis)
    if largest.numel() not in (1, value.numel()):
        return Reason("granularity", "weight scale", str(tuple(w.scale.shape)), "per channel")
    if x.check("input") or w.check("weight") or not bool(torch.isfinite(value).all()):
        return Reason("scale", "bias or scales", "not finite or not > 0", "finite scales and bias")
    widened = _widened_weight(gm, weight, w, value, x.scale_value, axis)
    if isinstance(widened, Reason):
        return widened
    params = w if widened is None else widened[1]
    largest = params.largest_scales(axis)
    codes = numerics.quantize_bias(value, x.scale_value, largest.tolist())
    constant = graph.add_constant(gm, node.next, codes, "fused_quant_bias")
    constant.meta[graph.ORIGIN] = graph.origins(node)
    return QuantizedBias(constant, _bias_params(x.scale_value, largest), widened)


def _bias_params(s_x: float, scales: torch.Tensor) -> QParams:
    products = s_x * scales.double()
    info = torch.iinfo(torch.int32)
    return QParams(
        products.to(torch.float32),
        torch.zeros(products.numel(), dtype=torch.int64),
        torch.float32,
        info.min,
        info.max,
    )


def _widened_weight(
    gm: GraphModule,
    weight: Node,
    params: QParams,
    bias: torch.Tensor,
    s_x: float,
    axis: int,
) -> tuple[Node, QParams] | Reason | None:
    """New codes and scales if some bias would need more than 2^30 steps; None if all fit."""
    steps = bias.double().abs() / (s_x * params.largest_scales(axis).double())
    if not bool((steps > _LARGEST_BIAS).any()):
        return None
    codes = graph.constant_of(gm, weight)
    if codes is None:
        return Reason("constant", f"weight {weight.name}", "computed", "a constant")
    if codes.shape[axis] != bias.numel():  # groups of a transposed convolution share scales
        return Reason("overflow", "bias beyond int32", "grouped transposed", "one group")
    shape = [1] * codes.dim()
    shape[axis] = codes.shape[axis]
    needed = bias.double().abs() / (s_x * _LARGEST_BIAS)
    infinity = torch.tensor(torch.inf, dtype=torch.float32)
    rounded_up = torch.nextafter(needed.to(torch.float32), infinity).double()
    least = torch.where(steps > _LARGEST_BIAS, rounded_up, 0.0).reshape(shape)
    new = torch.maximum(params.scale.double(), least).to(torch.float32)
    rounded, recoded = params.recoded(codes, new)
    constant = graph.add_constant(gm, weight.next, rounded, "fused_quant_weight")
    constant.meta[graph.ORIGIN] = graph.origins(weight)
    return constant, recoded
