# SPDX-License-Identifier: BSD-3-Clause
"""The networks of the zoo, quantized and fused once per process."""

from __future__ import annotations

import dataclasses
import functools

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from examples.zoo.small import make, quantizer
from tests.e2e import routes

_CALIBRATION, _TESTS = 8, 4


@dataclasses.dataclass(frozen=True)
class Quantized:
    """A float model, quantized, fused, and inputs that were not used to calibrate it."""

    model: nn.Module
    raw: GraphModule
    fused: GraphModule
    inputs: list[Tensor]


@functools.cache
def quantized(name: str) -> Quantized:
    """The network of that name."""
    torch.set_num_threads(1)
    model, inputs = make(name, _CALIBRATION + _TESTS)
    calibration = [(x,) for x in inputs[:_CALIBRATION]]
    raw = routes.quantize_dequantize(model, calibration, quantizer())
    return Quantized(model, raw, routes.fused_copy(raw), inputs[_CALIBRATION:])
