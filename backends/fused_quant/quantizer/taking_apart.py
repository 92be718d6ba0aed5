# SPDX-License-Identifier: BSD-3-Clause
"""Operators that are small networks, rewritten as those so that each step is quantized.

torch would take them apart when the program is lowered, too late for a quantizer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from fused_quant import graph
from fused_quant.quantizer import attention, recurrent
from fused_quant.quantizer.added_masks import hide_instead_of_adding

_aten = torch.ops.aten
Function = Callable[..., tuple[Tensor, ...]]


def _gated(node: Node) -> tuple[list[Node], Function]:
    """The glu: the first half times the sigmoid of the second."""
    bound = graph.bind(node)
    x, dim = bound["self"], bound["dim"]
    half = graph.shape_of(x)[dim] // 2

    def gate(x: Tensor) -> tuple[Tensor, ...]:
        first = _aten.slice.Tensor(x, dim, 0, half)
        return (first * torch.sigmoid(_aten.slice.Tensor(x, dim, half, 2 * half)),)

    return [x], gate


def _product_and_sum(node: Node) -> tuple[list[Node], Function]:
    """The baddbmm: beta * self + alpha * batch1 @ batch2."""
    bound = graph.bind(node)
    alpha, beta = bound["alpha"], bound["beta"]

    def add(bias: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        product = a @ b if alpha == 1 else (a @ b) * alpha
        if beta == 0:  # bias is not read, be it infinite
            return (product,)
        return (product + (bias if beta == 1 else bias * beta),)

    return [bound["self"], bound["batch1"], bound["batch2"]], add


# Operator -> (tensors, function of them) of a call, or None for a call that stays whole.
_NETWORKS: dict[Any, Callable[[Node], tuple[list[Node], Function] | None]] = {
    _aten.scaled_dot_product_attention.default: attention.network,
    _aten.lstm.input: recurrent.lstm_network,
    _aten.gru.input: recurrent.gru_network,
    _aten.glu.default: _gated,
    _aten.baddbmm.default: _product_and_sum,
}


def take_apart(model: GraphModule) -> None:
    """Rewrite attention, LSTM, GRU, glu and baddbmm, and masks added to scores, in place."""
    for node in graph.calls(model):
        read = _NETWORKS.get(graph.op_of(node))
        network = None if read is None else read(node)
        if network is not None:
            _replace(model, node, _inline(model, node, *network))
    hide_instead_of_adding(model)
    model.graph.eliminate_dead_code()
    model.recompile()


def _inline(
    model: GraphModule, node: Node, tensors: Sequence[Node], function: Function
) -> list[Node]:
    """The calls that `function` makes, in front of `node`; what it returns."""
    traced = make_fx(function, pre_dispatch=True)(*(graph.val_of(n) for n in tensors))
    arguments = iter(tensors)
    inlined: dict[Node, Node] = {}
    for step in traced.graph.nodes:
        if step.op == "placeholder":
            inlined[step] = next(arguments)
        elif step.op == "get_attr":
            value = graph.constant_of(traced, step)
            assert value is not None
            inlined[step] = graph.add_constant(model, node, value, "_taken_apart")
        elif step.op == "call_function":
            args, kwargs = torch.fx.map_arg((step.args, step.kwargs), inlined.__getitem__)
            inlined[step] = graph.call(model, node, step.target, args, (node,), kwargs)
    output = next(step for step in traced.graph.nodes if step.op == "output")
    return [inlined[result] for result in output.args[0]]


def _replace(model: GraphModule, node: Node, results: Sequence[Node]) -> None:
    if isinstance(node.meta["val"], Tensor):
        node.replace_all_uses_with(results[0])
    else:
        for user in list(node.users):
            user.replace_all_uses_with(results[user.args[1]])  # type: ignore[index]
            model.graph.erase_node(user)
    model.graph.erase_node(node)
