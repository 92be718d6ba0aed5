# SPDX-License-Identifier: BSD-3-Clause
"""Calls of dialect operators with blocks written by hand, and random codes."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from fused_quant.ops import registry

Block = tuple[Any, Any, torch.dtype, int, int]
FLOAT: Block = (None, None, torch.float32, 0, 0)
registry.load()
OPS: Any = torch.ops.fused_quant
# Scales of many sizes, zero points in the middle and at both ends.
GRIDS = [(0.05, -3), (0.031, 127), (0.0073, -128), (1.7, 0)]


def block(scale: float | Tensor, zero_point: int = 0, out: bool = False) -> Block:
    """An input block, or an int8 output block; a tensor as scale has the operand's rank."""
    scales = torch.tensor([scale]) if isinstance(scale, float) else scale
    zeros = torch.full_like(scales, zero_point, dtype=torch.int64)
    return (scales, zeros, torch.int8 if out else torch.float32, -128, 127)


def codes(*shape: int, seed: int = 0, low: int = -128) -> Tensor:
    """Random int8 codes with both ends among them."""
    generator = torch.Generator().manual_seed(seed)
    count = math.prod(shape)
    values = torch.randint(low, 128, (count,), generator=generator)
    values[: min(2, count)] = torch.tensor([low, 127])[: min(2, count)]
    return values.reshape(shape).to(torch.int8)


def real(values: Tensor, params: Block) -> Tensor:
    """The float64 numbers that codes stand for."""
    return (values.double() - params[1]) * params[0].double()


def stepped(exact: Tensor, out: Block) -> Tensor:
    """Float64 results in steps of the output's grid, clamped but not rounded."""
    steps = exact.double() / out[0].double() + out[1]
    return steps.clamp(out[3], out[4])


def error(got: Tensor, exact: Tensor, out: Block) -> float:
    """The largest distance of codes from float64 results, in codes."""
    assert got.dtype == out[2]
    assert got.shape == exact.shape
    return float((got.double() - stepped(exact, out)).abs().max())


def fitting(exact: Tensor, zero_point: int = 0) -> Block:
    """An output block whose range is about that of the results."""
    return block(max(float(exact.abs().max()) / 100, 1e-6), zero_point, out=True)
