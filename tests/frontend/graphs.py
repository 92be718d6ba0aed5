# SPDX-License-Identifier: BSD-3-Clause
"""Quantized graphs written by hand, with parameters no observer chooses, and their payloads."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.ao.quantization.fx._decomposed import quantized_decomposed_lib  # noqa: F401
from torch.export import ExportedProgram
from torch.fx import GraphModule

import fused_quant
from fused_quant import native, payload
from fused_quant.preprocess import lower_program
from fused_quant.target import resolve_target

_qd = torch.ops.quantized_decomposed


@dataclasses.dataclass(frozen=True)
class Grid:
    """real = scale * (code - zero_point), codes in [low, high].

    The scale is rounded to float32, as an observer's is; `exact` keeps it.
    """

    scale: float
    zero_point: int = 0
    low: int = -128
    high: int = 127
    dtype: torch.dtype = torch.int8
    exact: bool = False

    def __post_init__(self) -> None:
        if not self.exact:
            (rounded,) = struct.unpack("<f", struct.pack("<f", self.scale))
            object.__setattr__(self, "scale", rounded)

    def quantize(self, x: Tensor) -> Tensor:
        """The stock quantize operator."""
        return _qd.quantize_per_tensor.default(
            x, self.scale, self.zero_point, self.low, self.high, self.dtype
        )

    def dequantize(self, codes: Tensor) -> Tensor:
        """The stock dequantize operator."""
        return _qd.dequantize_per_tensor.default(
            codes, self.scale, self.zero_point, self.low, self.high, self.dtype
        )

    def round(self, x: Tensor) -> Tensor:
        """Quantize, then dequantize."""
        return self.dequantize(self.quantize(x))


def outside(x: Tensor) -> Tensor:
    """An operator without a kernel of ours: ExecuTorch's portable kernels run it."""
    return torch.cumsum(x, -1)


class Weights(nn.Module):
    """int8 codes with a scale per output channel, or one, as a converted graph holds them."""

    def __init__(
        self, codes: Tensor, scales: list[float], axis: int = 0, zero_point: int = 0
    ) -> None:
        super().__init__()
        self.register_buffer("codes", codes.to(torch.int8))
        self.register_buffer("scales", torch.tensor(scales))
        self.register_buffer("zeros", torch.full((len(scales),), zero_point, dtype=torch.int64))
        self.axis = axis
        self.grid = Grid(scales[0], zero_point, -127, 127) if len(scales) == 1 else None

    def forward(self) -> Tensor:
        if self.grid is not None:
            return self.grid.dequantize(self.get_buffer("codes"))
        return _qd.dequantize_per_channel.default(
            self.codes, self.scales, self.zeros, self.axis, -127, 127, torch.int8
        )


class Graph(nn.Module):
    """A function over submodules as a module."""

    def __init__(self, function: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.names = list(modules)
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*(getattr(self, name) for name in self.names), *inputs)


def exported(module: nn.Module, *inputs: Tensor) -> GraphModule:
    """The graph of a module, as `fuse` takes it."""
    return torch.export.export(module.eval(), inputs).module()


def fused(module: nn.Module, *inputs: Tensor) -> GraphModule:
    """The fused graph of a hand-written q/dq module."""
    return fused_quant.fuse(exported(module, *inputs))


def targets(gm: GraphModule) -> list[str]:
    """The operators a graph calls, in order."""
    return [str(node.target) for node in gm.graph.nodes if node.op == "call_function"]


def payload_of(module: nn.Module, *inputs: Tensor) -> bytes:
    """The payload of a graph that the delegate runs as a whole."""
    return payload_of_program(torch.export.export(module, inputs))


def payload_of_program(program: ExportedProgram) -> bytes:
    """The same of an exported graph."""
    return payload.serialize(lower_program(program, resolve_target(None)))


def run_natively(module: nn.Module, *inputs: Tensor) -> list[Tensor]:
    """The outputs of the C++ runtime, without ExecuTorch, for inputs in the order they are stored.

    The arena is poisoned before the run.
    """
    return run_payload(payload_of(module, *inputs), *inputs)


def run_payload(data: bytes, *inputs: Tensor) -> list[Tensor]:
    """The same of a payload."""
    plan = native.Plan(data)
    arrays = []
    for value, info in zip(inputs, plan.inputs, strict=True):
        order = info.dim_order or tuple(range(value.dim()))
        arrays.append(value.permute(order).contiguous().numpy())
    results = []
    for array, info in zip(plan.run(arrays), plan.outputs, strict=True):
        stored = list(info.dim_order or range(array.ndim))
        inverse = [stored.index(axis) for axis in range(array.ndim)]
        results.append(torch.from_numpy(array).permute(inverse).contiguous())
    return results
