# SPDX-License-Identifier: BSD-3-Clause
"""What softmax, log_softmax and the norms share: params, and affine parameters as integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from fused_quant import numerics, numerics_norm
from fused_quant.layout import Order
from fused_quant.ops.common import check_int8_activations, check_ratio
from fused_quant.ops.spec import Site
from fused_quant.reasons import Reason

if TYPE_CHECKING:
    from fused_quant.lowering import Builder


def params(site: Site, builder: Builder, multiplier: numerics.Multiplier) -> Any:
    """NormalizeParams with the output's fields."""
    filled, out = builder.schema.NormalizeParamsT(), site.result
    filled.sizes, filled.axes, filled.affineAxes = [], [], []
    filled.outputMultiplier, filled.outputShift = multiplier.multiplier, multiplier.shift
    filled.outputZeroPoint = out.zero_point_value
    filled.clampMin, filled.clampMax = out.quant_min, out.quant_max
    return filled


def softmax_axis(site: Site) -> int:
    """The axis of a softmax, not negative."""
    return int(site.attributes["dim"]) % len(site.shapes["inp"])


def check_softmax(site: Site) -> Reason | None:
    """A reason why no integer contract defines a softmax or log_softmax of this input."""
    reason = check_int8_activations(site, ["inp"])
    if reason is not None:
        return reason
    rank, axis = len(site.shapes["inp"]), site.attributes["dim"]
    if not -rank <= axis < rank:
        return Reason("rank", f"input rank with dim={axis}", str(rank), "a dimension of the input")
    count = site.shapes["inp"][softmax_axis(site)]
    if not 0 < count <= numerics_norm.MAX_SOFTMAX_ELEMENTS:
        limit = f"1 to {numerics_norm.MAX_SOFTMAX_ELEMENTS}"
        return Reason("overflow", f"elements of a {site.spec.name}", str(count), limit)
    return None


def emit_softmax(
    site: Site, builder: Builder, opcode: str, filled: Any, tables: dict[str, tuple[Any, str]]
) -> None:
    """Emit a step along one axis, whatever the stored order. tables: name -> (values, dtype)."""
    order = builder.order_of("inp")
    filled.axes = [order.index(softmax_axis(site))]
    constants = [builder.constant(name, *table) for name, table in tables.items()]
    inputs = [builder.operand("inp", order), *constants]
    builder.emit(opcode, inputs, [builder.result(order)], filled)


def constant(site: Site, name: str) -> torch.Tensor | None:
    """The value of weight or bias as a vector, or None if there is none."""
    value = site.attributes.get(name)
    return value.detach().reshape(-1) if isinstance(value, torch.Tensor) else None


def check_norm(site: Site, count: int) -> Reason | None:
    """A reason why the integer contract does not define a norm over `count` elements."""
    reason = check_int8_activations(site, ["inp"])
    if reason is not None:
        return reason
    for name in ("weight", "bias"):
        value = site.attributes.get(name)
        if value is None:
            continue
        if not isinstance(value, torch.Tensor):
            return Reason("constant", name, "computed", "a constant")
        if not bool(torch.isfinite(value).all()):
            return Reason("constant", name, "not finite", "finite numbers")
    eps = site.attributes["eps"]
    if not 0 < count <= numerics_norm.MAX_NORM_ELEMENTS:
        limit = f"1 to {numerics_norm.MAX_NORM_ELEMENTS}"
        return Reason("size", f"elements of a {site.spec.name}", str(count), limit)
    if not (isinstance(eps, float) and math.isfinite(eps) and eps >= 0):
        return Reason("attribute", "argument eps", repr(eps), "finite and not negative")
    _, s_acc = numerics_norm.accumulator_scale(count, constant(site, "weight"))
    bias = constant(site, "bias")
    if bias is not None and float(bias.abs().max()) > s_acc * numerics_norm.MAX_BETA:
        return Reason("range", "bias next to the weight", "beyond 2^30 steps", "a smaller bias")
    return check_ratio(s_acc / site.result.scale_value, "accumulator to output")


def affine(site: Site, count: int) -> numerics_norm.Affine:
    """Weight, bias and eps as integers."""
    return numerics_norm.affine_parameters(
        count,
        constant(site, "weight"),
        constant(site, "bias"),
        site.attributes["eps"],
        site.block("inp").scale_value,
        site.result.scale_value,
    )


def emit_norm(
    site: Site,
    builder: Builder,
    opcode: str,
    count: int,
    order: Order,
    shape: Sequence[int],
    perm: Sequence[int],
    filled: Any,
) -> None:
    """Emit a norm over `count` elements of an input stored in `order`.

    shape, perm: of weight and bias as they are, and the order in which they are stored. filled:
    from `params`, with axes.
    """
    integers = affine(site, count)
    filled.epsilon = integers.epsilon
    filled.inputZeroPoint = site.block("inp").zero_point_value
    mean = numerics_norm.mean_multiplier(count)
    filled.inputMultiplier, filled.inputShift = mean.multiplier, mean.shift
    inputs = [builder.operand("inp", order)]
    for name, values, dtype in (("weight", integers.gamma, "s16"), ("bias", integers.beta, "s32")):
        if name not in site.attributes:
            continue
        if site.attributes[name] is None:
            inputs.append(-1)
            continue
        stored = values.reshape(tuple(shape)).permute(tuple(perm)).reshape(-1)
        inputs.append(builder.constant(name, stored.contiguous().numpy(), dtype))
    builder.emit(opcode, inputs, [builder.result(order)], filled)
