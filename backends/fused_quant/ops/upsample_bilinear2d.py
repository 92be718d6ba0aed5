# SPDX-License-Identifier: BSD-3-Clause
"""upsample_bilinear2d: a weighted mean of four codes, rounded once.

acc = sum_ab u_a * v_b * (x[row_a, column_b] - zi), q = C(zo + R(acc; M(si / (so * 2^22)))).

Rows and columns have two source positions and a weight each, of 11 bits: u_1 = RNE(2^11 * f),
u_0 = 2^11 - u_1, where f in [0, 1] is how far the output's position lies behind row_0. Positions
are those of ATen, in float64: (i + 0.5) * r - 0.5, at least 0, with r = in / out or 1 / factor;
with align_corners i * (in - 1) / (out - 1). abs(acc) <= 255 * 2^22 < 2^31.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch.fx import Node

from fused_quant import graph, numerics, numerics_wide
from fused_quant.ops.common import (
    check_rank,
    check_ratio,
    check_wide_activations,
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
    Runtime,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten
_ONE = 2**11  # the weights of a position add up to it
_SPELLINGS = (_aten.upsample_bilinear2d.vec, _aten.upsample_bilinear2d.default)


def _parse_vec(node: Node) -> Call | Reason:
    """Sizes or factors: with factors, the sizes are those that ATen computed."""
    bound = graph.bind(node)
    scales = bound["scale_factors"] or [None, None]
    attributes = {
        "output_size": list(bound["output_size"] or graph.shape_of(node)[2:]),
        "align_corners": bool(bound["align_corners"]),
        "scales_h": scales[0],
        "scales_w": scales[1],
    }
    return Call({"inp": bound["input"]}, attributes)


def _keep(value: float | None) -> float | None:
    return value


def _upsample(x: torch.Tensor, attributes: Attributes) -> torch.Tensor:
    """In the core overload, `vec`, where it says the same: by factors alone or by sizes alone."""
    sizes, align = list(attributes["output_size"]), attributes["align_corners"]
    scales = [attributes["scales_h"], attributes["scales_w"]]
    if scales == [None, None]:
        result: torch.Tensor = _aten.upsample_bilinear2d.vec(x, sizes, align, None)
    elif None not in scales and sizes == [
        int(n * s) for n, s in zip(x.shape[2:], scales, strict=True)
    ]:
        result = _aten.upsample_bilinear2d.vec(x, None, align, scales)
    else:
        result = _aten.upsample_bilinear2d.default(x, sizes, align, *scales)
    return result


def positions(
    size: int, out: int, align_corners: bool, factor: float | None
) -> npt.NDArray[np.int32]:
    """[out, 3]: both source positions along an axis, and the weight of the second one."""
    table = np.empty((out, 3), np.int32)
    for i in range(out):
        if align_corners:
            at = i * (size - 1) / (out - 1) if out > 1 else 0.0
        else:
            ratio = 1 / factor if factor is not None and factor > 0 else size / out
            at = max((i + 0.5) * ratio - 0.5, 0.0)
        first = min(math.floor(at), size - 1)
        second = min(first + 1, size - 1)
        table[i] = (first, second, round(min(at - first, 1.0) * _ONE))
    return table


def _tables(site: Site) -> list[npt.NDArray[np.int32]]:
    attributes, shape = site.attributes, site.shapes["inp"]
    factors = (attributes["scales_h"], attributes["scales_w"])
    return [
        positions(shape[2 + axis], size, attributes["align_corners"], factors[axis])
        for axis, size in enumerate(attributes["output_size"])
    ]


def _ratio(site: Site) -> float:
    return site.block("inp").scale_value / (site.result.scale_value * _ONE * _ONE)


def _covers(site: Site) -> Reason | None:
    if len(site.shapes["inp"]) != 4:
        return Reason("rank", "inp rank", str(len(site.shapes["inp"])), "4")
    reason = check_wide_activations(site, ["inp"])
    return reason or check_ratio(_ratio(site), "input to output, 22 bits less")


def _supported(site: Site, target: Target) -> Reason | None:
    return check_rank(site, target) or _covers(site)


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    x = tensor(tensors, "inp").to(torch.int64) - site.block("inp").zero_point_value
    for axis, table in zip((2, 3), _tables(site), strict=True):
        first, second, weight = (torch.from_numpy(t).long() for t in table.T.copy())
        weight = weight.reshape([-1 if d == axis else 1 for d in range(4)])
        x = (_ONE - weight) * x.index_select(axis, first) + weight * x.index_select(axis, second)
    out, multiplier = site.result, numerics.multiplier_from_ratio(_ratio(site))
    if is_wide(site):
        return numerics_wide.requantize(x, multiplier, out.quant_min, out.quant_max)
    return numerics.requantize(
        x,
        multiplier,
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
        out.dtype,
    )


def _aten_upsample(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return _upsample(tensor(tensors, "inp"), attributes)


def _lower(site: Site, builder: Builder) -> None:
    multiplier, out = numerics.multiplier_from_ratio(_ratio(site)), site.result
    order = builder.common_order()
    params = builder.schema.ReduceParamsT()
    params.axes = [order.index(2), order.index(3)]
    params.inputZeroPoint = site.block("inp").zero_point_value
    params.outputZeroPoint = out.zero_point_value
    params.multiplier, params.shift = multiplier.multiplier, multiplier.shift
    params.clampMin, params.clampMax = out.quant_min, out.quant_max
    names = ("rows", "columns")
    tables = [builder.constant(n, t, "s32") for n, t in zip(names, _tables(site), strict=True)]
    inputs = [builder.operand("inp", order), *tables]
    builder.emit("upsample_bilinear2d", inputs, [builder.result(order)], params)


register(
    OpSpec(
        name="upsample_bilinear2d",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=(
                "int[] output_size",
                "bool align_corners",
                "float? scales_h=None",
                "float? scales_w=None",
            ),
            anchors={
                _aten.upsample_bilinear2d.vec: _parse_vec,
                _aten.upsample_bilinear2d.default: parser(
                    {"inp": "self"},
                    {
                        "output_size": list,
                        "align_corners": bool,
                        "scales_h": _keep,
                        "scales_w": _keep,
                    },
                ),
            },
            aten=_aten_upsample,
            reference=_reference,
            covers=_covers,
        ),
        annotation=Annotation(_SPELLINGS),
        runtime=Runtime(_supported, _lower, Layout.ANY),
    )
)
