# SPDX-License-Identifier: BSD-3-Clause
"""What operators share that the runtime runs as a table of 256 codes: y = T[x + 128].

The table holds the results of the operator's contract, whatever formula that is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from fused_quant import numerics_lut
from fused_quant.ops.common import tensor
from fused_quant.ops.spec import Site, Tensors

if TYPE_CHECKING:
    from fused_quant.lowering import Builder

Table = Callable[[Site], torch.Tensor]


def reference(table_of: Table) -> Callable[[Site, Tensors], torch.Tensor]:
    """The contract on codes, out of the table of a site."""

    def look_up(site: Site, tensors: Tensors) -> torch.Tensor:
        return numerics_lut.look_up(tensor(tensors, "inp"), table_of(site))

    return look_up


def lower(site: Site, builder: Builder, entries: torch.Tensor) -> None:
    """Emit one `lut` step; its name is that of the function."""
    order = builder.common_order()
    inputs = [builder.operand("inp", order), builder.constant("table", entries.numpy(), "s8")]
    params = builder.schema.ElementwiseParamsT()
    builder.emit("lut", inputs, [builder.result(order)], params)
