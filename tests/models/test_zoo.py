# SPDX-License-Identifier: BSD-3-Clause
"""The networks of the zoo: whole in the delegate, the fused program's bits, layers near float."""

from __future__ import annotations

import pytest
import torch

from examples.pipeline import run_eager, signal_to_noise
from examples.zoo.small import SMALL
from fused_quant.claims import claim
from fused_quant.target import resolve_target
from tests.e2e import routes
from tests.frontend.graphs import run_natively
from tests.models import layerwise
from tests.models.zoo import quantized

# Decibels that the fused program may lose against the q/dq graph it came from.
_LOSS = 3.0


@pytest.mark.parametrize("name", SMALL)
def test_the_delegate_takes_the_network_whole_and_runs_its_bits(name: str) -> None:
    """One partition, nothing refused; the C++ runtime gives the eager fused program's outputs."""
    network = quantized(name)
    program = torch.export.export(network.fused, (network.inputs[0],))
    claims = claim(program, resolve_target(None))
    assert [str(refusal) for refusal in claims.refusals] == []
    assert len(set(claims.partitions.values())) == 1
    for x in network.inputs[:2]:
        routes.assert_same_bits(run_natively(network.fused, x), routes.eager(network.fused, (x,)))


@pytest.mark.parametrize("name", SMALL)
def test_every_layer_is_close_to_float(name: str) -> None:
    """Each of a layer's outputs is within a code of dequantize -> ATen -> quantize."""
    network = quantized(name)
    layers = layerwise.compare(network.fused, network.inputs[:2])
    assert layers
    far = [f"{x.name}: {x.within_one:.2%}, {x.largest}" for x in layers if x.largest > 1]
    assert far == []


@pytest.mark.parametrize("name", SMALL)
def test_the_outputs_are_as_near_to_float_as_the_simulation(name: str) -> None:
    """Signal to quantization noise of the fused program and of the q/dq graph it came from."""
    network = quantized(name)
    reference, raw, fused = (
        run_eager(module, network.inputs, name, progress=False)
        for module in (network.model, network.raw, network.fused)
    )
    simulated = signal_to_noise(reference, raw)
    assert signal_to_noise(reference, fused) > simulated - _LOSS


@pytest.mark.parametrize(
    ("name", "route"), [("GruSpotter", routes.TRANSFORM), ("UNet", routes.TO_EDGE)]
)
def test_executorch_runs_the_network_in_one_delegate_call(name: str, route: str) -> None:
    """The q/dq graph, lowered: both routes come to the fused program's bits."""
    network = quantized(name)
    inputs = (network.inputs[0],)
    edge = routes.lowered(network.raw, inputs, route)
    assert routes.is_one_delegate_call(edge)
    routes.assert_same_bits(routes.run(edge, inputs), routes.eager(network.fused, inputs))
