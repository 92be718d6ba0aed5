# SPDX-License-Identifier: BSD-3-Clause
"""Whole models: one delegate call, the same bits everywhere, every layer close to float."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from tabulate import tabulate

from examples import mlperf_tiny, pipeline
from fused_quant import payload
from tests.models import layerwise

if TYPE_CHECKING:
    from tests.models.conftest import Lowered

# Operators after fusion: activations, BatchNorm, padding and dropout are in their neighbours.
LAYERS = {"digits": 9, "resnet8": 14, "ds_cnn": 11, "mobilenet_v1": 29, "autoencoder": 10}

# Least signal-to-quantization-noise ratio of the scores against the float module, in decibels: a
# few below the measured.
LEAST_SQNR = {
    "digits": 30.0,
    "resnet8-trained": 28.0,
    "resnet8-random": 35.0,
    "ds_cnn-trained": 28.0,
    "ds_cnn-random": 30.0,
    "mobilenet_v1-trained": 18.0,
    "autoencoder-trained": 38.0,
}


def test_one_delegate_call_and_nothing_else(lowered: Lowered) -> None:
    """No quantize, dequantize or compute operator stays outside the delegate."""
    kinds = {"placeholder", "output", "get_attr"}
    calls = [n for n in lowered.edge.graph.nodes if n.op not in kinds]
    delegates = [n for n in calls if "executorch_call_delegate" in str(n.target)]
    others = [n for n in calls if n not in delegates and "getitem" not in str(n.target)]
    assert len(delegates) == 1
    assert [f"{n.name}: {n.target}" for n in others] == []
    assert len(payload.extract_payloads(lowered.program.buffer)) == 1


def test_weights_are_only_in_the_payload(lowered: Lowered) -> None:
    """The program holds no constant beside the payload: no weight, no scale, in any type."""
    program = deserialize_pte_binary(lowered.program.buffer).program
    assert sum(len(buffer.storage) for buffer in program.constant_buffer) == 0
    assert len(program.constant_segment.offsets) == 0
    size = len(lowered.program.buffer)
    assert size - len(payload.extract_payloads(lowered.program.buffer)[0]) < 2048


def test_host_runs_the_bits_of_the_fused_program(lowered: Lowered, tmp_path: pathlib.Path) -> None:
    """ExecuTorch with the delegate gives the eager fused program's outputs, all bits of them."""
    eager = pipeline.run_eager(lowered.fused, lowered.inputs, "eager", progress=False)
    host = pipeline.run_host(lowered.write(tmp_path), lowered.inputs, progress=False)
    assert pipeline.same_bits(eager, host) == 1.0


@pytest.mark.firmware
def test_board_runs_the_bits_of_the_fused_program(lowered: Lowered, tmp_path: pathlib.Path) -> None:
    """The same .pte on an emulated Cortex-M4 gives the eager fused program's outputs."""
    eager = pipeline.run_eager(lowered.fused, lowered.inputs, "eager", progress=False)
    run = pipeline.run_board(lowered.write(tmp_path), lowered.inputs, "mps2-an386", progress=False)
    print(f"{lowered.name}: {run.instructions:,} instructions per inference")
    assert pipeline.same_bits(eager, run.outputs) == 1.0
    assert run.instructions > 0


def test_every_layer_is_close_to_float(lowered: Lowered) -> None:
    """On its own inputs, each of a layer's outputs is within one code of the q/dq graph."""
    layers = layerwise.compare(lowered.fused, lowered.inputs)
    rows = [
        (x.name, x.operator, x.outputs, f"{x.equal:.4%}", f"{x.within_one:.4%}", x.largest)
        for x in layers
    ]
    print(tabulate(rows, headers=("layer", "operator", "outputs", "equal", "within 1", "largest")))
    assert len(layers) == LAYERS[lowered.name.partition("-")[0]]
    assert [x.name for x in layers if x.largest > 1] == []


def test_scores_are_close_to_the_float_module(lowered: Lowered) -> None:
    """The fused program against the float module, and against the q/dq graph it came from."""
    reference = pipeline.run_eager(lowered.model, lowered.inputs, "float", progress=False)
    fused = pipeline.run_eager(lowered.fused, lowered.inputs, "eager", progress=False)
    simulated = pipeline.run_eager(lowered.quantized, lowered.inputs, "q/dq", progress=False)
    sqnr = pipeline.signal_to_noise(reference, fused)
    simulated_sqnr = pipeline.signal_to_noise(reference, simulated)
    print(
        f"{lowered.name}: SQNR {sqnr:.1f} dB (q/dq graph {simulated_sqnr:.1f} dB); "
        f"inputs of ds_cnn: {mlperf_tiny.sound_source()}"
    )
    assert sqnr > LEAST_SQNR[lowered.name]
    assert abs(sqnr - simulated_sqnr) < 3.0
    if lowered.name == "autoencoder-trained":
        _assert_same_order(reference, fused, torch.cat(lowered.inputs))
    elif lowered.name.endswith("-trained"):
        _assert_same_classes(reference, fused)


def _assert_same_classes(reference: torch.Tensor, fused: torch.Tensor) -> None:
    """Where the float module is sure to 70 %."""
    sure = reference.softmax(1).amax(1) > 0.7
    assert sure.any()
    assert torch.equal(fused.argmax(1)[sure], reference.argmax(1)[sure])


def _assert_same_order(reference: torch.Tensor, fused: torch.Tensor, x: torch.Tensor) -> None:
    """Of the errors of reconstruction, which tell sound machines from faulty ones, but for 10 %."""
    exact, integers = ((y - x).square().mean(1) for y in (reference, fused))
    apart = exact[:, None] > 1.1 * exact[None]
    assert apart.sum() > 10
    assert bool((integers[:, None] > integers[None])[apart].all())
