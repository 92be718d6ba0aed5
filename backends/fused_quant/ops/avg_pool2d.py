# SPDX-License-Identifier: BSD-3-Clause
"""avg_pool2d and adaptive_avg_pool2d.

Equal parameters on both sides: q = clamp(zp + round_half_away(sum(x - zp) / n)). Otherwise
q = clamp(zp_out + R(sum(x - zp_in); M(s_in / (n * s_out)))), one multiplier per divisor n.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch.fx import Node

from fused_quant import numerics
from fused_quant.ops import pooling
from fused_quant.ops.common import (
    check_rank,
    check_window,
    is_wide,
    pair,
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
_parse_avg = parser(
    {"inp": "self"},
    {
        "kernel_size": lambda v: list(pair(v)),
        "stride": lambda v: list(pair(v)) if v else [],
        "padding": lambda v: list(pair(v)),
        "ceil_mode": bool,
        "count_include_pad": bool,
        "divisor_override": lambda v: v,
    },
)
_read_adaptive = parser({"inp": "self"}, {"output_size": lambda v: list(pair(v))})


def _parse_adaptive(node: Node) -> Call | Reason:
    call = _read_adaptive(node)
    if isinstance(call, Call) and call.attributes["output_size"] == [1, 1]:
        return Reason("overload", "one window: a mean, as decomposition makes it")
    return call


def _aten_avg(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return F.avg_pool2d(
        tensor(tensors, "inp"),
        pooling.kernel(attributes),
        pooling.stride(attributes),
        pair(attributes["padding"]),
        attributes["ceil_mode"],
        attributes["count_include_pad"],
        attributes["divisor_override"],
    )


def _aten_adaptive(tensors: Tensors, attributes: Attributes) -> torch.Tensor:
    return F.adaptive_avg_pool2d(tensor(tensors, "inp"), attributes["output_size"])


def _sums(site: Site, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    attributes, zero_point = site.attributes, site.block("inp").zero_point_value
    if "output_size" in attributes:
        return numerics.adaptive_avg_pool2d(x, zero_point, pair(attributes["output_size"]))
    return numerics.avg_pool2d(
        x,
        zero_point,
        pooling.kernel(attributes),
        pooling.stride(attributes),
        pair(attributes["padding"]),
        attributes["ceil_mode"],
        attributes["count_include_pad"],
        attributes["divisor_override"],
    )


def _reference(site: Site, tensors: Tensors) -> torch.Tensor:
    return pooling.average(site, *_sums(site, tensor(tensors, "inp")))


def _divisors(site: Site) -> list[int]:
    """Every divisor that occurs, from the contract applied to an input of zeros."""
    shape = (1, 1, *site.shapes["inp"][2:])
    _, divisor = _sums(site, torch.zeros(shape, dtype=torch.int8))
    return [int(n) for n in divisor.reshape(-1).unique()]


def _supported(site: Site, target: Target) -> Reason | None:
    reason = check_rank(site, target) or pooling.check_image(site) or pooling.covers(site)
    if reason is not None:
        return reason
    if "kernel_size" in site.attributes:
        reason = check_window(site, target, *pooling.window(site.attributes))
        if reason is not None:
            return reason
    return _check_divisors(site, target)


def _check_divisors(site: Site, target: Target) -> Reason | None:
    bounds = target.bounds(site.spec.name)
    needs_table = not site.block("inp").same_grid(site.result)
    sizes = [*site.out_shape[2:]] if needs_table else []
    if "output_size" in site.attributes:
        sizes = [*site.shapes["inp"][2:], *site.out_shape[2:]]
    if max(sizes, default=0) > bounds.divisor_axis:
        return Reason("size", "axis of an average", str(max(sizes)), f"up to {bounds.divisor_axis}")
    divisors = _divisors(site)
    if needs_table and len(divisors) > bounds.divisors:
        got = f"{len(divisors)} divisors"
        return Reason("divisor", "different window sizes", got, f"up to {bounds.divisors}")
    if min(divisors) < 1:
        return Reason("divisor", "divisor of a window", str(min(divisors)), "1 or more")
    height, width = site.shapes["inp"][2:]
    most = 65535 if is_wide(site) else 2**31 // 256
    if height * width > most:
        return Reason("overflow", "elements of an image", str(height * width), f"up to {most}")
    return None


def _lower_avg(site: Site, builder: Builder) -> None:
    params = pooling.params(site, builder)
    pooling.set_window(params, site.attributes)
    params.countIncludePad = site.attributes["count_include_pad"]
    params.divisorOverride = site.attributes["divisor_override"] or 0
    pooling.set_divisors(site, params, _divisors(site))
    pooling.emit(site, builder, "avg_pool2d", params, accumulator_bytes=4)


def _lower_adaptive(site: Site, builder: Builder) -> None:
    params = pooling.params(site, builder)
    pooling.set_divisors(site, params, _divisors(site))
    pooling.emit(site, builder, "adaptive_avg_pool2d", params, accumulator_bytes=4)


register(
    OpSpec(
        name="avg_pool2d",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=(
                "int[] kernel_size",
                "int[] stride",
                "int[] padding",
                "bool ceil_mode",
                "bool count_include_pad",
                "int? divisor_override",
            ),
            anchors={_aten.avg_pool2d.default: _parse_avg},
            aten=_aten_avg,
            reference=_reference,
            covers=pooling.covers,
        ),
        annotation=Annotation((_aten.avg_pool2d.default, _aten.avg_pool1d.default)),
        runtime=Runtime(_supported, _lower_avg, Layout.CHANNELS_LAST),
    )
)
register(
    OpSpec(
        name="adaptive_avg_pool2d",
        fusion=Fusion(
            operands=(Operand("inp"),),
            attributes=("int[] output_size",),
            anchors={
                _aten.adaptive_avg_pool2d.default: _parse_adaptive,
                _aten._adaptive_avg_pool2d.default: _parse_adaptive,
            },
            aten=_aten_adaptive,
            reference=_reference,
            covers=pooling.covers,
        ),
        annotation=Annotation(
            (
                _aten.adaptive_avg_pool2d.default,
                _aten._adaptive_avg_pool2d.default,
                _aten.adaptive_avg_pool1d.default,
            )
        ),
        runtime=Runtime(_supported, _lower_adaptive, Layout.CHANNELS_LAST),
    )
)
