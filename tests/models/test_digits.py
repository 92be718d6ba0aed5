# SPDX-License-Identifier: BSD-3-Clause
"""The digits model in other layouts and batch sizes gives what it gives one image at a time."""

from __future__ import annotations

import copy
import operator
import pathlib
from typing import TYPE_CHECKING

import pytest
import torch
from torch.fx import GraphModule

from examples import pipeline
from examples.digits import data

if TYPE_CHECKING:
    from tests.models.conftest import Lowered

IMAGES = 12


def _take_quantization(target: GraphModule, source: GraphModule) -> None:
    """Give `target` the scales, zero points and quantized constants of `source`.

    Both come from the same float model. Their own observers saw float activations that were summed
    in another order, so their scales differ in the last bit.
    """
    for ours, theirs in zip(target.graph.nodes, source.graph.nodes, strict=True):
        assert (ours.op, str(ours.target)) == (theirs.op, str(theirs.target))
        if "quantized_decomposed" in str(ours.target):
            ours.args = (ours.args[0], *(_map(a, target) for a in theirs.args[1:]))
        if ours.op == "get_attr":
            name = operator.attrgetter(str(ours.target))
            with torch.no_grad():
                name(target).copy_(name(source))
    target.recompile()


def _map(argument: object, graph: GraphModule) -> object:
    if isinstance(argument, torch.fx.Node):
        return next(node for node in graph.graph.nodes if node.name == argument.name)
    return argument


@pytest.mark.parametrize("lowered", ["digits"], indirect=True)
@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("channels_last", [False, True], ids=["nchw", "channels_last"])
def test_layouts_and_batches(
    trained_digits: tuple[data.Digits, torch.nn.Module],
    lowered: Lowered,
    tmp_path: pathlib.Path,
    batch: int,
    channels_last: bool,
) -> None:
    """Batch 1, 2, 3 and both layouts: the bits of batch 1 in NCHW, in eager and on the host."""
    digits, model = trained_digits
    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = copy.deepcopy(model).to(memory_format=layout)
    images = torch.split(digits.test_images[:IMAGES], batch)
    inputs = [x.to(memory_format=layout) for x in images]

    quantized = pipeline.quantize(model, inputs[0], inputs, progress=False)
    _take_quantization(quantized, lowered.quantized)
    fused = pipeline.fuse(quantized)
    program = pipeline.to_edge(fused, inputs[0]).to_executorch()
    path = tmp_path / "digits.pte"
    path.write_bytes(program.buffer)

    expected = pipeline.run_eager(lowered.fused, lowered.inputs[:IMAGES], "one", progress=False)
    eager = pipeline.run_eager(fused, inputs, "eager", progress=False)
    host = pipeline.run_host(path, inputs, progress=False)
    assert pipeline.same_bits(expected, eager) == 1.0
    assert pipeline.same_bits(expected, host) == 1.0
