# SPDX-License-Identifier: BSD-3-Clause
"""Functions of one int8 code as tables of 256 codes.

    T[q + 128] = clip(zo + RNE(f((q - zi) * si) / so), lo, hi)        float64, ahead of time only

The function is evaluated once per code, in float64, in the order written; a target only looks up
`T[x + 128]`. A result that is NaN counts as 0, so its code is that of the zero point; infinities go
to the nearer end. Clamp bounds of a fused activation are part of the table.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

CODES = torch.arange(-128, 128, dtype=torch.int64)


def table(
    function: Callable[[Tensor], Tensor],
    s_in: float,
    z_in: int,
    s_out: float,
    z_out: int,
    lo: int,
    hi: int,
) -> Tensor:
    """The 256 output codes of `function`, int8; entry q + 128 belongs to code q.

    function: elementwise on float64. lo, hi: within [-128, 127], else ValueError.
    """
    if not -128 <= lo <= hi <= 127:
        raise ValueError(f"table bounds: got [{lo}, {hi}], supported: within [-128, 127]")
    steps = torch.round(function((CODES - z_in).to(torch.float64) * s_in) / s_out)
    steps = torch.nan_to_num(steps, nan=0.0) + z_out
    return steps.clamp(float(lo), float(hi)).to(torch.int8)


def look_up(codes: Tensor, entries: Tensor) -> Tensor:
    """T[x + 128] for int8 codes of any shape."""
    return entries[codes.to(torch.int64) + 128]
