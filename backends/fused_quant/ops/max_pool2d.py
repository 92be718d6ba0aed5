# SPDX-License-Identifier: BSD-3-Clause
"""max_pool2d: the largest code of each window, then requantize if the parameters differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from fused_quant import numerics
from fused_quant.ops import pooling
from fused_quant.ops.common import check_rank, check_window, pair, parser, tensor
from fused_quant.ops.registry import register
from fused_quant.ops.spec import (
    Annotation,
    Attributes,
    Fusion,
    Layout,
    Operand,
    OpSpec,
    Runtime,
    Sharing,
    Site,
    Tensors,
)
from fused_quant.reasons import Reason
from fused_quant.target import Target

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

_aten = torch.ops.aten
_parse = parser(
    {"inp": "self"},
    {
        "kernel_size": lambda v: list(pair(v)),
        "stride": lambda v: list(pair(v)) if v else [],
        "padding": lambda v: list(pair(v)),
        "dilation": lambda v: list(pair(v)),
        "ceil_mode": bool,
    },
)


def _pool(x: torch.Tensor, attributes: Attributes) -> tuple[torch.Tensor, torch.Tensor]:
    result: tuple[torch.Tensor, torch.Tensor] = F.max_pool2d_with_indices(
        x,
        pooling.kernel(attributes),
        pooling.stride(attributes),
        pair(attributes["padding"]),
        pair(attributes["dilation"]),
        attributes["ceil_mode"],
    )
    return result


def _aten_pool(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return _pool(tensor(tensors, "inp"), attributes)[0]


def _aten_indices(tensors: Tensors, attributes: Attributes) -> tuple[torch.Tensor]:
    return (_pool(tensor(tensors, "inp"), attributes)[1],)


def _multiplier(site: Site) -> numerics.Multiplier:
    return numerics.multiplier_from_ratio(site.block("inp").scale_value / site.result.scale_value)


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    attributes, source, out = site.attributes, site.block("inp"), site.result
    codes = numerics.max_pool2d(
        tensor(tensors, "inp"),
        pooling.kernel(attributes),
        pooling.stride(attributes),
        pair(attributes["padding"]),
        pair(attributes["dilation"]),
        attributes["ceil_mode"],
    )
    return numerics.requantize(
        codes.to(torch.int64) - source.zero_point_value,
        _multiplier(site),
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
        out.dtype,
    )


def _misses_input(size: int, out: int, kernel: int, stride: int, pad: int, dilation: int) -> bool:
    for position in range(out):
        taps = range(position * stride - pad, position * stride - pad + kernel * dilation, dilation)
        if not any(0 <= tap < size for tap in taps):
            return True
    return False


def _supported(site: Site, target: Target) -> Reason | None:
    reason = check_rank(site, target) or pooling.check_image(site) or pooling.covers(site)
    if reason is not None:
        return reason
    attributes = site.attributes
    reason = check_window(
        site, target, *pooling.window(attributes), dilation=pair(attributes["dilation"])
    )
    if reason is not None:
        return reason
    for axis in (0, 1):
        if _misses_input(
            site.shapes["inp"][2 + axis],
            site.out_shape[2 + axis],
            pooling.kernel(attributes)[axis],
            pooling.stride(attributes)[axis],
            pair(attributes["padding"])[axis],
            pair(attributes["dilation"])[axis],
        ):
            return Reason("window", "a window without an input element", "", "one or more")
    return None


def _lower(site: Site, builder: Builder) -> None:
    params = pooling.params(site, builder)
    pooling.set_window(params, site.attributes)
    params.dilationH, params.dilationW = pair(site.attributes["dilation"])
    if not site.block("inp").same_grid(site.result):
        multiplier = _multiplier(site)
        params.multiplier, params.shift = [multiplier.multiplier], [multiplier.shift]
    pooling.emit(site, builder, "max_pool2d", params)


register(
    OpSpec(
        name="max_pool2d_with_indices",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=(
                "int[] kernel_size",
                "int[] stride",
                "int[] padding",
                "int[] dilation",
                "bool ceil_mode",
            ),
            anchors={
                _aten.max_pool2d.default: _parse,
                _aten.max_pool2d_with_indices.default: _parse,
            },
            aten=_aten_pool,
            reference=_reference,
            covers=pooling.covers,
            results=2,
            others=_aten_indices,
            keeps_grid=True,
        ),
        annotation=Annotation(
            (
                _aten.max_pool2d.default,
                _aten.max_pool2d_with_indices.default,
                _aten.max_pool1d.default,
                _aten.adaptive_max_pool1d.default,
                _aten.adaptive_max_pool2d.default,
            ),
            Sharing.INPUT,
        ),
        runtime=Runtime(_supported, _lower, Layout.CHANNELS_LAST),
    )
)
