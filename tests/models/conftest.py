# SPDX-License-Identifier: BSD-3-Clause
"""Whole models, taken once per process from a float module to a .pte."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pathlib
from collections.abc import Callable

import pytest
import torch
from executorch.exir import ExecutorchProgramManager
from torch.fx import GraphModule

from examples import mlperf_tiny, pipeline
from examples.digits import data, train

CALIBRATION = 24


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A model at every stage, with inputs that were not used to calibrate it."""

    name: str
    model: torch.nn.Module
    quantized: GraphModule
    fused: GraphModule
    edge: GraphModule
    program: ExecutorchProgramManager
    inputs: list[torch.Tensor]

    def write(self, folder: pathlib.Path) -> pathlib.Path:
        """The program as a file."""
        path = folder / f"{self.name}.pte"
        path.write_bytes(self.program.buffer)
        return path


def lower(
    name: str,
    model: torch.nn.Module,
    calibration: list[torch.Tensor],
    inputs: list[torch.Tensor],
) -> Lowered:
    """Quantize, fuse and lower."""
    quantized = pipeline.quantize(model, inputs[0], calibration, progress=False)
    fused = pipeline.fuse(copy.deepcopy(quantized))
    edge = pipeline.to_edge(fused, inputs[0])
    graph = edge.exported_program().graph_module
    return Lowered(name, model, quantized, fused, graph, edge.to_executorch(), inputs)


def _mlperf(name: str, trained: bool, count: int) -> Lowered:
    try:
        model = mlperf_tiny.LOADERS[name](trained)
    except mlperf_tiny.WeightsUnavailableError as error:
        pytest.skip(f"no trained weights: {error}")
    calibration = mlperf_tiny.calibration_inputs(name, CALIBRATION, trained)
    inputs = mlperf_tiny.test_inputs(name, count, trained)
    return lower(f"{name}-{'trained' if trained else 'random'}", model, calibration, inputs)


@functools.cache
def digits_model() -> tuple[data.Digits, torch.nn.Module]:
    """The digits and `DigitsNet` trained on them."""
    digits = data.load()
    return digits, train.train(digits, progress=False)


def _digits() -> Lowered:
    digits, model = digits_model()
    calibration = list(torch.split(digits.train_images[:64], 1))
    return lower("digits", model, calibration, list(torch.split(digits.test_images[:32], 1)))


BUILDERS: dict[str, Callable[[], Lowered]] = {
    "digits": _digits,
    "resnet8-trained": lambda: _mlperf("resnet8", trained=True, count=4),
    "ds_cnn-trained": lambda: _mlperf("ds_cnn", trained=True, count=8),
    "mobilenet_v1-trained": lambda: _mlperf("mobilenet_v1", trained=True, count=3),
    "autoencoder-trained": lambda: _mlperf("autoencoder", trained=True, count=8),
    "resnet8-random": lambda: _mlperf("resnet8", trained=False, count=2),
    "ds_cnn-random": lambda: _mlperf("ds_cnn", trained=False, count=2),
    "mobilenet_v1-random": lambda: _mlperf("mobilenet_v1", trained=False, count=2),
    "autoencoder-random": lambda: _mlperf("autoencoder", trained=False, count=4),
}
# Of those with random weights, these two differ from the trained ones by more than the weights.
CHECKED = tuple(
    name for name in BUILDERS if name not in ("mobilenet_v1-random", "autoencoder-random")
)


def mlperf_tiny_names() -> tuple[str, ...]:
    """All four, which the boards run: trained, or random where the weights cannot be had."""
    try:
        mlperf_tiny.load_autoencoder()
    except mlperf_tiny.WeightsUnavailableError:
        return tuple(f"{name}-random" for name in mlperf_tiny.LOADERS)
    return tuple(f"{name}-trained" for name in mlperf_tiny.LOADERS)


@functools.cache
def built(name: str) -> Lowered:
    """The model of that name, made once."""
    torch.set_num_threads(1)
    return BUILDERS[name]()


@pytest.fixture(params=CHECKED)
def lowered(request: pytest.FixtureRequest) -> Lowered:
    """Every model of CHECKED, one after the other."""
    return built(request.param)


@pytest.fixture
def trained_digits() -> tuple[data.Digits, torch.nn.Module]:
    """The digits and `DigitsNet` trained on them."""
    torch.set_num_threads(1)
    return digits_model()
