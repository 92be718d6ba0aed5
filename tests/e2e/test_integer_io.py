# SPDX-License-Identifier: BSD-3-Clause
"""Programs whose inputs and outputs are codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import EdgeProgramManager, to_edge, to_edge_transform_and_lower
from executorch.exir.passes.quantize_io_pass import QuantizeInputs, QuantizeOutputs
from torch import Tensor, nn
from torch.export import ExportedProgram, export
from torch.nn import functional

import fused_quant
from fused_quant.inspect import inspect_file, main, to_text
from tests.e2e import routes
from tests.frontend.graphs import Graph, Grid, Weights, fused

torch.set_num_threads(1)

IN, MID, OUT = Grid(0.05, -3), Grid(0.0371, 11), Grid(0.0293, 7)
BYTE_IN = Grid(0.05, 125, 0, 255, torch.uint8)
BYTE_OUT = Grid(0.0293, 135, 0, 255, torch.uint8)
ROW = torch.linspace(-5, 5, 24).reshape(4, 6)
_CODES = torch.arange(-12, 12).reshape(4, 6)


def _module(before: Grid, after: Grid) -> nn.Module:
    """Two outputs of one input; one stays float."""

    def function(w: Weights, x: Tensor) -> tuple[Tensor, Tensor]:
        y = MID.round(functional.linear(before.round(x), w()))
        return after.round(functional.relu(y)), y.flatten()

    return Graph(function, w=Weights(_CODES, [0.1]))


def _lowered(program: ExportedProgram, methods: dict[str, Any], route: str) -> EdgeProgramManager:
    partitioner = fused_quant.FusedQuantPartitioner()
    if route == routes.TO_EDGE:
        return to_edge(program, constant_methods=methods).to_backend(partitioner)
    return to_edge_transform_and_lower(program, partitioner=[partitioner], constant_methods=methods)


@pytest.mark.parametrize("route", routes.ROUTES)
@pytest.mark.parametrize(("before", "after"), [(IN, OUT), (BYTE_IN, BYTE_OUT)])
def test_codes_in_and_out(route: str, before: Grid, after: Grid) -> None:
    """One delegate call, no boundary operator left, the bits of the program with float edges."""
    module = fused(_module(before, after), ROW)
    program = export(module, (ROW,))
    integer, methods = fused_quant.integer_io(program, outputs=[0])
    edge = _lowered(integer, methods, route)
    names = [n for n in routes.operators(edge) if "view" not in n]
    assert names.count("executorch_call_delegate") == 1
    assert not [n for n in names if ".quantize_per" in n]
    first, second = routes.run(edge, (before.quantize(ROW),))
    wanted, other = routes.eager(module, (ROW,))
    assert first.dtype == after.dtype
    assert torch.equal(first, after.quantize(wanted))
    assert torch.equal(second, other)
    assert methods["input0_scale"] == before.scale
    assert (methods["output0_scale"], methods["output0_zp"]) == (after.scale, after.zero_point)
    assert methods["output0_quant_max"] == after.high
    assert "output1_scale" not in methods


def test_parameters_are_methods_of_the_program_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    integer, methods = fused_quant.integer_io(export(_module(IN, OUT), (ROW,)))
    data = bytes(_lowered(integer, methods, routes.TRANSFORM).to_executorch().buffer)
    for name, value in methods.items():
        assert routes.load(data, name).execute(()) == [value]
    (shown,) = inspect_file(data)
    assert f"input 0: int8, scale {IN.scale:.6g}, zero point -3, codes -128..127" in to_text(shown)
    path = tmp_path / "model.pte"
    path.write_bytes(data)
    assert main([str(path), "--json"]) == 0
    (described,) = json.loads(capsys.readouterr().out)
    assert described["boundary"]["output0"] == {
        "scale": OUT.scale,
        "zp": 7,
        "quant_min": -128,
        "quant_max": 127,
        "dtype": "int8",
    }


def test_the_passes_of_executorch() -> None:
    """They work on the edge program before it is delegated."""
    module = _module(IN, OUT)
    edge = to_edge(export(module, (ROW,)))
    passes = [QuantizeInputs(edge, [0]), QuantizeOutputs(edge, [0])]
    lowered = edge.transform(passes).to_backend(fused_quant.FusedQuantPartitioner())
    assert routes.operators(lowered).count("executorch_call_delegate") == 1
    (got, _) = routes.run(lowered, (IN.quantize(ROW),))
    assert torch.equal(got, OUT.quantize(routes.eager(fused(module, ROW), (ROW,))[0]))
    (shown,) = inspect_file(bytes(lowered.to_executorch().buffer))
    assert shown.boundary["input0"]["scale"] == IN.scale


def test_chosen_positions_and_names() -> None:
    program = export(_module(IN, OUT), (ROW,))
    integer, methods = fused_quant.integer_io(program, inputs=(), outputs=[0], method="encode")
    assert set(methods) == {
        f"encode_output0_{field}" for field in ("scale", "zp", "quant_min", "quant_max", "dtype")
    }
    first, second = integer.module()(ROW)
    assert torch.equal(first, OUT.quantize(_module(IN, OUT)(ROW)[0]))
    assert second.dtype == torch.float32
    assert [v.dtype for v in program.module()(ROW)] == [torch.float32] * 2


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ({"inputs": [1]}, "input 1: supported: 0 to 0"),
        ({"outputs": [1]}, "output 1: made by aten.flatten"),
        ({"inputs": [0]}, "input 0: quantized with 2 sets of parameters, supported: one"),
    ],
)
def test_what_is_not_quantized_at_the_boundary(chosen: dict[str, Any], text: str) -> None:
    def two(w: Weights, x: Tensor) -> tuple[Tensor, Tensor]:
        return OUT.round(IN.round(x) + MID.round(x)), MID.round(x).flatten()

    with pytest.raises(ValueError, match=text):
        fused_quant.integer_io(export(Graph(two, w=Weights(_CODES, [0.1])), (ROW,)), **chosen)
