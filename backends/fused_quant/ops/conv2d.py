# SPDX-License-Identifier: BSD-3-Clause
"""conv2d: regular, grouped and depthwise, with symmetric or per-side padding.

acc = bias[c] + sum((x - zp_x) * w), a padded tap contributes 0;
q = clamp(zp_out + R(acc; M(s_x * s_w[c] / s_out))).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch.fx import Node

from fused_quant import graph, numerics
from fused_quant.ops import dot, narrow
from fused_quant.ops.common import check_window, pair, tensor
from fused_quant.ops.convolving import Geometry, lower_convolution
from fused_quant.ops.padding import zero_padding
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    Call,
    Fusion,
    Layout,
    Operand,
    OpSpec,
    Parser,
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
_OPERANDS = (
    Operand("inp"),
    Operand("weight", Role.WEIGHT),
    Operand("bias", Role.BIAS, optional=True),
)


def _same_padding(node: Node, kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Torch's "same": the odd element of the total goes to the bottom and right."""
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    (top, left), (bottom, right) = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return [top, bottom, left, right]


def _with_outer_padding(node: Node, call: Call) -> Call:
    """Take in a zero padding in front of the convolution."""
    inp = call.operands["inp"]
    outer = zero_padding(inp)
    if inp is None or outer is None or len(inp.users) != 1:
        return call
    padded = [a + b for a, b in zip(call.attributes["padding"], outer, strict=True)]
    operands = {**call.operands, "inp": graph.bind(inp)["self"]}
    return Call(operands, {**call.attributes, "padding": padded}, (*call.absorbed, inp))


def _call(node: Node, bound: dict[str, Any]) -> Call | Reason:
    if len(graph.shape_of(node)) != 4:
        return Reason(
            "rank", "convolution of another rank", str(graph.shape_of(node)), "[N, C, H, W]"
        )
    kernel = graph.shape_of(bound["weight"])[2:]
    dilation = pair(bound["dilation"])
    padding = bound["padding"]
    if padding == "valid":
        sides = [0, 0, 0, 0]
    elif padding == "same":
        sides = _same_padding(node, kernel, dilation)
    else:
        height, width = pair(padding)
        sides = [height, height, width, width]
    attributes = {
        "stride": list(pair(bound["stride"])),
        "padding": sides,
        "dilation": list(dilation),
        "groups": bound["groups"],
    }
    operands = {"inp": bound["input"], "weight": bound["weight"], "bias": bound["bias"]}
    return _with_outer_padding(node, Call(operands, attributes))


def _parse_conv2d(node: Node) -> Call | Reason:
    return _call(node, graph.bind(node))


def _parse_convolution(node: Node) -> Call | Reason:
    bound = graph.bind(node)
    if bound["transposed"]:
        return Reason("attribute", "argument transposed", "True", "False")
    if any(bound["output_padding"]):
        return Reason("attribute", "argument output_padding", str(bound["output_padding"]), "0")
    return _call(node, bound)


def _symmetric(attributes: Attributes) -> bool:
    top, bottom, left, right = attributes["padding"]
    return bool(top == bottom and left == right)


def _only(symmetric: bool, parse: Parser) -> Parser:
    """Split calls between the two overloads: `padding` of two numbers, or of four."""

    def parse_overload(node: Node) -> Call | Reason:
        call = parse(node)
        if isinstance(call, Reason):
            return call
        if _symmetric(call.attributes) != symmetric:
            return Reason("overload", "handled by the other overload of conv2d")
        if symmetric:
            top, _, left, _ = call.attributes["padding"]
            return Call(call.operands, {**call.attributes, "padding": [top, left]}, call.absorbed)
        return call

    return parse_overload


def _sides(attributes: Attributes) -> tuple[int, int, int, int]:
    """(top, left, bottom, right)."""
    padding = list(attributes["padding"])
    if len(padding) == 4:
        top, bottom, left, right = padding
        return top, left, bottom, right
    top, left = pair(padding)
    return top, left, top, left


def _aten_conv(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    top, left, bottom, right = _sides(attributes)
    x, weight = tensor(tensors, "inp"), tensor(tensors, "weight")
    stride, dilation = pair(attributes["stride"]), pair(attributes["dilation"])
    groups = attributes["groups"]
    if (top, left) == (bottom, right):
        return F.conv2d(x, weight, tensors["bias"], stride, (top, left), dilation, groups)
    padded = F.pad(x, [left, right, top, bottom])
    return F.conv2d(padded, weight, tensors["bias"], stride, 0, dilation, groups)


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    x, weight = tensor(tensors, "inp"), tensor(tensors, "weight")
    attributes, groups = site.attributes, site.attributes["groups"]
    stride, dilation = pair(attributes["stride"]), pair(attributes["dilation"])
    zero_point, sides = site.block("inp").zero_point_value, _sides(attributes)

    def accumulate(
        x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        return numerics.conv2d(x, w, bias, zero_point, stride, sides, dilation, groups)

    if narrow.group_size(site):
        return narrow.result(site, x, tensors["bias"], groups, accumulate)
    acc = accumulate(x, weight, tensors["bias"])
    return dot.result(site, acc, axis=1)


def _supported(site: Site, target: Target) -> Reason | None:
    attributes = site.attributes
    window = check_window(
        site,
        target,
        site.shapes["weight"][2:],
        attributes["stride"],
        attributes["padding"],
        dilation=attributes["dilation"],
    )
    return window or dot.supported(site, target) or narrow.check_groups(site)


def _lower(site: Site, builder: Builder) -> None:
    attributes = site.attributes
    top, left, bottom, right = _sides(attributes)
    geometry = Geometry(
        pair(attributes["stride"]),
        pair(attributes["dilation"]),
        (top, bottom, left, right),
        attributes["groups"],
    )
    lower_convolution(site, builder, geometry)


def _spec(overload: str, symmetric: bool) -> OpSpec:
    spellings = {
        _aten.conv2d.default: _parse_conv2d,
        _aten.conv2d.padding: _parse_conv2d,
        _aten.convolution.default: _parse_convolution,
    }
    return OpSpec(
        name="conv2d",
        fusion=Fusion(
            operands=_OPERANDS,
            attributes=("int[] stride", "int[] padding", "int[] dilation", "int groups"),
            anchors={target: _only(symmetric, parse) for target, parse in spellings.items()},
            aten=_aten_conv,
            reference=_reference,
            covers=dot.covers,
            overload=overload,
            real_result=True,
        ),
        annotation=Annotation(tuple(spellings)) if symmetric else None,
        runtime=Runtime(_supported, _lower, Layout.CHANNELS_LAST),
    )


register(_spec("", symmetric=True))
register(_spec("sides", symmetric=False))
