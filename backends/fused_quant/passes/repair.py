# SPDX-License-Identifier: BSD-3-Clause
"""Make convert_pt2e's output uniform.

Overloads instead of packets, one spelling of quantize and dequantize, fresh fake values, constants
of codes instead of quantized float constants, no normalization of batches behind quantized weights.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.passes.affine import is_affine, normalize_affine
from fused_quant.passes.fold_trained_norm import fold_trained_norm, forget_counter


def repair(gm: GraphModule) -> None:
    """Rewrite in place. Nodes keep their meaning; `meta["val"]` is set on every node."""
    for node in graph.calls(gm):
        if isinstance(node.target, torch._ops.OpOverloadPacket):
            node.target = node.target.default
    _name_origins(gm)
    _refresh(gm)
    for node in graph.calls(gm):
        normalize_affine(gm, node)
        _normalize_tensor_qparams(gm, node)
    for node in graph.calls(gm):
        _fold_quantized_constant(gm, node)
    for node in graph.calls(gm):
        fold_trained_norm(gm, node)
        forget_counter(gm, node)
    gm.graph.eliminate_dead_code()


def _name_origins(gm: GraphModule) -> None:
    for node in gm.graph.nodes:
        node.meta.setdefault(graph.ORIGIN, (node.name,))


def _refresh(gm: GraphModule) -> None:
    """Give every node a fake value; convert_pt2e leaves new nodes without one."""
    mode = graph.fake_mode_of(gm)
    if mode is None:
        raise ValueError("graph without traced values: pass the module of torch.export.export")
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            value = graph.fetch_attr(gm, str(node.target))
            if isinstance(value, torch.Tensor):
                node.meta["val"] = mode.from_tensor(value, static_shapes=True)
        elif node.op == "call_function" and all("val" in n.meta for n in node.all_input_nodes):
            # Without: a call of another delegate or a branch, which keeps the value it came with.
            with mode:
                graph.refresh_val(node)


def _normalize_tensor_qparams(gm: GraphModule, node: Node) -> None:
    """quantize_per_tensor.tensor with constant scale and zero point -> .default."""
    op = graph.op_of(node)
    if op not in (graph.QUANTIZE_TENSOR, graph.DEQUANTIZE_TENSOR):
        return
    bound = graph.bind(node)
    scale = graph.constant_of(gm, bound["scale"])
    zero = graph.constant_of(gm, bound["zero_point"])
    if scale is None or zero is None or scale.numel() != 1:
        return
    limits = (int(bound["quant_min"]), int(bound["quant_max"]))
    is_quantize = op == graph.QUANTIZE_TENSOR
    values = (float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0]))
    _replace(gm, node, is_quantize, bound["input"], *values, limits, bound["dtype"])


def _fold_quantized_constant(gm: GraphModule, node: Node) -> None:
    """Quantize of a constant -> a constant of codes, so weights never come back as floats."""
    quantizes = (graph.QUANTIZE, graph.QUANTIZE_CHANNEL)
    if graph.op_of(node) not in quantizes and not is_affine(node, quantize=True):
        return
    sources = node.all_input_nodes
    values = {source: graph.constant_of(gm, source) for source in sources}
    if any(value is None for value in values.values()):
        return
    args = torch.fx.map_arg(node.args, lambda n: values[n])
    kwargs = torch.fx.map_arg(node.kwargs, lambda n: values[n])
    codes = node.target(*args, **kwargs)  # type: ignore[operator]
    constant = graph.add_constant(gm, node, codes, "fused_quant_codes")
    names = [name for source in (*sources, node) for name in graph.origins(source)]
    constant.meta[graph.ORIGIN] = tuple(dict.fromkeys(names))
    node.replace_all_uses_with(constant)
    gm.graph.erase_node(node)


def _replace(
    gm: GraphModule,
    node: Node,
    is_quantize: bool,
    source: Node,
    scale: float,
    zero_point: int,
    limits: tuple[int, int],
    dtype: torch.dtype,
) -> None:
    target = graph.QUANTIZE if is_quantize else graph.DEQUANTIZE
    real = graph.val_of(node).dtype
    kwargs = {} if is_quantize or real == torch.float32 else {"out_dtype": real}
    new = graph.call(gm, node, target, (source, scale, zero_point, *limits, dtype), (node,), kwargs)
    node.replace_all_uses_with(new)
    gm.graph.erase_node(node)
