# SPDX-License-Identifier: BSD-3-Clause
"""add of a float result and a dequantized tensor, in int16: a sum whose one operand has no grid.

    q(dq(x) + y)  ->  requantize16(x) + quantize16(y), requantized to the grid of q

y is the float result of a convolution or a matrix product that nothing else reads (the x86
quantizer leaves it so). All of int16 has one scale s = s_x * 2^k, the smallest that holds every sum
that the result's codes can tell apart: 32767 * s >= max|result| + max|x|. So nothing saturates that
would not have saturated in q, x is on the grid exactly if k <= 0, and the sum is exact. What is
left is the rounding of y, at most s / 2, and of x where k > 0: at most 1 code from the float graph,
near ties.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph, numerics
from fused_quant.ops import activation
from fused_quant.ops.boundary import params_of
from fused_quant.passes.blocks import fused_spec
from fused_quant.qparams import QParams

_aten = torch.ops.aten
_SUMS = (_aten.add.Tensor, _aten.add_.Tensor)
_BYTES = (torch.int8, torch.uint8)
_LIMIT = 32767
_FINEST = 4  # s is at most this part of the result's scale


def close_float_sums(gm: GraphModule, owned: Callable[[Node], bool] | None) -> list[Node]:
    """Rewrite such sums of a folded graph in place; the adds, ready to be folded."""
    closed = []
    for node in graph.calls(gm):
        if graph.op_of(node) in _SUMS and (owned is None or owned(node)):
            read = _read(node)
            if read is not None:
                closed.append(_close(gm, node, *read))
    return closed


def _read(node: Node) -> tuple[Node, Node, list[Node], float] | None:
    """(dequantize, float result, quantizes and what is in front of them, scale of int16)."""
    bound = graph.bind(node)
    pair = (bound["self"], bound["other"])
    source, product = pair if graph.op_of(pair[0]) == graph.DEQUANTIZE else pair[::-1]
    if bound["alpha"] != 1 or graph.op_of(source) != graph.DEQUANTIZE or not _is_product(product):
        return None
    tail, users = [node], list(node.users)
    if len(users) == 1 and activation.real_range(users[0]) is not None:
        tail.append(users[0])
        users = list(users[0].users)
    if not users or any(graph.op_of(user) != graph.QUANTIZE for user in users):
        return None
    x, results = params_of(source), list(map(params_of, users))
    if x.dtype not in _BYTES or any(p.dtype not in _BYTES for p in results):
        return None
    if any(p.check("") is not None for p in (x, *results)):
        return None
    scale = _scale(x, results)
    return None if scale is None else (source, product, tail, scale)


def _is_product(node: object) -> bool:
    """True for a folded operator with a float result that one node reads."""
    if not isinstance(node, Node) or len(node.users) != 1:
        return False
    spec = fused_spec(node)
    if spec is None or spec.fusion is None or not spec.fusion.real_result:
        return False
    return bool(graph.val_of(node).dtype == torch.float32)


def _largest(params: QParams) -> float:
    zero = params.zero_point_value
    return params.scale_value * max(abs(params.quant_min - zero), abs(params.quant_max - zero))


def _scale(x: QParams, results: list[QParams]) -> float | None:
    """The scale of int16, or None if it would be too coarse for the result."""
    reach = (max(map(_largest, results)) + _largest(x)) / _LIMIT
    scale = math.ldexp(x.scale_value, math.ceil(math.log2(reach / x.scale_value)))
    fine = scale * _FINEST <= min(p.scale_value for p in results)
    return scale if fine and numerics.is_float32_scale(scale) else None


def _close(
    gm: GraphModule, node: Node, source: Node, product: Node, tail: list[Node], scale: float
) -> Node:
    grid = (scale, 0, -_LIMIT - 1, _LIMIT, torch.int16)

    def rounded(value: Node, before: Node, like: tuple[Node, ...]) -> Node:
        codes = graph.call(gm, before, graph.QUANTIZE, (value, *grid), like)
        return graph.call(gm, before, graph.DEQUANTIZE, (codes, *grid), like)

    # The origins of the product tie it to the sum: a partition has both or neither.
    operands = [rounded(value, node, (value, node)) for value in (source, product)]
    total = graph.call(gm, node, _aten.add.Tensor, tuple(operands), tuple(tail))
    result = rounded(total, node, tuple(tail))
    for quantize in list(tail[-1].users):
        low, high = _bounds(tail, params_of(quantize))
        _, s, zero_point, _, _, dtype = quantize.args
        quantize.args = (result, s, zero_point, low, high, dtype)
        names = (*graph.origins(quantize), *(n for t in tail for n in graph.origins(t)))
        quantize.meta[graph.ORIGIN] = tuple(dict.fromkeys(names))
    for dead in reversed(tail):
        gm.graph.erase_node(dead)
    return total


def _bounds(tail: list[Node], out: QParams) -> tuple[int, int]:
    """Codes that a clamping activation in front of a quantize leaves."""
    real = activation.real_range(tail[-1])
    if real is None:
        return out.quant_min, out.quant_max
    return numerics.activation_bounds(
        out.quant_min, out.quant_max, out.scale_value, out.zero_point_value, *real
    )
