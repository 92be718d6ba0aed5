# SPDX-License-Identifier: BSD-3-Clause
"""What softmax, log_softmax and the norms share: params, and affine parameters as integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from fused_quant import numerics, numerics_norm, numerics_wide_norm
from fused_quant.layout import Order
from fused_quant.ops.common import check_ratio, check_wide_activations, is_wide
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
    reason = check_wide_activations(site, ["inp"])
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
    reason = check_wide_activations(site, ["inp"])
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
    most = (numerics_wide_norm if is_wide(site) else numerics_norm).MAX_NORM_ELEMENTS
    if not 0 < count <= most:
        return Reason("size", f"elements of a {site.spec.name}", str(count), f"1 to {most}")
    if not (isinstance(eps, float) and math.isfinite(eps) and eps >= 0):
        return Reason("attribute", "argument eps", repr(eps), "finite and not negative")
    weight, bias = constant(site, "weight"), constant(site, "bias")
    if is_wide(site):
        _, s_acc = numerics_wide_norm.accumulator_scale(weight)
        most = numerics_wide_norm.MAX_BETA
    else:
        _, s_acc = numerics_norm.accumulator_scale(count, weight)
        most = numerics_norm.MAX_BETA
    if bias is not None and float(bias.abs().max()) > s_acc * most:
        got = f"beyond 2^{most.bit_length() - 1} steps"
        return Reason("range", "bias next to the weight", got, "a smaller bias")
    return check_ratio(s_acc / site.result.scale_value, "accumulator to output")


Affine = numerics_norm.Affine | numerics_wide_norm.Affine


def affine(site: Site, count: int) -> Affine:
    """Weight, bias and eps as integers."""
    parameters: Callable[..., Affine] = numerics_norm.affine_parameters
    if is_wide(site):
        parameters = numerics_wide_norm.affine_parameters
    return parameters(
        count,
        constant(site, "weight"),
        constant(site, "bias"),
        site.attributes["eps"],
        site.block("inp").scale_value,
        site.result.scale_value,
    )


def reference(site: Site, rows: torch.Tensor, integers: Affine, centred: bool) -> torch.Tensor:
    """The contract on rows of codes: a layer norm if `centred`, else a rms norm."""
    out = site.result
    if isinstance(integers, numerics_wide_norm.Affine):
        bounds = (out.quant_min, out.quant_max)
        return numerics_wide_norm.standardize(rows, integers, centred, *bounds)
    grid = (out.zero_point_value, out.quant_min, out.quant_max, out.dtype)
    if centred:
        return numerics_norm.layer_norm(rows, integers, *grid)
    return numerics_norm.rms_norm(rows, site.block("inp").zero_point_value, integers, *grid)


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
    filled.inputZeroPoint = site.block("inp").zero_point_value
    wide = isinstance(integers, numerics_wide_norm.Affine)
    if wide:
        filled.wideEpsilon = integers.epsilon
    else:
        filled.epsilon = integers.epsilon
        mean = numerics_norm.mean_multiplier(count)
        filled.inputMultiplier, filled.inputShift = mean.multiplier, mean.shift
    inputs = [builder.operand("inp", order)]
    bias_dtype = "s64" if wide else "s32"
    parts = (("weight", integers.gamma, "s16"), ("bias", integers.beta, bias_dtype))
    for name, values, dtype in parts:
        if name not in site.attributes:
            continue
        if site.attributes[name] is None:
            inputs.append(-1)
            continue
        stored = values.reshape(tuple(shape)).permute(tuple(perm)).reshape(-1)
        inputs.append(builder.constant(name, stored.contiguous().numpy(), dtype))
    builder.emit(opcode, inputs, [builder.result(order)], filled)
