# SPDX-License-Identifier: BSD-3-Clause
"""A block as nodes: codes -> reals, reals -> codes, in operators that ExecuTorch has kernels for.

Per tensor and per channel: the `quantized_decomposed` operators. In blocks: both are split into
blocks by a view and scaled by ordinary arithmetic, with `quantized_decomposed` at scale 1 for the
change of type.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.qparams import QParams

_aten = torch.ops.aten


class Edges:
    """Inserts nodes in front of `before`; they stand for the node `before`."""

    def __init__(self, gm: GraphModule, before: Node) -> None:
        self.gm, self.before = gm, before

    def dequantize(self, codes: Node, params: QParams) -> Node:
        """Scale * (code - zero_point) in `params.dtype`; codes of any integer type and shape.

        ValueError if the scales do not divide the shape.
        """
        dtype, limits = graph.val_of(codes).dtype, (params.quant_min, params.quant_max)
        out = {} if params.dtype == torch.float32 else {"out_dtype": params.dtype}
        if params.is_per_tensor:
            values = (params.scale_value, params.zero_point_value, *limits, dtype)
            return self._call(graph.DEQUANTIZE, (codes, *values), out)
        shape = graph.shape_of(codes)
        axis = params.channel_axis(shape)
        if axis is not None:
            scales, zeros = self._per_channel(params)
            return self._call(
                graph.DEQUANTIZE_CHANNEL, (codes, scales, zeros, axis, *limits, dtype), out
            )
        split, spread = _blocks(shape, params)
        whole = self._call(graph.DEQUANTIZE, (codes, 1.0, 0, *limits, dtype), out)
        value = self._call(_aten.view.default, (whole, split))
        if bool((params.zero_point != 0).any()):
            zeros = self._constant(params.zero_point, spread, params.dtype)
            value = self._call(_aten.sub.Tensor, (value, zeros))
        scale = self._constant(params.scale, spread, params.dtype)
        value = self._call(_aten.mul.Tensor, (value, scale))
        return self._call(_aten.view.default, (value, list(shape)))

    def quantize(self, value: Node, params: QParams) -> Node:
        """clamp(round_half_even(x / scale) + zero_point, quant_min, quant_max) as `params.dtype`.

        ValueError if the scales do not divide the shape.
        """
        rest = (params.quant_min, params.quant_max, params.dtype)
        if params.is_per_tensor:
            scale, zero = params.scale_value, params.zero_point_value
            return self._call(graph.QUANTIZE, (value, scale, zero, *rest))
        shape = graph.shape_of(value)
        axis = params.channel_axis(shape)
        if axis is not None:
            # ExecuTorch's kernel takes scales in float64 here, and in float32 to dequantize.
            scales, zeros = self._per_channel(params, torch.float64)
            return self._call(graph.QUANTIZE_CHANNEL, (value, scales, zeros, axis, *rest))
        dtype = graph.val_of(value).dtype
        split, spread = _blocks(shape, params)
        inverse = self._constant(1.0 / params.scale.double(), spread, dtype)
        steps = self._call(_aten.view.default, (value, split))
        steps = self._call(_aten.mul.Tensor, (steps, inverse))
        steps = self._call(_aten.round.default, (steps,))
        if bool((params.zero_point != 0).any()):
            zeros = self._constant(params.zero_point, spread, dtype)
            steps = self._call(_aten.add.Tensor, (steps, zeros))
        codes = self._call(graph.QUANTIZE, (steps, 1.0, 0, *rest))
        return self._call(_aten.view.default, (codes, list(shape)))

    def _per_channel(
        self, params: QParams, dtype: torch.dtype = torch.float32
    ) -> tuple[Node, Node]:
        scales = self._constant(params.scale, [-1], dtype)
        return scales, self._constant(params.zero_point, [-1], torch.int64)

    def _constant(self, value: torch.Tensor, shape: list[int], dtype: torch.dtype) -> Node:
        stored = value.to(dtype).reshape(shape).contiguous()
        return graph.add_constant(self.gm, self.before, stored, "fused_quant_qparam")

    def _call(
        self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> Node:
        return insert(self.gm, self.before, target, args, kwargs or {})


def _blocks(shape: tuple[int, ...], params: QParams) -> tuple[list[int], list[int]]:
    """The shape split into (blocks, block size) per dimension, and the scales' shape next to it."""
    counts = tuple(params.scale.shape)
    if len(counts) != len(shape) or any(n % c for n, c in zip(shape, counts, strict=True)):
        raise ValueError(
            f"scale of shape {counts} for a tensor of shape {shape}, supported: one element, or "
            "full rank with every size a divisor of the tensor's"
        )
    pairs = [(count, size // count) for size, count in zip(shape, counts, strict=True)]
    return [n for pair in pairs for n in pair], [n for count, _ in pairs for n in (count, 1)]


def insert(
    gm: GraphModule, before: Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Node:
    """A call in front of `before` with its fake value and the metadata of `before`."""
    with gm.graph.inserting_before(before):
        node = gm.graph.call_function(target, args, kwargs)
    mode = graph.fake_mode_of(gm)
    if mode is None:
        graph.refresh_val(node)
    else:
        with mode:
            graph.refresh_val(node)
    node.meta = {**before.meta, "val": node.meta["val"]}
    return node
