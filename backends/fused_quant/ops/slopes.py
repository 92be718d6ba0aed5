# SPDX-License-Identifier: BSD-3-Clause
"""Functions that are linear on either side of zero: slope a above, a_c below it.

q = clamp(zo + R(sign(a) * (x - zi); M(si * |a| / so))), rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from fused_quant import numerics
from fused_quant.layout import Order
from fused_quant.ops.common import check_ratio
from fused_quant.ops.spec import Site
from fused_quant.reasons import Reason

if TYPE_CHECKING:
    from fused_quant.lowering import Builder


def _ratio(site: Site, slope: float) -> float:
    return site.block("inp").scale_value * abs(slope) / site.result.scale_value


def check(site: Site, slopes: Sequence[float]) -> Reason | None:
    """A reason if one of the slopes has no multiplier."""
    for slope in slopes:
        reason = check_ratio(_ratio(site, slope), "s_in * slope / s_out")
        if reason is not None:
            return reason
    return None


def _branch(site: Site, centred: torch.Tensor, slope: float) -> torch.Tensor:
    """The codes of `slope * x` for codes less their zero point."""
    out = site.result
    return numerics.requantize(
        -centred if slope < 0 else centred,
        numerics.multiplier_from_ratio(_ratio(site, slope)),
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
        out.dtype,
    )


def reference(
    site: Site, codes: torch.Tensor, above: float, below: Sequence[float]
) -> torch.Tensor:
    """The contract on codes; `below` is one slope, or one per channel, which dimension 1 holds."""
    x = codes.to(torch.int64) - site.block("inp").zero_point_value
    channels = x.split(1, 1) if len(below) > 1 else [x]
    parts = [_branch(site, channel, a) for channel, a in zip(channels, below, strict=True)]
    return torch.where(
        x >= 0, _branch(site, x, above), torch.cat(parts, 1) if parts[1:] else parts[0]
    )


def lower(site: Site, builder: Builder, order: Order, above: float, below: Sequence[float]) -> None:
    """Emit one `prelu` step; several slopes belong to the innermost dimension of `order`."""
    multipliers = [numerics.multiplier_from_ratio(_ratio(site, a)) for a in (above, *below)]
    params, out = builder.schema.ElementwiseParamsT(), site.result
    params.inputZeroPoint = [site.block("inp").zero_point_value]
    params.multiplier = [m.multiplier for m in multipliers]
    params.shift = [m.shift for m in multipliers]
    params.negate = [slope < 0 for slope in (above, *below)]
    params.outputZeroPoint = out.zero_point_value
    params.clampMin, params.clampMax = out.quant_min, out.quant_max
    builder.emit("prelu", [builder.operand("inp", order)], [builder.result(order)], params)
