# SPDX-License-Identifier: BSD-3-Clause
"""log_softmax along one dimension, on any output grid, by numerics_norm.log_softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fused_quant import numerics_norm, numerics_wide_norm
from fused_quant.ops import normalizing
from fused_quant.ops.common import check_rank, is_wide, parser, tensor
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    Fusion,
    Layout,
    Operand,
    OpSpec,
    Runtime,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten


def _multipliers(site: Site) -> numerics_norm.LogMultipliers:
    multipliers = (numerics_wide_norm if is_wide(site) else numerics_norm).log_multipliers
    return multipliers(site.block("inp").scale_value, site.result.scale_value)


def _covers(site: Site) -> Reason | None:
    reason = normalizing.check_softmax(site)
    if reason is not None:
        return reason
    try:
        _multipliers(site)
    except ValueError as error:
        return Reason("ratio", "scale of the output", str(error), "a coarser grid")
    return None


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    out, axis = site.result, normalizing.softmax_axis(site)
    rows = tensor(tensors, "inp").movedim(axis, -1)
    scales, bounds = (
        (site.block("inp").scale_value, out.scale_value),
        (out.quant_min, out.quant_max),
    )
    if is_wide(site):
        codes = numerics_wide_norm.log_softmax(rows, *scales, *bounds)
    else:
        zero_point = out.zero_point_value
        codes = numerics_norm.log_softmax(rows, *scales, zero_point, *bounds, out.dtype)
    return codes.movedim(-1, axis)


def _aten_log_softmax(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return torch.log_softmax(tensor(tensors, "inp"), attributes["dim"])


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or _covers(site)


def _lower(site: Site, builder: Builder) -> None:
    multipliers = _multipliers(site)
    params = normalizing.params(site, builder, multipliers.output)
    distance, level = multipliers.distance, multipliers.level
    params.inputMultiplier, params.inputShift = distance.multiplier, distance.shift
    params.sumMultiplier, params.sumShift = level.multiplier, level.shift
    scale = site.block("inp").scale_value
    exponentials = (
        numerics_wide_norm.exponentials(scale)
        if is_wide(site)
        else numerics_norm.log_exponentials(scale)
    )
    tables = {
        "exponentials": (exponentials.numpy(), "s32"),
        "logarithms": (numerics_norm.logarithms().numpy(), "s32"),
    }
    normalizing.emit_softmax(site, builder, "log_softmax", params, tables)


register(
    OpSpec(
        name="log_softmax",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("int dim",),
            anchors={
                _aten.log_softmax.int: parser({"inp": "self"}, {"dim": int, "dtype": (None,)}),
                _aten._log_softmax.default: parser(
                    {"inp": "self"}, {"dim": int, "half_to_float": (False,)}
                ),
            },
            aten=_aten_log_softmax,
            reference=_reference,
            covers=_covers,
        ),
        annotation=Annotation((_aten.log_softmax.int, _aten._log_softmax.default)),
        runtime=Runtime(_supported, _lower, Layout.FREE),
    )
)
