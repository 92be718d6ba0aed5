# SPDX-License-Identifier: BSD-3-Clause
"""Division of two tensors of codes in exact integers.

With n = a - za, d = b - zb, both made positive in d (n = -n, d = -d for d < 0), and (m, s) = M(r):

    quotient(n, d) = floor((n * m + d * 2^(s - 1)) / (d * 2^s))     n / d * r, ties towards +inf
    floored(n, d)  = floor(n * m / (d * 2^s)), trunc likewise on magnitudes

A division by zero gives the end of the range on the side of n's sign, and zero over zero gives 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fused_quant.numerics import INT32_MAX, INT32_MIN, Multiplier

# |n * m| < 2^16 * 2^31 = 2^47: from this shift on the quotient is below one half.
_VANISHING_SHIFT = 48


def quotient(n: Tensor, d: Tensor, m: Multiplier, rounding: str | None = None) -> Tensor:
    """Integers n / d * m * 2^-s, rounded to nearest (None), "floor" or "trunc"; int64.

    n, d: differences of codes from their zero points, |n|, |d| <= 65535. The result saturates to
    int32, which is also what a division by zero gives. Raises ValueError for another rounding.
    """
    if rounding not in (None, "floor", "trunc"):
        raise ValueError(f"rounding: got {rounding!r}, supported: None, 'floor', 'trunc'")
    n, d = torch.broadcast_tensors(n.to(torch.int64), d.to(torch.int64))
    signed = torch.where(d < 0, -n, n)
    divisor = d.abs().clamp(min=1)
    if rounding is None:
        result = _nearest(signed, divisor, m)
    elif rounding == "floor":
        result = torch.div((signed * m.multiplier) >> m.shift, divisor, rounding_mode="floor")
    else:
        magnitude = (signed.abs() * m.multiplier) >> m.shift
        result = signed.sign() * torch.div(magnitude, divisor, rounding_mode="floor")
    by_zero = torch.where(n < 0, INT32_MIN, INT32_MAX) * (n != 0)
    return torch.where(d == 0, by_zero, result).clamp(INT32_MIN, INT32_MAX)


def _nearest(n: Tensor, d: Tensor, m: Multiplier) -> Tensor:
    """floor(floor((n m + d 2^(s-1)) / 2^s) / d): dividing in two floors is dividing once."""
    if m.shift >= _VANISHING_SHIFT:
        return torch.zeros_like(n)
    half = d << (m.shift - 1)
    return torch.div((n * m.multiplier + half) >> m.shift, d, rounding_mode="floor")
