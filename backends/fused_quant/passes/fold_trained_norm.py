# SPDX-License-Identifier: BSD-3-Clause
"""A batch normalization behind quantized weights goes into their scales; the codes stay.

    w = s[c] * q;   g = gamma / sqrt(var + eps);   s'[c] = s[c] * abs(g[c]);   q' = q * sign(g[c])

and b' = (b - mean) * g + beta. Networks that were trained with fake quantization have such a
normalization: torchao folds it into convolutions of one and two dimensions, and into nothing else.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.passes.constant_cone import constant_value
from fused_quant.passes.fold_batch_norm import Norm, channel_axis, norm_of

_aten = torch.ops.aten


def fold_trained_norm(gm: GraphModule, node: Node) -> None:
    """Fold one, in place, if it is behind a weighted operator with symmetric constant codes."""
    norm = norm_of(gm, node)
    if norm is None or graph.op_of(norm.source) is None or len(norm.source.users) != 1:
        return
    axis = channel_axis(norm.source)
    if axis is None:
        return
    bound: dict[str, Any] = graph.bind(norm.source)
    bias = _bias(gm, bound["bias"])
    weight = _scaled(gm, norm, bound["weight"], axis)
    if weight is None or bias is None:
        return
    shifted = (bias * norm.scale + norm.shift).to(torch.float32)
    bound["weight"] = weight
    bound["bias"] = graph.add_constant(gm, norm.source, shifted, "folded_bias")
    norm.source.args, norm.source.kwargs = tuple(bound.values()), {}
    norm.result.replace_all_uses_with(norm.source)


def forget_counter(gm: GraphModule, node: Node) -> None:
    """Erase the count of batches that a normalization has seen: nothing reads it."""
    if graph.op_of(node) != _aten.add_.Tensor or node.users:
        return
    counter = node.args[0]
    if not isinstance(counter, Node) or counter.op != "get_attr" or len(counter.users) != 1:
        return
    if str(counter.target).endswith("num_batches_tracked"):
        gm.graph.erase_node(node)


def _bias(gm: GraphModule, bias: Node | None) -> Tensor | float | None:
    """Its value in float64, 0 for none; None if it is not known."""
    if bias is None:
        return 0.0
    if graph.op_of(bias) in (graph.DEQUANTIZE, graph.DEQUANTIZE_CHANNEL):
        codes = graph.constant_of(gm, bias.args[0])
        if codes is None:
            return None
        args = torch.fx.map_arg(bias.args, lambda n: graph.constant_of(gm, n))
        value: Tensor | None = bias.target(*args, **bias.kwargs)  # type: ignore[operator]
    else:
        value = constant_value(gm, bias)
    return None if value is None else value.double()


def _scaled(gm: GraphModule, norm: Norm, weight: Node, axis: int) -> Node | None:
    """The dequantize of the weight with scales and codes of its own; None for another form."""
    op = graph.op_of(weight)
    if op not in (graph.DEQUANTIZE, graph.DEQUANTIZE_CHANNEL):
        return None
    bound = graph.bind(weight)
    codes = graph.constant_of(gm, bound["input"])
    if codes is None:
        return None
    if op == graph.DEQUANTIZE:
        scales, zero_points = torch.tensor([bound["scale"]]), torch.tensor([bound["zero_point"]])
    else:
        given = graph.constant_of(gm, bound["scales"])
        zeros = graph.constant_of(gm, bound["zero_points"])
        if bound["axis"] != axis or given is None or zeros is None:
            return None
        scales, zero_points = given, zeros
    if bool(zero_points.any()) or int(codes.min()) == -128:
        return None
    shape = [1] * codes.dim()
    shape[axis] = -1
    signs = norm.scale.sign().to(codes.dtype)
    turned = (codes * signs.reshape(shape)).contiguous()
    # A channel of zeros keeps a scale: 0 is none.
    wanted = torch.where(signs == 0, scales.double(), scales.double() * norm.scale.abs())
    values = (
        graph.add_constant(gm, norm.source, turned, "folded_codes"),
        graph.add_constant(gm, norm.source, wanted.to(torch.float32), "folded_scales"),
        graph.add_constant(gm, norm.source, torch.zeros_like(wanted, dtype=torch.int64), "zeros"),
    )
    limits = (bound["quant_min"], bound["quant_max"], bound["dtype"])
    arguments = (*values, axis, *limits)
    return graph.call(gm, norm.source, graph.DEQUANTIZE_CHANNEL, arguments, (weight,))
