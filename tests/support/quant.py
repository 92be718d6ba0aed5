# SPDX-License-Identifier: BSD-3-Clause
"""Drawing of codes, zero points, scale ratios and clamp bounds for operator cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[Any]  # int8, or int16 where the parameter `dtype` says so
Parameters = Mapping[str, Any]

INT8 = np.dtype(np.int8)
ZERO_POINTS = (-128, -127, -1, 0, 1, 37, 126, 127)
STYLES = ("typical", "typical", "tie", "tie", "tiny", "large")


def dtype_of(p: Parameters) -> np.dtype[Any]:
    """int16 if the parameter `dtype` is that, else int8."""
    return np.dtype(np.int16) if p.get("dtype") == "int16" else INT8


def limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The lowest and the highest code."""
    found = np.iinfo(dtype)
    return int(found.min), int(found.max)


def codes(
    rng: np.random.Generator,
    shape: Sequence[int],
    low: int = -128,
    dtype: np.dtype[Any] = INT8,
) -> Codes:
    """Random codes; a quarter of the arrays use only the two end codes and their neighbours."""
    lowest, high = limits(dtype)
    low = max(low, lowest) if dtype == np.int8 else lowest
    if rng.integers(4) == 0:
        return rng.choice(np.array([low, low + 1, high - 1, high], dtype), tuple(shape))
    return rng.integers(low, high + 1, tuple(shape), dtype=dtype.type)


def codes_of(
    rng: np.random.Generator, p: Parameters, name: str, shape: Sequence[int], low: int = -128
) -> Codes:
    """The parameter `name`: given codes (one of them fills the shape), or drawn ones."""
    if name in p:
        given = np.array(p[name], dtype_of(p))
        return np.ascontiguousarray(np.broadcast_to(given, tuple(shape)))
    return codes(rng, shape, low, dtype_of(p))


def weights_of(rng: np.random.Generator, p: Parameters, shape: Sequence[int]) -> Codes:
    """The parameter `w`, as `codes_of`: int8 in [-127, 127], whatever the activations are."""
    return codes_of(rng, {**p, "dtype": "int8"}, "w", shape, low=-127)


def zero_point(rng: np.random.Generator, p: Parameters, name: str) -> int:
    """The parameter `name`, or a zero point drawn from the ends, the middle or anywhere.

    int16 codes have the zero point 0.
    """
    if name in p:
        return int(p[name])
    if dtype_of(p) == np.int16:
        return 0
    drawn = rng.choice(ZERO_POINTS) if rng.integers(2) else rng.integers(-128, 128)
    return int(drawn)


def bounds(rng: np.random.Generator, p: Parameters, zo: int) -> tuple[int, int]:
    """The parameter `bounds`, or a full range, a narrow range, a relu or a two-sided clamp."""
    if "bounds" in p:
        low, high = p["bounds"]
        return int(low), int(high)
    lowest, highest = limits(dtype_of(p))
    kind = int(rng.integers(5))
    if kind == 0:
        return lowest + 1, highest
    if kind == 1:
        return zo, highest
    if kind == 2:
        low, high = sorted(rng.integers(lowest, highest + 1, 2).tolist())
        return low, high
    return lowest, highest


def ratios(rng: np.random.Generator, p: Parameters, count: int, spread: float) -> list[float]:
    """`count` ratios acc -> output code; `spread` is the typical size of an accumulator.

    Styles: "typical" fills the output range, "tie" is a power of two (many exact halves), "tiny"
    rounds nearly everything to zero, "large" is 1 and more. The parameter `ratio` fixes them all.
    """
    if "ratio" in p:
        return [float(p["ratio"])] * count
    style = p.get("style") or str(rng.choice(STYLES))
    if style == "tiny":
        return [float(2.0 ** rng.uniform(-45, -28)) for _ in range(count)]
    if style == "large":
        return [float(2.0 ** rng.uniform(0, 8)) for _ in range(count)]
    typical = [60 / spread * float(2.0 ** rng.uniform(-2, 2)) for _ in range(count)]
    if style == "tie":
        return [float(2.0 ** np.round(np.log2(value))) for value in typical]
    return typical


def scale(rng: np.random.Generator) -> float:
    """A float32 scale between 2^-10 and 2^4, a power of two half of the time."""
    exponent = float(rng.uniform(-10, 4))
    return float(np.float32(2.0 ** (round(exponent) if rng.integers(2) else exponent)))
