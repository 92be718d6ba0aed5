# SPDX-License-Identifier: BSD-3-Clause
"""What the partitioner takes and leaves: reasons, the shape of partitions, constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from executorch.exir import to_edge
from torch import Tensor, nn
from torch.nn import functional

import fused_quant
from fused_quant.claims import Refusal
from fused_quant.ops import registry
from tests.e2e import routes
from tests.frontend.graphs import Graph, Grid, Weights, outside

torch.set_num_threads(1)

# No value of one grid lies halfway between two of another: ties are no matter of this file.
IN, MID, OUT = Grid(0.05, -3), Grid(0.0371, 11), Grid(0.0293, 7)
I16 = Grid(0.001, 0, -32768, 32767, torch.int16)
ROW = torch.linspace(-3, 3, 24).reshape(4, 6)
IMAGE = torch.linspace(-4, 4, 2 * 3 * 6 * 5).reshape(2, 3, 6, 5)


def _lower(
    module: nn.Module, *inputs: Tensor, route: str = routes.TO_EDGE
) -> tuple[Any, list[Refusal]]:
    partitioner = fused_quant.FusedQuantPartitioner()
    edge = routes.lowered(module, inputs, route, partitioner)
    return edge, partitioner.refusals


def _linear(weights: Weights, bias: Tensor | None = None) -> nn.Module:
    def function(w: Weights, x: Tensor) -> Tensor:
        return OUT.round(functional.linear(IN.round(x), w(), bias))

    return Graph(function, w=weights)


def _unary(function: Callable[[Tensor], Tensor], before: Grid, after: Grid) -> nn.Module:
    return Graph(lambda x: after.round(function(before.round(x))))


_CODES = torch.arange(-12, 12).reshape(4, 6)
_WIDE = torch.full((2, 140_000), 127)
REFUSED: dict[str, tuple[str, str, nn.Module, tuple[Tensor, ...]]] = {
    # name: (operator, code of the reason, module, inputs)
    "rank-7": (
        "relu",
        "rank",
        _unary(functional.relu, IN, OUT),
        (torch.ones(1, 2, 1, 1, 1, 1, 3),),
    ),
    "dtype-int32": (
        "relu",
        "dtype",
        _unary(functional.relu, Grid(0.001, 0, -(2**31), 2**31 - 1, torch.int32), OUT),
        (ROW,),
    ),
    "dtype-mixed": (
        "add",
        "dtype",
        Graph(lambda x: I16.round(IN.round(x) + I16.round(x))),
        (ROW,),
    ),
    "zero-point-int16": (
        "relu",
        "zero_point",
        _unary(functional.relu, Grid(0.001, 5, -32768, 32767, torch.int16), OUT),
        (ROW,),
    ),
    "zero-point-outside": (
        "relu",
        "zero_point",
        _unary(functional.relu, Grid(0.1, 200), OUT),
        (ROW,),
    ),
    "range-scale-zero": ("relu", "scale", _unary(functional.relu, Grid(1e-42), OUT), (ROW,)),
    "range-scale-infinite": (
        "relu",
        "scale",
        _unary(functional.relu, IN, Grid(float("inf"))),
        (ROW,),
    ),
    "range-ratio": ("relu", "ratio", _unary(functional.relu, Grid(1e6), Grid(1e-6)), (ROW,)),
    "zero-point-weight": ("linear", "zero_point", _linear(Weights(_CODES, [0.1], 0, 3)), (ROW,)),
    "granularity": ("linear", "granularity", _linear(Weights(_CODES, [0.1] * 6, 1)), (ROW,)),
    "overflow": ("linear", "overflow", _linear(Weights(_WIDE, [0.1])), (torch.ones(1, 140_000),)),
    "dtype-mixed-linear": (
        "linear",
        "dtype",
        Graph(
            lambda w, x: OUT.round(functional.linear(I16.round(x), w())), w=Weights(_CODES, [0.1])
        ),
        (ROW,),
    ),
    "overflow-int16": (
        "bmm",
        "overflow",
        Graph(lambda a, b: I16.round(torch.bmm(I16.round(a), I16.round(b)))),
        (torch.zeros(1, 1, 131_072), torch.zeros(1, 131_072, 1)),
    ),
    "operator": ("cumsum", "operator", _unary(outside, IN, OUT), (ROW,)),
    "boundary-float-input": (
        "add",
        "float_input",
        Graph(lambda x, y: OUT.round(IN.round(x) + y)),
        (ROW, ROW),
    ),
    "boundary-float-output": (
        "add",
        "float_output",
        Graph(lambda x: (IN.round(x) + MID.round(x)) * x),
        (ROW,),
    ),
    "attribute-alpha": (
        "add",
        "attribute",
        Graph(lambda x: OUT.round(torch.add(IN.round(x), MID.round(x), alpha=0))),
        (ROW,),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_late_reject_is_refused_ahead_of_time_with_a_reason(name: str) -> None:
    """Just outside of what the runtime can do: a reason is recorded, and the program still runs."""
    operator, code, module, inputs = REFUSED[name]
    edge, refusals = _lower(module, *inputs)
    found = [refusal for refusal in refusals if f"aten.{operator}" in refusal.operator]
    if operator == "linear":
        found = [refusal for refusal in refusals if "mm" in refusal.operator]
    assert [refusal.reason.code for refusal in found] == [code] * len(found)
    assert found, [str(refusal) for refusal in refusals]
    assert all(refusal.node and str(refusal.reason) for refusal in refusals)
    if name.startswith("range"):
        return  # no finite result to compare
    names = routes.operators(edge)
    assert not [n for n in names if n.startswith("fused_quant.")]


def test_late_reject_of_an_operator_without_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_kernel(target: Any) -> Any:
        spec = registered(target)
        return spec if spec is None or spec.name != "relu" else replace(spec, runtime=None)

    registered = registry.spec_of
    monkeypatch.setattr(registry, "spec_of", without_kernel)
    edge, refusals = _lower(_unary(functional.relu, IN, OUT), ROW)
    found = [refusal for refusal in refusals if "relu" in refusal.operator]
    assert [refusal.reason.code for refusal in found] == ["kernel"]
    assert any("relu" in name for name in routes.operators(edge))


def test_late_reject_transposed_convolution() -> None:
    """Of three dimensions: there is no kernel, nor has ExecuTorch one."""
    conv, volume = nn.ConvTranspose3d(3, 4, 3, stride=2), IMAGE.unsqueeze(2)
    quantizer = fused_quant.FusedQuantQuantizer(
        fused_quant.get_core_aten_quantizers(*[fused_quant.quantizer.default_config()] * 2)
    )
    raw = routes.quantize_dequantize(conv, [(volume,)], quantizer)
    edge, refusals = _lower(raw, volume)
    found = [refusal for refusal in refusals if "convolution" in refusal.operator]
    assert [refusal.reason.code for refusal in found] == ["rank"]
    assert any("convolution" in name for name in routes.operators(edge))


def test_registration_unclaimed_quantized_operators_run() -> None:
    """A float island between two claimed regions, in the process that imports only our package."""

    def function(x: Tensor) -> Tensor:
        first = MID.round(functional.relu(IN.round(x)))
        return OUT.round(functional.relu(MID.round(outside(first))))

    for route in routes.ROUTES:
        edge, _ = _lower(Graph(function), ROW, route=route)
        assert routes.operators(edge).count("executorch_call_delegate") == 2
        (got,) = routes.run(edge, (ROW,))
        assert float((got - function(ROW)).abs().max()) <= OUT.scale * 1.001


def _shared_input(x: Tensor) -> tuple[Tensor, Tensor]:
    codes = IN.round(x)
    return OUT.round(functional.relu(codes)), MID.round(codes + codes)


def _around_outside(x: Tensor) -> Tensor:
    first = MID.round(functional.relu(IN.round(x)))
    return OUT.round(first + MID.round(outside(first)))


def _returned_twice(x: Tensor) -> tuple[Tensor, Tensor]:
    result = OUT.round(functional.relu(IN.round(x)))
    return result, result


def _input_returned(x: Tensor) -> tuple[Tensor, Tensor]:
    return x, OUT.round(functional.relu(IN.round(x)))


def _float_consumer(x: Tensor) -> tuple[Tensor, Tensor]:
    middle = MID.round(functional.relu(IN.round(x)))
    return outside(middle), OUT.round(middle + middle)


def _unused(x: Tensor, y: Tensor) -> Tensor:
    return OUT.round(functional.relu(IN.round(x)))


def _codes_in_and_out(x: Tensor) -> Tensor:
    return OUT.quantize(functional.relu(IN.dequantize(x)))


def _views_only_behind(x: Tensor) -> Tensor:
    return OUT.round(functional.relu(IN.round(x))).view(6, 4).permute(1, 0)


PARTITIONS: dict[str, tuple[Callable[..., Any], int, tuple[str, ...], tuple[Tensor, ...]]] = {
    # name: (function, delegate calls, other operators of the program, inputs)
    "two-outputs-of-a-shared-input": (_shared_input, 1, (), (ROW,)),
    "output-returned-twice": (_returned_twice, 1, (), (ROW,)),
    "input-returned": (_input_returned, 1, (), (ROW,)),
    "boundary-float-consumer-of-a-dequantize": (_float_consumer, 1, ("cumsum",), (ROW,)),
    "boundary-unused-input": (_unused, 1, (), (ROW, ROW)),
    "boundary-codes-in-and-out": (_codes_in_and_out, 1, (), (_CODES.to(torch.int8),)),
    "views-behind": (_views_only_behind, 1, (), (ROW,)),
}


@pytest.mark.parametrize("name", PARTITIONS)
def test_partition(name: str) -> None:
    function, calls, others, inputs = PARTITIONS[name]
    module = Graph(function)
    edge, _ = _lower(module, *inputs)
    names = routes.operators(edge)
    assert names.count("executorch_call_delegate") == calls
    remaining = [n for n in names if n != "executorch_call_delegate"]
    assert len(remaining) == len(others)
    for expected in others:
        assert any(expected in n for n in remaining)
    got = routes.run(edge, inputs)
    reference = routes.eager(module, inputs)
    assert len(got) == len(reference)
    for value, wanted in zip(got, reference, strict=True):
        assert value.dtype == wanted.dtype
        limit = 1 if value.dtype == torch.int8 else MID.scale * 1.001
        assert float((value.float() - wanted.float()).abs().max()) <= limit


def test_partition_is_convex_around_an_unclaimed_operator() -> None:
    """A dequantize that serves both an unclaimed operator and what comes behind it.

    Only one side of the operator is taken; nothing is computed twice or in a circle.
    """
    module = Graph(_around_outside)
    edge, refusals = _lower(module, ROW)
    names = routes.operators(edge)
    assert names.count("executorch_call_delegate") == 1
    assert any("cumsum" in name for name in names)
    assert "partition" in {refusal.reason.code for refusal in refusals}
    (got,) = routes.run(edge, (ROW,))
    assert float((got - module(ROW)).abs().max()) <= OUT.scale * 1.001


def test_boundary_only_regions_are_not_delegated() -> None:
    edge, refusals = _lower(Graph(lambda x: outside(IN.round(x))), ROW)
    assert "executorch_call_delegate" not in routes.operators(edge)
    assert {r.reason.code for r in refusals if "quantize" in r.operator} == {"no_compute"}


def test_dynamic_shape_is_refused() -> None:
    batch = torch.export.Dim("batch", min=2, max=16)
    program = torch.export.export(Graph(_views_of_rows), (ROW,), dynamic_shapes=(({0: batch},),))
    partitioner = fused_quant.FusedQuantPartitioner()
    edge = to_edge(program).to_backend(partitioner)
    assert "executorch_call_delegate" not in routes.operators(edge)
    found = [r for r in partitioner.refusals if "relu" in r.operator]
    assert [r.reason.code for r in found] == ["shape"]
    assert "dynamic" in str(found[0].reason)
    method = routes.load(bytes(edge.to_executorch().buffer))
    for rows in (16, 5, 16):
        x = torch.linspace(-3, 3, rows * 6).reshape(rows, 6)
        (got,) = routes.execute(method, (x,))
        torch.testing.assert_close(got, _views_of_rows(x))


def _views_of_rows(x: Tensor) -> Tensor:
    return OUT.round(functional.relu(IN.round(x)))
