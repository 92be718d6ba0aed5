# SPDX-License-Identifier: BSD-3-Clause
"""Trained networks measured: what is left outside the delegate, noise, and the task itself.

A `Study` has a float network, inputs, and a function that says in words how well the network does
its task with the fused program's outputs; `measure` makes one row of a table of docs/models.md.
"""

from __future__ import annotations

import copy
import dataclasses
import pathlib
from collections.abc import Callable, Sequence

import torch
from tabulate import tabulate
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

import fused_quant
from examples.pipeline import signal_to_noise
from fused_quant import graph
from fused_quant.quantizer import FusedQuantQuantizer, default_config
from tools import support_table

Outputs = list[Tensor]  # one tensor per output of the network, all inputs concatenated
_COUNTS = ("Parameters", "Delegate calls", "Left outside")
HEADERS = ("Network", *_COUNTS, "SQNR q/dq, dB", "SQNR fused, dB", "Task: float and fused")


@dataclasses.dataclass(frozen=True)
class Study:
    """model: in evaluation mode. task: a sentence from float and fused outputs on the test inputs.

    histogram: calibrate with histograms; otherwise with minimum and maximum, which is many times
    faster.
    """

    name: str
    model: nn.Module
    calibration: Sequence[Tensor]
    tests: Sequence[Tensor]
    task: Callable[[Outputs, Outputs], str]
    histogram: bool = True


@dataclasses.dataclass(frozen=True)
class Quantized:
    """The q/dq graph, the fused program, delegate calls and operators left outside."""

    raw: GraphModule
    fused: GraphModule
    calls: int
    left: tuple[str, ...]


def quantizer(dtype: torch.dtype, histogram: bool) -> FusedQuantQuantizer:
    """The default quantizer; embedding tables on one grid, as the kernel asks."""

    def config(per_channel: bool) -> QuantizationConfig:
        found = default_config(per_channel, activation_dtype=dtype)
        if histogram or dtype != torch.int8:
            return found
        observer = MinMaxObserver.with_args(eps=2.0**-24)
        spec = dataclasses.replace(found.input_activation, observer_or_fake_quant_ctr=observer)
        return dataclasses.replace(found, input_activation=spec, output_activation=spec)

    made = fused_quant.default_quantizer(config(per_channel=True))
    return made.set_operator_type(torch.ops.aten.embedding.default, config(per_channel=False))


def quantize(study: Study, dtype: torch.dtype = torch.int8) -> Quantized:
    """Calibrates, converts and fuses, and asks what the delegate would take."""
    example = (study.tests[0],)
    module = torch.export.export(study.model, example).module()
    prepared = prepare_pt2e(module, quantizer(dtype, study.histogram))
    with torch.no_grad():
        for x in study.calibration:
            prepared(x)
    raw = convert_pt2e(prepared)
    fused = fused_quant.fuse(copy.deepcopy(raw))
    explanation = fused_quant.explain(torch.export.export(fused, example))
    left = tuple(str(refusal) for _, refusal in explanation.computing)
    return Quantized(raw, fused, explanation.partitions, left)


def with_float_activations(raw: GraphModule) -> GraphModule:
    """The q/dq graph without the rounding of its activations: float, but for the weights."""
    module = copy.deepcopy(raw)
    for node in graph.calls(module):
        if graph.op_of(node) != graph.DEQUANTIZE:
            continue
        source = node.args[0]
        if isinstance(source, Node) and graph.op_of(source) == graph.QUANTIZE:
            value = source.args[0]
            assert isinstance(value, Node)
            node.replace_all_uses_with(value)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def outputs(module: nn.Module, inputs: Sequence[Tensor]) -> Outputs:
    """All outputs, one call per input."""
    with torch.no_grad():
        rows = [module(x) for x in inputs]
    several = [row if isinstance(row, (tuple, list)) else (row,) for row in rows]
    return [torch.cat(list(column)) for column in zip(*several, strict=True)]


def noise(reference: Outputs, values: Outputs) -> list[float]:
    """Signal to quantization noise of each output in decibels."""
    return [signal_to_noise(a, b) for a, b in zip(reference, values, strict=True)]


def activation_noise(made: Quantized, inputs: Sequence[Tensor]) -> float:
    """Of the first output, against float activations with the same quantized weights, in dB."""
    exact = outputs(with_float_activations(made.raw), inputs)
    return noise(exact, outputs(made.fused, inputs))[0]


def _decibels(values: list[float]) -> str:
    return ", ".join(f"{x:.1f}" for x in values)


def measure(study: Study) -> tuple[str, ...]:
    """One row of the table."""
    made = quantize(study)
    exact, simulated, integers = (
        outputs(module, study.tests) for module in (study.model, made.raw, made.fused)
    )
    return (
        study.name,
        f"{sum(p.numel() for p in study.model.parameters()):,}",
        str(made.calls),
        str(len(made.left)),
        _decibels(noise(exact, simulated)),
        _decibels(noise(exact, integers)),
        study.task(exact, integers),
    )


def table(rows: Sequence[Sequence[str]], headers: Sequence[str] = HEADERS) -> str:
    """GitHub's markup; numbers as they were written."""
    return tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)


def write(page: pathlib.Path, name: str, text: str) -> None:
    """Puts the text between the markers `<!-- name:begin -->` and `<!-- name:end -->`."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    page.write_text(support_table.replaced(page.read_text(), text, begin, end))
