# SPDX-License-Identifier: BSD-3-Clause
"""Functions of int16 codes that are better off without an interpolated table.

abs, neg, leaky_relu: a slope on either side of zero, rounded once (ops/slopes.py).
hardsigmoid: q = clamp(RNE(1 / (2 * so)) + R(x; M(si / (6 * so))), Q(0), Q(1)).
hardswish: numerics_wide.hardswish.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from fused_quant import numerics, numerics_wide
from fused_quant.ops import rescaling, slopes
from fused_quant.ops.common import check_ratio, float32, is_wide, tensor
from fused_quant.ops.spec import Site, Tensors
from fused_quant.reasons import Reason

if TYPE_CHECKING:
    from fused_quant.lowering import Builder


@dataclasses.dataclass(frozen=True)
class Form:
    """A function of int16 codes: when it is defined, what it is, and its step."""

    check: Callable[[Site], Reason | None]
    reference: Callable[[Site, Tensors], torch.Tensor]
    lower: Callable[[Site, Builder], None]


def _sloped(slopes_of: Callable[[Site], tuple[float, float]]) -> Form:
    """slopes_of: the slopes above and below zero."""

    def check(site: Site) -> Reason | None:
        return slopes.check(site, slopes_of(site))

    def reference(site: Site, tensors: Tensors) -> torch.Tensor:
        above, below = slopes_of(site)
        return slopes.reference(site, tensor(tensors, "inp"), above, [below])

    def lower(site: Site, builder: Builder) -> None:
        above, below = slopes_of(site)
        slopes.lower(site, builder, builder.common_order(), above, [below])

    return Form(check, reference, lower)


def _leaky_slopes(site: Site) -> tuple[float, float]:
    return 1.0, float32(site.attributes["negative_slope"])


def _hardsigmoid_offset(site: Site) -> int:
    return round(min(0.5 / site.result.scale_value, 2.0**17))


def _hardsigmoid_ratio(site: Site) -> float:
    return site.block("inp").scale_value / (6 * site.result.scale_value)


def _hardsigmoid_bounds(site: Site) -> tuple[int, int]:
    out = site.result
    bounds = (out.quant_min, out.quant_max, out.scale_value, 0)
    return numerics.activation_bounds(*bounds, 0.0, 1.0)


def _check_hardsigmoid(site: Site) -> Reason | None:
    return check_ratio(_hardsigmoid_ratio(site), "s_in / (6 * s_out)")


def _hardsigmoid(site: Site, tensors: Tensors) -> torch.Tensor:
    multiplier = numerics.multiplier_from_ratio(_hardsigmoid_ratio(site))
    offset, bounds = _hardsigmoid_offset(site), _hardsigmoid_bounds(site)
    return numerics.requantize(tensor(tensors, "inp"), multiplier, offset, *bounds, torch.int16)


def _lower_hardsigmoid(site: Site, builder: Builder) -> None:
    ratio, bounds = _hardsigmoid_ratio(site), _hardsigmoid_bounds(site)
    rescaling.lower_ratio(site, builder, bounds, ratio, _hardsigmoid_offset(site))


def _hardswish_multiplier(site: Site) -> tuple[int, float]:
    scale = site.block("inp").scale_value
    offset = numerics_wide.hardswish_offset(scale)
    assert offset is not None
    return offset, numerics_wide.hardswish_ratio(scale, site.result.scale_value, offset)


def _check_hardswish(site: Site) -> Reason | None:
    return check_ratio(_hardswish_multiplier(site)[1], "s_in / (2 * h * s_out)")


def _hardswish(site: Site, tensors: Tensors) -> torch.Tensor:
    (offset, ratio), out = _hardswish_multiplier(site), site.result
    multiplier = numerics.multiplier_from_ratio(ratio)
    x = tensor(tensors, "inp")
    return numerics_wide.hardswish(x, offset, multiplier, out.quant_min, out.quant_max)


def _lower_hardswish(site: Site, builder: Builder) -> None:
    (offset, ratio), out = _hardswish_multiplier(site), site.result
    multiplier = numerics.multiplier_from_ratio(ratio)
    params, order = builder.schema.ElementwiseParamsT(), builder.common_order()
    params.inputZeroPoint = [-offset]
    params.outputMultiplier, params.outputShift = multiplier.multiplier, multiplier.shift
    params.clampMin, params.clampMax = out.quant_min, out.quant_max
    builder.emit("hardswish", [builder.operand("inp", order)], [builder.result(order)], params)


_FORMS = {
    "abs": _sloped(lambda site: (1.0, -1.0)),
    "neg": _sloped(lambda site: (-1.0, -1.0)),
    "leaky_relu": _sloped(_leaky_slopes),
    "hardsigmoid": Form(_check_hardsigmoid, _hardsigmoid, _lower_hardsigmoid),
    "hardswish": Form(_check_hardswish, _hardswish, _lower_hardswish),
}


def form_of(site: Site) -> Form | None:
    """The form of a site of int16 codes; None where a table is used."""
    name = site.spec.name
    if not is_wide(site) or name not in _FORMS:
        return None
    if name == "hardsigmoid" and _hardsigmoid_offset(site) > numerics_wide.HIGHEST:
        return None
    if name == "hardswish":
        scale = site.block("inp").scale_value
        return None if numerics_wide.hardswish_offset(scale) is None else _FORMS[name]
    return _FORMS[name]
