# SPDX-License-Identifier: BSD-3-Clause
"""conv1d and conv3d, and `convolution`, which covers every rank and the transposed ones.

acc = bias[c] + sum((x - zp_x) * w), a padded tap contributes 0;
q = clamp(zp_out + R(acc; M(s_x * s_w[c] / s_out))).
The `sides` overloads have a padding of two numbers per dimension: before and after.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch.fx import Node

from fused_quant import graph, numerics_conv
from fused_quant.ops import dot, narrow
from fused_quant.ops.common import check_rank, check_window, tensor
from fused_quant.ops.convolving import Geometry, lower_convolution, lower_transposed
from fused_quant.ops.padding import PADS
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
_NAMES = {"inp": "input", "weight": "weight", "bias": "bias"}


def _spread(value: int | Sequence[int], rank: int) -> list[int]:
    """One number per spatial dimension, out of one or all of them."""
    values = [value] if isinstance(value, int) else list(value)
    return values * rank if len(values) == 1 else values


def _padding_sides(padding: Any, kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """(before, after) of every dimension; torch's "same" puts the odd element behind."""
    if padding == "valid":
        return [0] * (2 * len(kernel))
    if padding == "same":
        totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return [side for total in totals for side in (total // 2, total - total // 2)]
    return [side for amount in _spread(padding, len(kernel)) for side in (amount, amount)]


def _outer_sides(node: Any, rank: int) -> list[int] | None:
    """The sides of a zero padding of spatial dimensions that only the convolution reads."""
    if graph.op_of(node) not in PADS or len(node.users) != 1:
        return None
    bound = graph.bind(node)
    amounts = list(bound["pad"])
    if bound.get("mode", "constant") != "constant" or bound["value"] not in (None, 0, 0.0):
        return None
    if len(amounts) > 2 * rank or any(not isinstance(a, int) or a < 0 for a in amounts):
        return None
    amounts += [0] * (2 * rank - len(amounts))
    pairs = [amounts[i : i + 2] for i in range(0, 2 * rank, 2)]  # last dimension first
    return [side for pair in reversed(pairs) for side in pair]


def _parse_ordinary(rank: int, symmetric: bool) -> Parser:
    """Calls of `rank` spatial dimensions, not transposed; of one kind of padding."""

    def parse(node: Node) -> Call | Reason:
        bound = graph.bind(node)
        if bound.get("transposed", False):
            return Reason("attribute", "argument transposed", "True", "False")
        if any(bound.get("output_padding", ())):
            return Reason("attribute", "argument output_padding", str(bound["output_padding"]), "0")
        shape = graph.shape_of(bound["weight"])
        if len(shape) != rank + 2 or len(graph.shape_of(node)) != rank + 2:
            got = str(graph.shape_of(node))
            return Reason("rank", "convolution of another rank", got, f"rank {rank + 2}")
        dilation = _spread(bound["dilation"], rank)
        sides = _padding_sides(bound["padding"], shape[2:], dilation)
        operands = {name: bound[argument] for name, argument in _NAMES.items()}
        absorbed: tuple[Node, ...] = ()
        outer = _outer_sides(bound["input"], rank)
        if outer is not None:
            sides = [a + b for a, b in zip(sides, outer, strict=True)]
            operands["inp"] = graph.bind(bound["input"])["self"]
            absorbed = (bound["input"],)
        if (sides[::2] == sides[1::2]) != symmetric:
            return Reason("overload", "handled by the other overload")
        attributes = {
            "stride": _spread(bound["stride"], rank),
            "padding": sides[::2] if symmetric else sides,
            "dilation": dilation,
            "groups": bound["groups"],
        }
        return Call(operands, attributes, absorbed)

    return parse


def _parse_transposed(node: Node) -> Call | Reason:
    bound = graph.bind(node)
    if not bound.get("transposed", True):
        return Reason("overload", "an ordinary convolution")
    rank = len(graph.shape_of(bound["weight"])) - 2
    if len(graph.shape_of(node)) != rank + 2:
        return Reason("rank", "convolution without a batch", str(graph.shape_of(node)), "a batch")
    lists = ("stride", "padding", "dilation", "output_padding")
    values = {name: _spread(bound[name], rank) for name in lists}
    attributes = {
        "stride": values["stride"],
        "padding": values["padding"],
        "dilation": values["dilation"],
        "transposed": True,
        "output_padding": values["output_padding"],
        "groups": bound["groups"],
    }
    return Call({name: bound[argument] for name, argument in _NAMES.items()}, attributes)


def _is_transposed(attributes: Attributes) -> bool:
    return bool(attributes.get("transposed", False))


def _sides(shape: Sequence[int], attributes: Attributes) -> list[int]:
    """(before, after) of every spatial dimension of an input of that shape."""
    rank = len(shape) - 2
    padding = _spread(attributes["padding"], rank)
    return padding if len(padding) == 2 * rank else [p for p in padding for _ in (0, 1)]


def _by_output_channel(site: Site) -> Site:
    """The site with the weight as an ordinary convolution has it: output channels first."""
    if not _is_transposed(site.attributes) or len(site.shapes["weight"]) < 2:
        return site
    groups, block = site.attributes["groups"], site.block("weight")
    if not block.is_per_tensor:
        scale, zero = block.scale, block.zero_point
        if scale.dim() != len(site.shapes["weight"]) or scale.shape[0] != 1:
            return site  # per input channel: refused by its shape
        repeats = [groups] + [1] * (scale.dim() - 1)
        block = dataclasses.replace(
            block,
            scale=scale.transpose(0, 1).repeat(repeats),
            zero_point=zero.transpose(0, 1).repeat(repeats),
        )
    constants = dict(site.constants)
    shape = list(site.shapes["weight"])
    shape[:2] = [groups * shape[1], shape[0] // groups]
    if "weight" in constants:
        constants["weight"] = numerics_conv.canonical_weight(constants["weight"], groups)
    return dataclasses.replace(
        site,
        shapes={**site.shapes, "weight": tuple(shape)},
        qparams={**site.qparams, "weight": block},
        constants=constants,
    )


def _covers(site: Site) -> Reason | None:
    if len(site.shapes["inp"]) != len(site.shapes["weight"]) or len(site.shapes["inp"]) < 3:
        return Reason("rank", "input rank", str(len(site.shapes["inp"])), "[N, C, spatial...]")
    if _is_transposed(site.attributes):
        weight = site.block("weight")
        if not weight.is_per_tensor and weight.channel_axis(site.shapes["weight"]) != 1:
            got = f"scale of shape {tuple(weight.scale.shape)}"
            return Reason("granularity", "weight", got, "per tensor or per output channel (axis 1)")
    return dot.covers(_by_output_channel(site))


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    attributes = site.attributes
    x, weight, bias = tensor(tensors, "inp"), tensor(tensors, "weight"), tensors["bias"]
    zero_point, groups = site.block("inp").zero_point_value, attributes["groups"]
    stride, dilation = attributes["stride"], attributes["dilation"]
    if _is_transposed(attributes):
        padding, out_padding = attributes["padding"], attributes["output_padding"]
        acc = numerics_conv.accumulate_transposed(
            x, weight, bias, zero_point, stride, padding, dilation, out_padding, groups
        )
    else:
        sides = _sides(x.shape, attributes)
        geometry = (zero_point, stride, sides, dilation, groups)
        if narrow.group_size(site):
            return narrow.result(
                site, x, bias, groups, lambda x, w: numerics_conv.accumulate(x, w, None, *geometry)
            )
        acc = numerics_conv.accumulate(x, weight, bias, *geometry)
    return dot.result(_by_output_channel(site), acc, axis=1)


def _aten_convolution(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    x, weight, bias = tensor(tensors, "inp"), tensor(tensors, "weight"), tensors["bias"]
    stride, dilation, groups = (attributes[n] for n in ("stride", "dilation", "groups"))
    padding = list(attributes["padding"])
    none = [0] * len(stride)
    if not _is_transposed(attributes):
        sides = _sides(x.shape, attributes)
        padding = sides[::2]
        if sides[1::2] != padding:
            pairs = [sides[i : i + 2] for i in range(0, len(sides), 2)]
            x, padding = F.pad(x, [side for pair in reversed(pairs) for side in pair]), none
    return torch.convolution(
        x,
        weight,
        bias,
        stride,
        padding,
        dilation,
        _is_transposed(attributes),
        attributes.get("output_padding", none),
        groups,
    )


def _supported(site: Site, target: Target) -> Reason | None:
    rank, attributes = len(site.out_shape), site.attributes
    if _is_transposed(attributes) and rank > 4:
        return Reason("rank", "transposed convolution", f"rank {rank}", "at most 4: [N, C, H, W]")
    sizes = ("stride", "padding", *(("output_padding",) if _is_transposed(attributes) else ()))
    window = check_window(
        site,
        target,
        site.shapes["weight"][2:],
        *(attributes[name] for name in sizes),
        dilation=attributes["dilation"],
    )
    reason = window or check_rank(site, target) or _covers(site)
    can_pack = rank < 5 and not _is_transposed(attributes)
    return reason or narrow.check_groups(_by_output_channel(site), can_pack)


def _lower(site: Site, builder: Builder) -> None:
    attributes = site.attributes
    geometry = Geometry(
        attributes["stride"],
        attributes["dilation"],
        _sides(site.shapes["inp"], attributes),
        attributes["groups"],
        attributes.get("output_padding", ()),
    )
    if _is_transposed(attributes):
        lower_transposed(_by_output_channel(site), builder, geometry)
    else:
        lower_convolution(site, builder, geometry)


def _register(
    name: str,
    anchors: dict[Any, Parser],
    further: tuple[str, ...] = (),
    overload: str = "",
    targets: tuple[Any, ...] = (),
) -> None:
    annotation = Annotation(targets, activations=("input",), weights=("weight",))
    register(
        OpSpec(
            name=name,
            fusion=Fusion(
                operands=_OPERANDS,
                attributes=(
                    "int[] stride",
                    "int[] padding",
                    "int[] dilation",
                    *further,
                    "int groups",
                ),
                anchors=anchors,
                aten=_aten_convolution,
                reference=_reference,
                covers=_covers,
                overload=overload,
                real_result=True,
                channel_axis=lambda attributes: int(_is_transposed(attributes)),
            ),
            annotation=annotation if targets else None,
            runtime=Runtime(_supported, _lower, Layout.CHANNELS_LAST),
        )
    )


for _rank in (1, 3):
    _name = f"conv{_rank}d"
    _packet = getattr(_aten, _name)
    _spellings = (_packet.default, _packet.padding)
    for _overload in ("", "sides"):
        _parse = _parse_ordinary(_rank, symmetric=not _overload)
        _register(
            _name,
            dict.fromkeys((*_spellings, _aten.convolution.default), _parse),
            overload=_overload,
            targets=_spellings if not _overload else (),
        )
_TRANSPOSED = (
    _aten.conv_transpose1d.default,
    _aten.conv_transpose2d.input,
    _aten.conv_transpose3d.input,
)
_register(
    "convolution",
    dict.fromkeys((*_TRANSPOSED, _aten.convolution.default), _parse_transposed),
    ("bool transposed", "int[] output_padding"),
    targets=_TRANSPOSED,
)
