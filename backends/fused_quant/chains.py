# SPDX-License-Identifier: BSD-3-Clause
"""Chains: dequantize -> op1 -> quantize -> dequantize -> op2 -> quantize, met in a graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from torch.fx import Node

from fused_quant import graph
from fused_quant.ops.boundary import params_of
from fused_quant.ops.spec import Step
from fused_quant.qparams import QParams
from fused_quant.reasons import Reason


@dataclasses.dataclass(frozen=True)
class Chain:
    """What follows an anchor: the last value, the blocks in between, everything taken in."""

    value: Node
    blocks: dict[str, QParams | None]
    attributes: dict[str, Any]
    nodes: tuple[Node, ...]


def follow(steps: Sequence[Step], value: Node) -> Chain | Reason:
    """Follow `steps` from the result of an anchor; a reason where the graph goes another way.

    Each intermediate must be quantized once, dequantized with the same parameters and read by the
    next operator alone.
    """
    chain = Chain(value, {}, {}, ())
    for step in steps:
        quantize = _only_user(chain.value)
        dequantize = _only_user(quantize)
        node = _only_user(dequantize)
        ops = (graph.op_of(quantize), graph.op_of(dequantize))
        if ops != (graph.QUANTIZE, graph.DEQUANTIZE) or graph.op_of(node) not in step.targets:
            return Reason("chain", f"behind {chain.value.name}", str(node), f"a lone {step.name}")
        assert quantize is not None
        assert dequantize is not None
        assert node is not None
        attributes = step.read(node)
        if attributes is None or node.args[0] is not dequantize:
            return Reason("attribute", f"arguments of {node.name}", repr(node.args[1:]))
        if quantize.args[1:6] != dequantize.args[1:6]:
            return Reason("outputs", f"{step.name} is read on another grid", "", "one grid")
        chain = Chain(
            node,
            {**chain.blocks, step.name: params_of(quantize)},
            {**chain.attributes, **attributes},
            (*chain.nodes, quantize, dequantize, node),
        )
    return chain


def _only_user(node: Node | None) -> Node | None:
    users = [] if node is None else list(node.users)
    return users[0] if len(users) == 1 else None
