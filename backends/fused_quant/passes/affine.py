# SPDX-License-Identifier: BSD-3-Clause
"""torchao's `quantize_affine` and `dequantize_affine` as `quantized_decomposed` operators.

Per tensor and per channel only; scales in blocks have no such spelling, and `block_params` reads
them where they are.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.qparams import QParams


def is_affine(node: Any, quantize: bool) -> bool:
    """True for a call of torchao's quantize (or dequantize) with scales in blocks."""
    name = "quantize_affine" if quantize else "dequantize_affine"
    op = graph.op_of(node)
    return isinstance(op, torch._ops.OpOverload) and str(op) == f"torchao.{name}.default"


def normalize_affine(gm: GraphModule, node: Node) -> None:
    """Rewrite one node in place, if its scales are constants, one or one per channel."""
    is_quantize = is_affine(node, quantize=True)
    if not is_quantize and not is_affine(node, quantize=False):
        return
    params = block_params(gm, node)
    if params is None:
        return
    source = graph.bind(node)["input"]
    rest = (params.quant_min, params.quant_max, _stored(node))
    if params.is_per_tensor:
        grid: tuple[Any, ...] = (params.scale_value, params.zero_point_value)
        targets = (graph.QUANTIZE, graph.DEQUANTIZE)
    else:
        axis = params.channel_axis(tuple(graph.val_of(node).shape))
        if axis is None:
            return
        scales = graph.add_constant(gm, node, params.scale.reshape(-1), "fused_quant_qparam")
        zeros = graph.add_constant(gm, node, params.zero_point.reshape(-1), "fused_quant_qparam")
        grid = (scales, zeros, axis)
        targets = (graph.QUANTIZE_CHANNEL, graph.DEQUANTIZE_CHANNEL)
    other_type = not is_quantize and params.dtype != torch.float32
    kwargs = {"out_dtype": params.dtype} if other_type else {}
    target = targets[0 if is_quantize else 1]
    new = graph.call(gm, node, target, (source, *grid, *rest), (node,), kwargs)
    node.replace_all_uses_with(new)
    gm.graph.erase_node(node)


def _stored(node: Node) -> torch.dtype:
    bound = graph.bind(node)
    dtype: torch.dtype = bound["output_dtype" if is_affine(node, True) else "input_dtype"]
    return dtype


def block_params(gm: GraphModule, node: Node) -> QParams | None:
    """The parameters of an affine node; None if they are not constants or sizes are open.

    `dtype` is that of the result: what is stored of a quantize, the float type of a dequantize.
    """
    bound = graph.bind(node)
    scale = graph.constant_of(gm, bound["scale"])
    zero_point = graph.constant_of(gm, bound["zero_point"])
    if scale is None or (zero_point is None and bound["zero_point"] is not None):
        return None
    if not graph.is_static(node) or not all(isinstance(n, int) for n in bound["block_size"]):
        return None
    pairs = zip(graph.shape_of(node), bound["block_size"], strict=True)
    counts = [size // block if block else 1 for size, block in pairs]
    if math.prod(counts) != scale.numel():
        return None
    counts = counts if scale.numel() > 1 else [1]
    zeros = torch.zeros_like(scale) if zero_point is None else zero_point
    info = torch.iinfo(_stored(node))
    low, high = bound["quant_min"], bound["quant_max"]
    return QParams(
        scale.reshape(counts).contiguous(),
        zeros.to(torch.int64).reshape(counts).contiguous(),
        bound["output_dtype"],
        info.min if low is None else int(low),
        info.max if high is None else int(high),
    )
