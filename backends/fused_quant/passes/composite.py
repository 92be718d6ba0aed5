# SPDX-License-Identifier: BSD-3-Clause
"""Composite grids: one rounding in place of two, as exact fractions.

A value written on grid `outer`, read as if on grid `inner` and written again on grid `kept` is the
same value written once on s = s_outer * s_kept / s_inner,
z = z_kept + (z_outer - z_inner) * s_inner / s_kept. Read the other way round, the same formula says
on which grid to read codes that lost their rewriting.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from fractions import Fraction

from fused_quant import numerics
from fused_quant.qparams import QParams

_INTEGRALITY = Fraction(1, 10**6)


def producer_grid(a: QParams, d: QParams, b: QParams) -> QParams | None:
    """The out block of a producer that wrote A, was read as D and quantized to B; None: not exact.

    s = s_A * s_B / s_D, z = z_B + (z_A - z_D) * s_D / s_B; range and dtype are those of B. A bound
    of A that is its zero point is a fused activation's and stays: real 0 has the code z.
    None unless all are per tensor with finite positive scales, A and D have one range (fused
    activations aside) and z is an integer (within 1e-6) in the range of B.
    """
    low_is_zero = a.quant_min == a.zero_point_value
    high_is_zero = a.quant_max == a.zero_point_value
    if a.quant_min != d.quant_min and not (low_is_zero and a.quant_min > d.quant_min):
        return None
    if a.quant_max != d.quant_max and not (high_is_zero and a.quant_max < d.quant_max):
        return None
    grid = _composite(a, d, b)
    if grid is None:
        return None
    scale, zero = grid
    low, high = b.quant_min, b.quant_max
    if low_is_zero:
        low = max(low, zero)
    if high_is_zero:
        high = min(high, zero)
    made = QParams.per_tensor(scale, zero, b.dtype, low, high)
    return dataclasses.replace(
        made,
        scale=made.scale.reshape(b.scale.shape),
        zero_point=made.zero_point.reshape(b.zero_point.shape),
    )


def consumer_grid(d: QParams, b: QParams, c: QParams) -> QParams | None:
    """The block of a consumer that read C behind a rewriting from D to B, without it; or None.

    s = s_D * s_C / s_B, z = z_D + (z_C - z_B) * s_B / s_D; the range is that of D, the float dtype
    that of C. None under the conditions of `producer_grid`, with B and C of one range.
    """
    if (b.quant_min, b.quant_max) != (c.quant_min, c.quant_max):
        return None
    grid = _composite(c, b, d)
    if grid is None:
        return None
    return QParams.per_tensor(*grid, c.dtype, d.quant_min, d.quant_max)


def _composite(outer: QParams, inner: QParams, kept: QParams) -> tuple[float, int] | None:
    """Scale and zero point; None if a condition is not met."""
    grids = (outer, inner, kept)
    if not all(g.is_per_tensor for g in grids):
        return None
    scales = [g.scale_value for g in grids]
    if not all(math.isfinite(s) and s > 0 for s in scales):
        return None
    s_outer, s_inner, s_kept = map(Fraction, scales)
    step = outer.zero_point_value - inner.zero_point_value
    zero = kept.zero_point_value + step * s_inner / s_kept
    nearest = round(zero)
    if abs(zero - nearest) > _INTEGRALITY or not kept.quant_min <= nearest <= kept.quant_max:
        return None
    scale = _rounded(s_outer * s_kept / s_inner, all(map(numerics.is_float32_scale, scales)))
    return None if scale is None else (scale, nearest)


def _rounded(scale: Fraction, single: bool) -> float | None:
    """The nearest float64, then float32 if the scales it is made of are; None beyond the range."""
    try:
        value = float(scale)
        if single:
            (value,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return None
    if value <= 0 or (single and not numerics.is_float32_scale(value)):
        return None
    return value
