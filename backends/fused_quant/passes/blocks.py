# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of parameters as arguments of nodes: written, read and replaced."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import dialect, graph
from fused_quant.ops import registry
from fused_quant.ops.boundary import params_of
from fused_quant.ops.spec import NAMESPACE, OpSpec
from fused_quant.qparams import BLOCK_FIELDS, QParams


def fusion_target(spec: OpSpec) -> Any:
    """The registered overload of a fused operator."""
    return dialect.define(spec)


def block_arguments(gm: GraphModule, before: Node, params: QParams | None) -> list[Any]:
    """The five arguments of a block, its constants added in front of `before`; None: a null block.

    A tensor constant of equal value that the graph has already is used again.
    """
    if params is None:
        return [None, None, torch.float32, 0, 0]
    scale = graph.add_constant(gm, before, params.scale, "fused_quant_scale")
    zero_point = graph.add_constant(gm, before, params.zero_point, "fused_quant_zero_point")
    return [scale, zero_point, params.dtype, params.quant_min, params.quant_max]


def input_params(node: Node) -> QParams:
    """The per-tensor parameters of a dequantize as an input block: `dtype` is the float type."""
    return dataclasses.replace(params_of(node), dtype=graph.val_of(node).dtype)


def fused_spec(node: Any) -> OpSpec | None:
    """The operator that a fused_quant node is an instance of; None for any other node."""
    spec = registry.spec_of(graph.op_of(node))
    return spec if spec is not None and spec.fusion is not None else None


def is_fused(node: Any) -> bool:
    """True for a call of any operator of the fused_quant namespace, known or not."""
    op = graph.op_of(node)
    return isinstance(op, torch._ops.OpOverload) and op.namespace == NAMESPACE


def set_block(gm: GraphModule, node: Node, name: str, params: QParams) -> None:
    """Replace the block of an operand (or of `out`) on a fused node.

    name: as `blocks_of` has it; `<operand>_<index>` is a member of a list operand.
    """
    schema = [argument.name for argument in graph.op_of(node)._schema.arguments]
    owner, index = (name, None) if f"{name}_scale" in schema else _member(name)
    arguments = list(graph.bind(node).values())
    for field, value in zip(BLOCK_FIELDS, block_arguments(gm, node, params), strict=True):
        position = schema.index(f"{owner}_{field}")
        if index is None or field == "dtype":  # the members of a list have one float type
            arguments[position] = value
        else:
            members = list(arguments[position])
            members[index] = value
            arguments[position] = members
    node.args, node.kwargs = tuple(arguments), {}


def _member(name: str) -> tuple[str, int]:
    owner, _, index = name.rpartition("_")
    return owner, int(index)
