# SPDX-License-Identifier: BSD-3-Clause
"""What operators share that run as a table: of 256 int8 codes, or of 513 int16 entries.

y = T[x + 128] holds the results of the operator's contract, whatever formula that is; int16 entries
are interpolated (numerics_wide).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from fused_quant import numerics_lut, numerics_wide
from fused_quant.ops.common import CODE_NAMES, is_wide, tensor
from fused_quant.ops.spec import Site, Tensors
from fused_quant.reasons import Reason

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

Function = Callable[[torch.Tensor], torch.Tensor]
FunctionOf = Callable[[Site], Function]


def check(site: Site, function: Function, bends: bool) -> Reason | None:
    """A reason if no table of 513 int16 entries stands for a function on float64.

    bends: whether it has kinks or jumps that need not lie on an entry; the table of such a function
    has to be near it everywhere.
    """
    if not is_wide(site):
        return None
    scales = (site.block("inp").scale_value, site.result.scale_value)
    entries = numerics_wide.table(function, *scales)
    step = numerics_wide.steepest(entries)
    if step > numerics_wide.MAX_STEP:
        limit = str(numerics_wide.MAX_STEP)
        return Reason("table", "step between entries of an int16 table", str(step), limit)
    error = numerics_wide.largest_error(function, entries, *scales) if bends else 0.0
    if error > numerics_wide.MAX_BEND_ERROR:
        limit = f"up to {numerics_wide.MAX_BEND_ERROR}"
        return Reason("table", "codes that an int16 table is off at most", f"{error:.1f}", limit)
    return None


def codes_of(site: Site, function: Function) -> torch.Tensor:
    """The 256 results of a function on float64, of int8 codes."""
    source, out = site.block("inp"), site.result
    return numerics_lut.table(
        function,
        source.scale_value,
        source.zero_point_value,
        out.scale_value,
        out.zero_point_value,
        out.quant_min,
        out.quant_max,
    )


def _wide_entries(site: Site, function: Function) -> torch.Tensor:
    scales = (site.block("inp").scale_value, site.result.scale_value)
    return numerics_wide.table(function, *scales)


def reference(function_of: FunctionOf) -> Callable[[Site, Tensors], torch.Tensor]:
    """The contract on codes, out of the function of a site."""

    def look_up(site: Site, tensors: Tensors) -> torch.Tensor:
        x, function, out = tensor(tensors, "inp"), function_of(site), site.result
        if is_wide(site):
            entries = _wide_entries(site, function)
            return numerics_wide.look_up(x, entries, out.quant_min, out.quant_max)
        return numerics_lut.look_up(x, codes_of(site, function))

    return look_up


def lower_function(site: Site, builder: Builder, function: Function) -> None:
    """Emit the table of a function."""
    wide = is_wide(site)
    lower(site, builder, (_wide_entries if wide else codes_of)(site, function))


def lower(site: Site, builder: Builder, entries: torch.Tensor) -> None:
    """Emit one `lut` step of given entries; its name is that of the function."""
    order = builder.common_order()
    dtype = CODE_NAMES[site.result.dtype]
    inputs = [builder.operand("inp", order), builder.constant("table", entries.numpy(), dtype)]
    params = builder.schema.ElementwiseParamsT()
    if is_wide(site):
        params.clampMin, params.clampMax = site.result.quant_min, site.result.quant_max
    builder.emit("lut", inputs, [builder.result(order)], params)
