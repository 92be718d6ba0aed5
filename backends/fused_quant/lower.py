# SPDX-License-Identifier: BSD-3-Clause
"""`lower`: from an nn.Module to an ExecuTorch program in one call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from executorch.exir import ExecutorchProgramManager, to_edge_transform_and_lower
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from tqdm import tqdm

from fused_quant.partitioner import FusedQuantPartitioner
from fused_quant.quantizer import FusedQuantQuantizer, default_quantizer
from fused_quant.target import Target

Inputs = tuple[Any, ...]


def quantize(
    module: torch.nn.Module,
    example_inputs: Inputs,
    calibration_inputs: Iterable[Inputs | torch.Tensor],
    quantizer: FusedQuantQuantizer | None = None,
    progress: bool = True,
) -> GraphModule:
    """Export, calibrate, convert and fuse; the result runs the integer arithmetic in eager mode.

    calibration_inputs: argument tuples, or single tensors for a module with one input. A progress
    bar is shown on a terminal while calibrating.
    Raises ValueError when there is nothing to calibrate with.
    """
    chosen = default_quantizer() if quantizer is None else quantizer
    exported = torch.export.export(module.eval(), example_inputs).module()
    prepared = prepare_pt2e(exported, chosen)
    samples = 0
    bar = tqdm(calibration_inputs, desc="calibrating", disable=None if progress else True)
    with torch.no_grad():
        for inputs in bar:
            prepared(*(inputs if isinstance(inputs, tuple) else (inputs,)))
            samples += 1
    if samples == 0:
        raise ValueError("calibration_inputs: got no inputs, expected at least one")
    return chosen.fuse(convert_pt2e(prepared))


def lower(
    module: torch.nn.Module,
    example_inputs: Inputs,
    calibration_inputs: Iterable[Inputs | torch.Tensor],
    target: str | Target | None = None,
) -> ExecutorchProgramManager:
    """Quantize with the default quantizer and lower to an ExecuTorch program.

    example_inputs: one argument tuple; its shapes and dimension orders are those of the program.
    target: the target to make the payload for; None = every target.
    """
    partitioner = FusedQuantPartitioner(target)
    fused = quantize(module, example_inputs, calibration_inputs)
    program = torch.export.export(fused, example_inputs)
    return to_edge_transform_and_lower(program, partitioner=[partitioner]).to_executorch()
