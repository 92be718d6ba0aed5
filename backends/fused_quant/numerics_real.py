# SPDX-License-Identifier: BSD-3-Clause
"""The real value of an accumulator, for results that stay in float.

    y = f32(acc) * f32(s_x * s_w[c])

Two roundings to nearest even: of the accumulator to float32, and of the float32 product. The scale
is a normal float32 and |acc| is 0 or at least 1, so that no product is subnormal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fused_quant import numerics


def real_scale(s_x: float, s_w: float) -> float:
    """s_x * s_w rounded to float32 once: the product of two float32 is exact in float64.

    ValueError unless it is in [2^-126, 2^126], as every scale is.
    """
    with np.errstate(over="ignore", under="ignore"):
        scale = float(np.float32(s_x * s_w))
    if not numerics.is_float32_scale(scale):
        raise ValueError(f"scale of the accumulator: got {s_x * s_w!r}, supported: [2^-126, 2^126]")
    return scale


def real_value(acc: Tensor, scales: Sequence[float], axis: int) -> Tensor:
    """float32 of integer accumulators; one scale, or one per element of `axis`."""
    factor = torch.tensor(scales, dtype=torch.float32)
    if len(scales) > 1:
        shape = [1] * acc.dim()
        shape[axis] = len(scales)
        factor = factor.reshape(shape)
    return acc.to(torch.float32) * factor
