# SPDX-License-Identifier: BSD-3-Clause
"""Arithmetic with a Python number c as the second operand, which needs no quantization.

add, sub, rsub: T[q + 128] = clip(zo + RNE(f((q - zi) * si) / so)) in float64, with
f(x) = x + alpha * c, x - alpha * c, c - alpha * x.
mul, and div by its reciprocal: q = clamp(zo + R(sign(c) * (x - zi); M(si * |c| / so))).

c and alpha stand for the nearest float32 numbers, which are what PyTorch computes with.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from fused_quant import numerics, numerics_lut
from fused_quant.ops import rescaling, slopes, table
from fused_quant.ops.common import (
    check_ratio,
    check_wide_activations,
    float32,
    is_wide,
    parser,
    tensor,
)
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
    Runtime,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten
Function = Callable[[torch.Tensor, float, float], torch.Tensor]
# The tables' functions, in the order of their float64 operations.
_FUNCTIONS: dict[str, Function] = {
    "add": lambda x, c, k: x + k * c,
    "sub": lambda x, c, k: x - k * c,
    "rsub": lambda x, c, k: c - k * x,
}


def _second_is_number(node: Node) -> bool:
    return len(node.args) > 1 and isinstance(node.args[1], (int, float))


def _check_numbers(site: Site) -> Reason | None:
    for name, value in site.attributes.items():
        if not math.isfinite(value):
            return Reason("attribute", f"argument {name}", repr(value), "a finite number")
    return check_wide_activations(site, ["inp"])


def _check_sum(site: Site) -> Reason | None:
    return _check_numbers(site) or table.check(site, _function_of(site), bends=False)


def _function_of(site: Site) -> table.Function:
    function = _FUNCTIONS[site.spec.name]
    c, alpha = (float32(site.attributes[name]) for name in ("other", "alpha"))
    return lambda x: function(x, c, alpha)


def _sum_spec(name: str, targets: tuple[Any, ...]) -> OpSpec:
    overload = getattr(torch, name)

    def aten(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
        x = tensor(tensors, "inp")
        result: torch.Tensor = overload(x, attributes["other"], alpha=attributes["alpha"])
        return result

    def lower(site: Site, builder: Builder) -> None:
        table.lower_function(site, builder, _function_of(site))

    parse = parser({"inp": "self"}, {"other": float32, "alpha": float32})
    return OpSpec(
        name=name,
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("Scalar other", "float alpha=1.0"),
            anchors=dict.fromkeys(targets, parse),
            aten=aten,
            reference=table.reference(_function_of),
            covers=_check_sum,
            overload="Scalar",
        ),
        annotation=Annotation(targets),
        runtime=Runtime(rescaling.supported_with(_check_sum), lower, Layout.ANY),
    )


def _product_ratio(site: Site) -> float:
    scale = site.block("inp").scale_value
    return scale * abs(float32(site.attributes["other"])) / site.result.scale_value


def _covers_product(site: Site) -> Reason | None:
    return _check_numbers(site) or check_ratio(_product_ratio(site), "s_in * number / s_out")


def _product_of_codes(site: Site, codes: torch.Tensor) -> torch.Tensor:
    out = site.result
    centred = codes.to(torch.int64) - site.block("inp").zero_point_value
    return numerics.requantize(
        -centred if site.attributes["other"] < 0 else centred,
        numerics.multiplier_from_ratio(_product_ratio(site)),
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
        out.dtype,
    )


def _product_reference(site: Site, tensors: Tensors) -> torch.Tensor:
    return _product_of_codes(site, tensor(tensors, "inp"))


def _lower_product(site: Site, builder: Builder) -> None:
    """A requantize; with a negative number a table, since R(-v) is not -R(v) at a tie.

    An interpolated table would round twice; slopes of both sides of zero do not.
    """
    factor = float32(site.attributes["other"])
    if factor < 0 and is_wide(site):
        slopes.lower(site, builder, builder.common_order(), factor, [factor])
    elif factor < 0:
        table.lower(site, builder, _product_of_codes(site, numerics_lut.CODES))
    else:
        bounds = (site.result.quant_min, site.result.quant_max)
        rescaling.lower_ratio(site, builder, bounds, _product_ratio(site))


def _aten_product(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    result: torch.Tensor = tensor(tensors, "inp") * attributes["other"]
    return result


def _parse_quotient(node: Node) -> Call | Reason:
    call = parser({"inp": "self"}, {"other": float32})(node)
    if isinstance(call, Reason):
        return call
    divisor = call.attributes["other"]
    if divisor == 0:
        return Reason("attribute", "argument other", "0", "a divisor that is not 0")
    return dataclasses.replace(call, attributes={"other": float32(1.0 / divisor)})


_PRODUCTS = (_aten.mul.Scalar, _aten.mul_.Scalar)
_QUOTIENTS = (_aten.div.Scalar, _aten.div_.Scalar)
_anchors: dict[Any, Parser] = {
    **dict.fromkeys(_PRODUCTS, parser({"inp": "self"}, {"other": float32})),
    **dict.fromkeys(_QUOTIENTS, _parse_quotient),
}
register(
    OpSpec(
        name="mul",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("Scalar other",),
            anchors=_anchors,
            aten=_aten_product,
            reference=_product_reference,
            covers=_covers_product,
            overload="Scalar",
        ),
        annotation=Annotation(
            (*_anchors, _aten.div.Tensor, _aten.div_.Tensor), condition=_second_is_number
        ),
        runtime=Runtime(rescaling.supported_with(_covers_product), _lower_product, Layout.ANY),
    )
)
register(_sum_spec("add", (_aten.add.Scalar, _aten.add_.Scalar)))
register(_sum_spec("sub", (_aten.sub.Scalar, _aten.sub_.Scalar)))
register(_sum_spec("rsub", (_aten.rsub.Scalar,)))
