# SPDX-License-Identifier: BSD-3-Clause
"""What convolution and linear share: coverage, requantization, biases, params.

int8 activations have accumulators of 32 bits, int16 ones of 64. A result that stays in float is
y = f32(acc) * f32(s_x * s_w[c]).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fused_quant import numerics, numerics_real, numerics_wide
from fused_quant.lowered import NUMPY_DTYPES, StoredQParams
from fused_quant.ops import narrow
from fused_quant.ops.common import (
    check_rank,
    check_ratio,
    check_real_scales,
    check_scales,
    check_wide_activations,
)
from fused_quant.ops.spec import Site
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_BIAS_TOLERANCE = 1e-6  # a bias scale is s_x * s_w rounded to float32 once or twice


def ratios(site: Site) -> list[float]:
    """(s_x * s_w[c]) / s_out for each weight scale, in float64 in this order."""
    s_x, s_out = site.block("inp").scale_value, site.result.scale_value
    return [(s_x * s_w) / s_out for s_w in site.block("weight").scales]


def is_wide(site: Site) -> bool:
    """Whether the activations are int16."""
    return site.dtypes["inp"] == torch.int16


def _check_bias(site: Site) -> Reason | None:
    if "bias" not in site.shapes:
        return None
    if site.dtypes["bias"] != torch.int32:
        return Reason("dtype", "bias dtype", str(site.dtypes["bias"]), "torch.int32")
    block = site.block("bias")
    if bool((block.zero_point != 0).any()):
        return Reason("zero_point", "bias zero point", "not 0", "0")
    s_x = site.block("inp").scale_value
    expected = s_x * site.block("weight").largest_scales(0).double()
    actual = block.scale.double().reshape(-1)
    if actual.numel() not in (1, expected.numel()) or bool(
        ((actual - expected).abs() > _BIAS_TOLERANCE * expected).any()
    ):
        return Reason("bias_scale", "scale of the bias", "another", "s_input * s_weight")
    return None


def covers(site: Site) -> Reason | None:
    """A reason why the integer contract does not define this site."""
    reason = check_wide_activations(site, ["inp"], real=True) or check_scales(site, ["weight"])
    if reason is not None:
        return reason
    weight = site.block("weight")
    if site.dtypes["weight"] != torch.int8:
        return Reason("dtype", "weight dtype", str(site.dtypes["weight"]), "torch.int8")
    if bool((weight.zero_point != 0).any()):
        return Reason("zero_point", "weight zero point", "not 0", "0 (symmetric)")
    grouped = bool(narrow.group_size(site))
    per_channel = weight.channel_axis(site.shapes["weight"]) == 0
    if not weight.is_per_tensor and not per_channel and not grouped:
        got = f"scale of shape {tuple(weight.scale.shape)}"
        supported = "per tensor, per output channel (axis 0) or in groups of input channels"
        return Reason("granularity", "weight", got, supported)
    if grouped and is_wide(site):
        return Reason("dtype", "activations of weights in groups", "torch.int16", "torch.int8")
    if grouped and site.out is None:
        return Reason("float_output", "weights in groups", "a float result", "a quantized one")
    reason = _check_bias(site)
    if reason is not None:
        return reason
    return _check_ratios(site) or _check_accumulator(site)


def _check_ratios(site: Site) -> Reason | None:
    if site.out is None:
        return check_real_scales(site.block("inp").scale_value, site.block("weight").scales)
    for ratio in ratios(site):
        reason = check_ratio(ratio, "s_x * s_w / s_out")
        if reason is not None:
            return reason
    return None


def _check_accumulator(site: Site) -> Reason | None:
    if "weight" not in site.constants or ("bias" in site.shapes and "bias" not in site.constants):
        return Reason("constant", "weight or bias", "not a constant", "constants")
    weight, bias = site.constants["weight"], site.constants.get("bias")
    if is_wide(site):
        fits, limit = numerics_wide.accumulator_fits(weight, bias), "2^47"
    else:
        zero_point = site.block("inp").zero_point_value
        fits, limit = numerics.accumulator_fits(weight, bias, zero_point), "int32"
    if not bool(fits.all()):
        channel = int((~fits).nonzero()[0])
        return Reason("overflow", f"{limit} accumulator", f"channel {channel} can overflow", limit)
    return None


def supported(site: Site, target: Target) -> Reason | None:
    """A reason why the runtime cannot run this site."""
    return check_rank(site, target) or covers(site)


def _multipliers(site: Site) -> list[numerics.Multiplier]:
    return numerics.multipliers_from_ratios(ratios(site))


def real_scales(site: Site) -> list[float]:
    """f32(s_x * s_w[c]) for each weight scale."""
    s_x = site.block("inp").scale_value
    return [numerics_real.real_scale(s_x, s_w) for s_w in site.block("weight").scales]


def result(site: Site, acc: torch.Tensor, axis: int) -> torch.Tensor:
    """clamp(zp_out + R(acc; M)) with one multiplier, or one per channel along `axis`.

    A float result is the accumulators' real value.
    """
    out = site.out
    if out is None:
        return numerics_real.real_value(acc, real_scales(site), axis)
    several = _multipliers(site)
    multipliers = several[0] if len(several) == 1 else several
    if is_wide(site):
        return numerics_wide.requantize(acc, multipliers, out.quant_min, out.quant_max, axis)
    return numerics.requantize(
        acc,
        multipliers,
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
        out.dtype,
        axis,
    )


def store_bias(site: Site, builder: Builder, folded: bool = True) -> int:
    """The tensor of the bias [out_c], s32 of int8 activations and s64 of int16 ones; -1: no bias.

    folded: bias - zp_x * sum(weight), wrapping; else as it is in the graph.
    """
    if folded and narrow.group_size(site):
        return narrow.bias_operand(site, builder)
    bias, zero_point = site.constants.get("bias"), site.block("inp").zero_point_value
    if folded and not is_wide(site):  # int16 has the zero point 0
        bias = numerics.fold_bias(bias, site.constants["weight"], zero_point)
    if bias is None:
        return -1
    dtype = "s64" if is_wide(site) else "s32"
    data = bias.numpy().astype(NUMPY_DTYPES[dtype])
    return builder.constant("bias", data, dtype, _stored_bias_params(site))


def stored_weight_params(site: Site, axis: int) -> StoredQParams:
    """The weight's parameters; `axis` is the stored dimension of the output channels."""
    block = site.block("weight")
    if narrow.group_size(site):
        return narrow.stored_weight_params(site)
    per_tensor = block.is_per_tensor
    return StoredQParams(
        tuple(block.scales),
        tuple(int(z) for z in block.zero_point.reshape(-1)),
        block.quant_min,
        block.quant_max,
        -1 if per_tensor else axis,
    )


def _stored_bias_params(site: Site) -> StoredQParams:
    """The accumulator's parameters: scale s_x * s_w, zero point 0, int32 range."""
    s_x = np.float64(site.block("inp").scale_value)
    scales = tuple(float(np.float32(s_x * s)) for s in site.block("weight").scales)
    limits = np.iinfo(np.int32)
    axis = -1 if len(scales) == 1 else 0
    return StoredQParams(scales, (0,) * len(scales), int(limits.min), int(limits.max), axis)


def params(site: Site, builder: Builder) -> Any:
    """DotParams with the requantization filled in and the geometry of a matrix product."""
    filled = builder.schema.DotParamsT()
    filled.inputZeroPoint = site.block("inp").zero_point_value
    if site.out is None:
        filled.realScale = real_scales(site)
        return filled
    filled.outputZeroPoint = site.result.zero_point_value
    if narrow.group_size(site):
        narrow.fill(site, filled)
    else:
        multipliers = _multipliers(site)
        filled.multiplier = [m.multiplier for m in multipliers]
        filled.shift = [m.shift for m in multipliers]
    filled.clampMin, filled.clampMax = site.result.quant_min, site.result.quant_max
    return filled
