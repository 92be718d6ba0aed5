# SPDX-License-Identifier: BSD-3-Clause
"""Sizes and values that case files are made of."""

from __future__ import annotations

# Every size up to 40 (vector bodies of up to 32 elements and each tail), then around powers of two.
SIZES = (*range(1, 41), 63, 64, 65, 127, 128, 129, 255, 256, 257)
LARGE_SIZES = (63, 64, 65, 127, 128, 129)
END_ZERO_POINTS = (-128, 127)
ZERO_POINTS = (-128, -1, 0, 37, 127)
ACCUMULATORS = (
    -(2**31),
    -(2**31) + 1,
    -(2**30) - 1,
    -(2**30),
    -3,
    -2,
    -1,
    0,
    1,
    2,
    3,
    2**30 - 1,
    2**30,
    2**31 - 2,
    2**31 - 1,
)
MULTIPLIERS = (0, 1, 2**30 - 1, 2**30, 2**30 + 1, 3 * 2**29, 2**31 - 1)
