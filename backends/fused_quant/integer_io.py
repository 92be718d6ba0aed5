# SPDX-License-Identifier: BSD-3-Clause
"""Programs that take and return codes: the quantize and dequantize at the boundary left out."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch
from executorch.exir.passes.quantize_io_pass import get_config_method_name
from executorch.exir.tensor import scalar_type_enum
from torch.export import ExportedProgram
from torch.fx import Node

from fused_quant import graph

_FIELDS = ("scale", "zp", "quant_min", "quant_max")
_ARGUMENTS = ("scale", "zero_point", "quant_min", "quant_max", "dtype")


def integer_io(
    program: ExportedProgram,
    inputs: Iterable[int] | None = None,
    outputs: Iterable[int] | None = None,
    method: str | None = None,
) -> tuple[ExportedProgram, dict[str, Any]]:
    """A copy of a quantized or fused program with integer inputs and outputs, and its parameters.

    inputs, outputs: positions; None: every one that is quantized per tensor at the boundary, and
    () none of them. The second result is meant as `constant_methods` of `to_edge` and
    `to_edge_transform_and_lower`: `input0_scale`, `input0_zp`, `input0_quant_min`,
    `input0_quant_max`, `input0_dtype` and the same of `output0`, the names that ExecuTorch's own
    passes use, behind `<method>_` if a method is given.

    Raises ValueError for a position that is not quantized at the boundary.
    """
    result = copy.deepcopy(program)
    methods: dict[str, Any] = {}
    for side, chosen, change in (
        ("input", inputs, _quantized_input),
        ("output", outputs, _quantized_output),
    ):
        names = getattr(result.graph_signature, f"user_{side}s")
        for index in range(len(names)) if chosen is None else chosen:
            if not 0 <= index < len(names):
                raise ValueError(f"{side} {index}: supported: 0 to {len(names) - 1}")
            found = change(result, index)
            if isinstance(found, dict):
                methods |= _named(found, method, side, index)
            elif chosen is not None:
                raise ValueError(f"{side} {index}: {found}")
    result.graph.eliminate_dead_code()
    result.graph_module.recompile()
    result.validate()
    return result, methods


def _named(bound: dict[str, Any], method: str | None, side: str, index: int) -> dict[str, Any]:
    values = [bound[name] for name in _ARGUMENTS]
    named = {
        get_config_method_name(method, side, index, field): value
        for field, value in zip(_FIELDS, values, strict=False)
    }
    name = get_config_method_name(method, side, index, "dtype")
    return {**named, name: int(scalar_type_enum(values[-1]))}


def _quantized_input(program: ExportedProgram, index: int) -> dict[str, Any] | str:
    """Rewrite an input; its parameters, or why it cannot take codes."""
    name = program.graph_signature.user_inputs[index]
    found = [n for n in program.graph.nodes if n.op == "placeholder" and n.name == name]
    if not found:
        return f"got the number {name}, supported: tensors"
    (node,) = found
    users = list(node.users)
    if not users or any(graph.op_of(user) != graph.QUANTIZE for user in users):
        read = ", ".join(str(user.target) for user in users) or "nothing"
        return f"read by {read}, supported: only quantize_per_tensor"
    bound = graph.bind(users[0])
    parameters = {tuple(graph.bind(user)[field] for field in _ARGUMENTS) for user in users}
    if len(parameters) > 1:
        return f"quantized with {len(parameters)} sets of parameters, supported: one"
    node.meta = {**node.meta, "val": users[0].meta["val"]}
    node.meta.pop("tensor_meta", None)
    for user in users:
        user.replace_all_uses_with(node)
        program.graph.erase_node(user)
    _update_outputs(program)
    return bound


def _quantized_output(program: ExportedProgram, index: int) -> dict[str, Any] | str:
    """Rewrite an output; its parameters, or why it cannot be codes."""
    position = len(program.graph_signature.output_specs)
    position += index - len(program.graph_signature.user_outputs)
    results = list(program.graph.output_node().args[0])
    node = results[position]
    if graph.op_of(node) != graph.DEQUANTIZE:
        return f"made by {getattr(node, 'target', node)}, supported: dequantize_per_tensor"
    assert isinstance(node, Node)
    bound = graph.bind(node)
    results[position] = bound["input"]
    program.graph.output_node().args = (tuple(results),)
    _update_outputs(program)
    return bound


def _update_outputs(program: ExportedProgram) -> None:
    """Make the signature name what the graph returns."""
    results = program.graph.output_node().args[0]
    for spec, node in zip(program.graph_signature.output_specs, results, strict=True):
        if isinstance(node, Node) and isinstance(node.meta.get("val"), torch.Tensor):
            spec.arg.name = node.name
