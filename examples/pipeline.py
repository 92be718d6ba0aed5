# SPDX-License-Identifier: BSD-3-Clause
"""The steps from a float module to outputs of a .pte, as the examples and the model tests use them.

Outputs are kept as float32 tensors and compared by their bits.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

import torch
from executorch.exir import EdgeProgramManager, to_edge_transform_and_lower
from torch.export import export
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from tqdm import tqdm

import fused_quant
from examples.quiet import filtered_stderr


def quantize(
    model: torch.nn.Module,
    example: torch.Tensor,
    calibration: Sequence[torch.Tensor],
    progress: bool = True,
) -> torch.fx.GraphModule:
    """Post-training quantization with the backend's own quantizer; the graph is not yet fused."""
    quantizer = fused_quant.default_quantizer()
    prepared = prepare_pt2e(export(model, (example,)).module(), quantizer)
    with torch.no_grad():
        for x in tqdm(calibration, "calibrate", unit="input", disable=not progress, leave=False):
            prepared(x)
    converted: torch.fx.GraphModule = convert_pt2e(prepared)
    return converted


def fuse(quantized: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Dequantize -> operator -> quantize becomes one integer operator, all through the graph."""
    return fused_quant.fuse(quantized)


def to_edge(fused: torch.nn.Module, example: torch.Tensor) -> EdgeProgramManager:
    """The edge program of a fused (or merely quantized) module, with our delegate's calls in it."""
    return to_edge_transform_and_lower(
        export(fused, (example,)), partitioner=[fused_quant.FusedQuantPartitioner()]
    )


def run_eager(
    module: torch.nn.Module, inputs: Sequence[torch.Tensor], desc: str, progress: bool = True
) -> torch.Tensor:
    """Outputs of the module in PyTorch, one call per input, concatenated."""
    bar = tqdm(inputs, desc, unit="input", disable=not progress, leave=False)
    with torch.no_grad():
        return torch.cat([module(x) for x in bar])


def run_host(
    pte: pathlib.Path | str, inputs: Sequence[torch.Tensor], progress: bool = True
) -> torch.Tensor:
    """Outputs of a .pte in ExecuTorch's Python runtime with our delegate, concatenated."""
    with filtered_stderr():
        fused_quant.load_runtime()
        from executorch.runtime import Runtime

        program = Runtime.get().load_program(str(pte))
        method = program.load_method("forward")
    if method is None:
        raise RuntimeError(f"{pte} has no method 'forward'")
    bar = tqdm(inputs, "host", unit="input", disable=not progress, leave=False)
    return torch.cat([method.execute([x])[0].clone() for x in bar])


@dataclasses.dataclass(frozen=True)
class BoardRun:
    """Outputs of an emulated board, one row per input, and what the image costs there."""

    outputs: torch.Tensor
    instructions: int
    flash_bytes: int
    ram_bytes: int


def run_board(
    pte: pathlib.Path, inputs: Sequence[torch.Tensor], board: str, progress: bool = True
) -> BoardRun:
    """Outputs of a .pte on an emulated board, where it is part of the firmware image.

    `instructions` counts executed instructions (not cycles) of the longest inference. Needs the Arm
    cross compiler and QEMU; firmware.board.BoardError says what is missing.
    """
    from firmware.board import build_runner, run

    image = build_runner(board, pte)
    bar = tqdm(total=len(inputs), desc=board, unit="input", disable=not progress, leave=False)

    def show(done: int) -> None:
        bar.update(done - bar.n)

    with bar:
        result = run(image, [[x.contiguous().numpy()] for x in inputs], on_progress=show)
    outputs = torch.cat([torch.tensor(arrays[0]) for arrays in result.outputs])
    return BoardRun(outputs, result.instructions, image.flash_bytes, image.ram_bytes)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> float:
    """Share of elements of two float32 tensors with the same 32 bits (NaN and -0.0 included)."""
    if a.shape != b.shape or a.dtype != torch.float32 or b.dtype != torch.float32:
        raise ValueError(f"cannot compare {a.dtype} {a.shape} with {b.dtype} {b.shape}")
    if a.numel() == 0:
        raise ValueError("there is nothing to compare")
    same = a.contiguous().view(torch.int32) == b.contiguous().view(torch.int32)
    return float(same.double().mean())


def signal_to_noise(reference: torch.Tensor, value: torch.Tensor) -> float:
    """SQNR in decibels: 10 log10(sum(reference^2) / sum((value - reference)^2))."""
    noise = float((value - reference).double().square().sum())
    signal = float(reference.double().square().sum())
    return float("inf") if noise == 0 else float(10 * torch.log10(torch.tensor(signal / noise)))
