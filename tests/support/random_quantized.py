# SPDX-License-Identifier: BSD-3-Clause
"""Random quantized graphs for the passes: calibrated by minimum and maximum, fused.

`rewritten` puts a quantize -> dequantize of another grid behind one dequantize, as a second
quantizer does, so that fusing leaves a rewriting of codes for a pass to find.
"""

from __future__ import annotations

import copy
import functools
import random
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer.quantizer import QuantizationSpec
from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

import fused_quant
from fused_quant import graph
from tests.support.random_graphs import Inputs, more_inputs, random_module

_EPS = 2.0**-20


def config() -> QuantizationConfig:
    """int8, minimum and maximum: affine activations, symmetric weights per output channel."""
    activations = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-128,
        quant_max=127,
        qscheme=torch.per_tensor_affine,
        observer_or_fake_quant_ctr=MinMaxObserver.with_args(eps=_EPS),
    )
    weights = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-127,
        quant_max=127,
        qscheme=torch.per_channel_symmetric,
        ch_axis=0,
        observer_or_fake_quant_ctr=PerChannelMinMaxObserver.with_args(eps=_EPS),
    )
    return QuantizationConfig(activations, activations, weights, None)


@functools.cache
def _converted(seed: int, least: int, most: int) -> tuple[GraphModule, Inputs, str]:
    module, inputs, text = random_module(seed, kernel_less=True, least=least, most=most)
    exported = torch.export.export(module, inputs).module()
    prepared = prepare_pt2e(exported, fused_quant.default_quantizer(config()))
    with torch.no_grad():
        for sample in (inputs, *more_inputs(inputs, seed)):
            prepared(*sample)
    return convert_pt2e(prepared), inputs, text


def converted(seed: int, least: int = 2, most: int = 8) -> tuple[GraphModule, Inputs, str]:
    """A quantize/dequantize graph of its own, inputs it was calibrated with, a description."""
    gm, inputs, text = _converted(seed, least, most)
    return copy.deepcopy(gm), inputs, text


def fused(seed: int, least: int = 2, most: int = 8) -> tuple[GraphModule, Inputs, str]:
    """The fused graph of `converted`."""
    gm, inputs, text = converted(seed, least, most)
    return fused_quant.fuse(gm), inputs, text


def rewritten(seed: int, most: int = 5) -> tuple[GraphModule, Inputs, str] | None:
    """As `fused`, with one rewriting of codes; None if the graph has no place for one.

    The other grid covers the same reals, in steps 0.6 to 1.7 times as long.
    """
    gm, inputs, text = converted(seed, 1, most)
    rng = random.Random(seed)
    places = [n for n in graph.calls(gm) if n.target == graph.DEQUANTIZE and _is_inner(n)]
    if not places:
        return None
    place = rng.choice(places)
    arguments: Any = place.args
    _, scale, zero_point, *rest = arguments
    factor = rng.uniform(1.0, 1.7) if rng.random() < 0.7 else rng.uniform(0.6, 1.0)
    step = float(torch.tensor(scale * factor))
    zero = max(-128, min(127, round((zero_point + 0.5) / factor)))
    with gm.graph.inserting_after(place):
        codes = gm.graph.call_function(graph.QUANTIZE, (place, step, zero, *rest))
    with gm.graph.inserting_after(codes):
        again = gm.graph.call_function(graph.DEQUANTIZE, (codes, step, zero, *rest))
    place.replace_all_uses_with(again, delete_user_cb=lambda user: user is not codes)
    gm.recompile()
    return fused_quant.fuse(gm), inputs, text


def _is_inner(node: Node) -> bool:
    source = node.args[0]
    return isinstance(source, Node) and source.op == "call_function" and bool(node.users)


class Recorder(Interpreter):
    """Runs a graph and keeps every node's value by name."""

    def __init__(self, gm: GraphModule) -> None:
        super().__init__(gm)
        self.values: dict[str, Any] = {}

    def run_node(self, n: Node) -> Any:
        """The value of a node, kept."""
        self.values[n.name] = super().run_node(n)
        return self.values[n.name]


def recorded(gm: GraphModule, inputs: Inputs) -> dict[str, Any]:
    """Node name -> value for one run."""
    recorder = Recorder(gm)
    with torch.no_grad():
        recorder.run(*inputs)
    return recorder.values


def fused_targets(gm: GraphModule, but: str = "requantize") -> list[str]:
    """The fused operators a graph calls, sorted, without requantizes."""
    names = [str(node.target) for node in graph.calls(gm)]
    return sorted(n for n in names if n.startswith("fused_quant.") and but not in n)
