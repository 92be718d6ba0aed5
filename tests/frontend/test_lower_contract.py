# SPDX-License-Identifier: BSD-3-Clause
"""`lower` and programs of several methods."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import to_edge, to_edge_transform_and_lower
from torch import nn

import fused_quant
from fused_quant import payload
from fused_quant.lower import quantize
from tests.e2e import routes

torch.set_num_threads(1)

X = torch.linspace(-1, 1, 12).reshape(2, 6)


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def test_lower_gives_a_program_that_runs_as_the_fused_one() -> None:
    calibration = [X, X / 2]
    program = fused_quant.lower(_model(), (X,), iter(calibration))
    expected = quantize(_model(), (X,), [(value,) for value in calibration], progress=False)
    data = bytes(program.buffer)
    assert len(payload.extract_payloads(data)) == 1
    (got,) = routes.execute(routes.load(data), (X,))
    assert torch.equal(got, expected(X))


def test_lower_for_a_named_target() -> None:
    data = bytes(fused_quant.lower(_model(), (X,), [X], target="generic").buffer)
    (found,) = payload.extract_payloads(data)
    assert payload.deserialize(found).target == "generic"


def test_lower_without_calibration_inputs() -> None:
    with pytest.raises(ValueError, match=r"calibration_inputs: got no inputs"):
        fused_quant.lower(_model(), (X,), [])


def test_lower_for_an_unknown_target() -> None:
    with pytest.raises(ValueError, match=r"got 'z80', supported: .*generic"):
        fused_quant.lower(_model(), (X,), [X], target="z80")


@pytest.mark.parametrize("route", routes.ROUTES)
def test_several_methods(route: str) -> None:
    """Each method has its own delegate, and the reasons of the last one are kept."""
    first = quantize(_model(), (X,), [X], progress=False)
    second = quantize(nn.Conv2d(2, 3, 2), (X.reshape(1, 2, 2, 3),), [X.reshape(1, 2, 2, 3)])
    inputs = {"rows": X, "image": X.reshape(1, 2, 2, 3)}
    programs = {
        "rows": torch.export.export(first, (X,)),
        "image": torch.export.export(second, (inputs["image"],)),
    }
    partitioner = fused_quant.FusedQuantPartitioner()
    if route == routes.TO_EDGE:
        edge = to_edge(programs).to_backend(partitioner)
    else:
        edge = to_edge_transform_and_lower(programs, partitioner=[partitioner])
    data = bytes(edge.to_executorch().buffer)
    assert len(payload.extract_payloads(data)) == 2
    for name, module in (("rows", first), ("image", second)):
        assert routes.operators(edge, name) == ["executorch_call_delegate"]
        (got,) = routes.execute(routes.load(data, name), (inputs[name],))
        assert torch.equal(got, module(inputs[name]))


def test_inputs_that_differ_in_number() -> None:
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    program = fused_quant.lower(Sum(), (X, X.clone()), [(X, X / 2)])
    (got,) = routes.execute(routes.load(bytes(program.buffer)), (X, X / 2))
    assert float((got - 1.5 * X).abs().max()) < 0.03
