# SPDX-License-Identifier: BSD-3-Clause
"""From a float module to a running .pte, by every route, with what is compared along the way."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from executorch.exir import EdgeProgramManager, to_edge, to_edge_transform_and_lower
from executorch.runtime import Program, Runtime
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import Quantizer

import fused_quant
from tests.support import speedups

Inputs = tuple[torch.Tensor, ...]

TO_EDGE = "to_edge"
TRANSFORM = "to_edge_transform_and_lower"
ROUTES = (TO_EDGE, TRANSFORM)

_QUANTIZES = ("quantized_decomposed.quantize", "torchao.quantize_affine")


speedups.install()


def exported(module: torch.nn.Module, inputs: Inputs) -> GraphModule:
    """The module as quantizers see it."""
    return torch.export.export(module.eval(), inputs).module()


def quantize_dequantize(
    module: torch.nn.Module, calibration: Sequence[Inputs], quantizer: Quantizer
) -> GraphModule:
    """The float graph with quantize and dequantize in it, as convert_pt2e leaves it."""
    prepared = prepare_pt2e(exported(module, calibration[0]), quantizer)
    with torch.no_grad():
        for inputs in calibration:
            prepared(*inputs)
    return convert_pt2e(prepared)


def fused_copy(graph_module: GraphModule) -> GraphModule:
    """The integer program of a q/dq graph, leaving the graph itself alone."""
    return fused_quant.fuse(copy.deepcopy(graph_module))


def lowered(
    module: torch.nn.Module,
    inputs: Inputs,
    route: str,
    partitioner: fused_quant.FusedQuantPartitioner | None = None,
) -> EdgeProgramManager:
    """A quantized or fused graph, delegated by one of the two routes."""
    chosen = fused_quant.FusedQuantPartitioner() if partitioner is None else partitioner
    program = torch.export.export(module, inputs)
    if route == TO_EDGE:
        return to_edge(program).to_backend(chosen)
    return to_edge_transform_and_lower(program, partitioner=[chosen])


def operators(edge: EdgeProgramManager, method: str = "forward") -> list[str]:
    """What the program itself calls, tuple access aside."""
    nodes = edge.exported_program(method).graph.nodes
    names = [str(node.target) for node in nodes if node.op == "call_function"]
    return [name for name in names if "getitem" not in name]


def is_one_delegate_call(edge: EdgeProgramManager) -> bool:
    """True if the program calls a delegate once and computes nothing else."""
    return operators(edge) == ["executorch_call_delegate"]


@functools.cache
def _runtime() -> Runtime:
    fused_quant.load_runtime()
    return Runtime.get()


class Loaded:
    """A method of a loaded program, with the program: it owns the bytes that the method reads."""

    def __init__(self, program: Program, name: str) -> None:
        method = program.load_method(name)
        assert method is not None
        self._program, self._method = program, method

    def execute(self, inputs: Sequence[torch.Tensor]) -> Sequence[Any]:
        """The method's outputs, valid until the next execution."""
        return self._method.execute(inputs)


def load(program: bytes | Path, method: str = "forward") -> Loaded:
    """A loaded method of a .pte, out of memory or a file."""
    return Loaded(_runtime().load_program(program), method)


def execute(method: Loaded, inputs: Inputs) -> list[torch.Tensor]:
    """The outputs of one execution, copied."""
    return [torch.as_tensor(value).clone() for value in method.execute(list(inputs))]


def run(edge: EdgeProgramManager, inputs: Inputs, method: str = "forward") -> list[torch.Tensor]:
    """The outputs of a delegated program in the ExecuTorch runtime."""
    return execute(load(bytes(edge.to_executorch().buffer), method), inputs)


def eager(module: torch.nn.Module, inputs: Inputs) -> list[torch.Tensor]:
    """The outputs of a graph module as a list."""
    with torch.no_grad():
        result = module(*(value.clone() for value in inputs))
    return list(result) if isinstance(result, (tuple, list)) else [result]


def rounded_tensors(graph_module: GraphModule) -> int:
    """How many tensors are rounded to codes, program inputs aside (those are rounded exactly)."""
    return sum(
        str(node.target).startswith(_QUANTIZES) and node.args[0].op == "call_function"
        for node in graph_module.graph.nodes
    )


def _scale_behind(node: torch.fx.Node) -> float:
    """One code of the dequantize that a result comes from, through operators that move data."""
    while "dequantize_per_tensor" not in str(node.target):
        sources = node.all_input_nodes
        if node.op != "call_function" or not sources:
            return 0.0
        node = sources[0]
    return float(node.args[1])  # type: ignore[arg-type]


def result_scales(graph_module: GraphModule) -> list[float]:
    """One code, in real values, of each output of a q/dq graph; 0 for one that is not rounded."""
    output = next(node for node in graph_module.graph.nodes if node.op == "output")
    return [_scale_behind(node) for node in output.args[0]]


def assert_same_bits(got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    """Equal in number, dtype, shape and every element."""
    assert len(got) == len(expected)
    for value, reference in zip(got, expected, strict=True):
        assert value.dtype == reference.dtype
        assert value.shape == reference.shape
        if not torch.equal(value, reference):
            wrong = int((value != reference).sum())
            worst = float((value.double() - reference.double()).abs().max())
            raise AssertionError(f"{wrong} of {value.numel()} elements differ, at most by {worst}")


def assert_within_codes(
    got: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    scales: Sequence[float],
    codes: int = 1,
) -> None:
    """Each element at most `codes` steps of its output's grid away."""
    assert len(got) == len(expected) == len(scales)
    for value, reference, scale in zip(got, expected, scales, strict=True):
        assert value.shape == reference.shape
        limit = codes * scale * (1 + 1e-4) + 1e-6
        worst = float((value.double() - reference.double()).abs().max())
        assert worst <= limit, f"differs by {worst / max(scale, 1e-30):.3f} codes, allowed {codes}"
