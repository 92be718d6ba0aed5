# SPDX-License-Identifier: BSD-3-Clause
"""`set_global`, `set_module_name`, `set_module_type`, `set_operator_type` and filters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import ComposableQuantizer
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY
from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

import fused_quant
from fused_quant import FusedQuantQuantizer
from fused_quant.quantizer import default_config
from tests.frontend.graphs import exported, targets
from tests.support.foreign import unguarded, xnnpack_quantizer

torch.set_num_threads(1)
_aten = torch.ops.aten


def _config(quant_min: int) -> QuantizationConfig:
    """A config that can be told from another one by its quant_min."""
    config = default_config()
    specs = [
        dataclasses.replace(spec, quant_min=quant_min)
        for spec in (config.input_activation, config.output_activation, config.weight)
    ]
    return QuantizationConfig(*specs, None)


A, B, C, D = (_config(-100 - i) for i in range(4))


class Block(nn.Module):
    """A linear layer called twice, and an addition of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.inner(x)) + x


class Net(nn.Module):
    """Two blocks, and a multiplication that belongs to no submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x) * x


X = torch.linspace(-1, 1, 8).reshape(2, 4)


def _letters(gm: GraphModule) -> list[str]:
    """The config of each operator in order: its letter, `own`, `float` or `-` (nobody's)."""
    letters = []
    for node in gm.graph.nodes:
        if node.op != "call_function":
            continue
        annotation = node.meta.get(Q_ANNOTATION_KEY)
        if annotation is None:
            letters.append("-")
        elif annotation.output_qspec is None:
            letters.append("float")
        else:
            spec = annotation.output_qspec
            matching = (n for c, n in ((A, "A"), (B, "B"), (C, "C"), (D, "D"))
                        if c.output_activation is spec)  # fmt: skip
            letters.append(next(matching, "own"))
    return letters


def _annotated(quantizer: FusedQuantQuantizer) -> list[str]:
    return _letters(quantizer.annotate(exported(Net(), X)))


Setter = Callable[[FusedQuantQuantizer], Any]
# Operators in order: linear, linear, add of blocks.0; the same of blocks.1; mul.
CASES: dict[str, tuple[Setter, str]] = {
    "nothing": (lambda q: q, "own own own own own own own"),
    "global": (lambda q: q.set_global(A), "A A A A A A A"),
    "global-none": (lambda q: q.set_global(None), "- - - - - - -"),
    "name": (lambda q: q.set_module_name("blocks.1", A), "own own own A A A own"),
    "name-of-a-layer-called-twice": (
        lambda q: q.set_module_name("blocks.0.inner", A),
        "A A own own own own own",
    ),
    "innermost-name": (
        lambda q: q.set_module_name("blocks.0.inner", B).set_module_name("blocks", A),
        "B B A A A A own",
    ),
    "type": (lambda q: q.set_module_type(Block, A), "A A A A A A own"),
    "innermost-type": (
        lambda q: q.set_module_type(nn.Linear, B).set_module_type(Block, A),
        "B B A B B A own",
    ),
    "operator": (lambda q: q.set_operator_type(_aten.linear.default, A), "A A own A A own own"),
    "operator-packet": (lambda q: q.set_operator_type(_aten.add, A), "own own A own own A own"),
    "name-over-type-over-operator-over-global": (
        lambda q: (
            q.set_global(D)
            .set_operator_type(_aten.add, C)
            .set_module_type(nn.Linear, B)
            .set_module_name("blocks.1", A)
        ),
        "B B C A A A D",
    ),
    "none-keeps-in-float": (
        lambda q: q.set_module_name("blocks.0", None).set_operator_type(_aten.mul, None),
        "float float float own own own float",
    ),
    "none-inside": (
        lambda q: q.set_module_name("blocks", A).set_module_name("blocks.0.inner", None),
        "float float A A A A own",
    ),
    "later-replaces-earlier": (lambda q: q.set_global(A).set_global(B), "B B B B B B B"),
    "filter": (
        lambda q: q.set_filter_function(lambda node: node.target == _aten.add.Tensor),
        "- - own - - own -",
    ),
    "filter-removed": (
        lambda q: q.set_filter_function(lambda node: False).set_filter_function(None),
        "own own own own own own own",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_which_config_applies(name: str) -> None:
    setter, expected = CASES[name]
    quantizer = fused_quant.default_quantizer()
    assert setter(quantizer) is quantizer
    assert _annotated(quantizer) == expected.split()


def test_filter_given_at_construction() -> None:
    quantizers = fused_quant.default_quantizer().quantizers
    quantizer = FusedQuantQuantizer(quantizers, lambda node: node.target == _aten.mul.Tensor)
    assert _annotated(quantizer) == ["-", "-", "-", "-", "-", "-", "own"]


def test_noop_in_the_list_beats_every_setting() -> None:
    quantizers = fused_quant.default_quantizer().quantizers
    noop = fused_quant.NoopQuantizer((_aten.linear.default,))
    quantizer = FusedQuantQuantizer([noop, *quantizers]).set_global(A)
    assert _annotated(quantizer) == ["float", "float", "A", "float", "float", "A", "A"]


class _ConvRelu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.act = nn.Conv2d(1, 2, 1), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.conv(x))


IMAGE = torch.linspace(-1, 1, 16).reshape(1, 1, 4, 4)
FUSED = {
    "same": (lambda q: q, True),
    "same-by-global": (lambda q: q.set_global(A), True),
    "equal-specs-of-two-configs": (lambda q: q.set_module_name("act", default_config()), True),
    "float": (lambda q: q.set_module_name("act", None), False),
    "other-config": (lambda q: q.set_module_name("act", A), False),
    "other-config-of-the-producer": (lambda q: q.set_module_name("conv", A), False),
    "filtered": (lambda q: q.set_filter_function(lambda n: "relu" not in str(n.target)), False),
}  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_an_activation_is_fused_only_if_both_want_the_same_result(name: str) -> None:
    setter, together = FUSED[name]
    quantizer = setter(fused_quant.default_quantizer())
    gm = quantizer.annotate(exported(_ConvRelu(), IMAGE))
    (conv,) = (node for node in gm.graph.nodes if node.target == _aten.conv2d.default)
    assert (conv.meta[Q_ANNOTATION_KEY].output_qspec is None) == together


def test_kept_in_float_means_float_in_the_fused_graph() -> None:
    """Also for the quantizers that come later; with `set_global(None)` they have their turn."""
    for by_global in (False, True):
        ours = fused_quant.default_quantizer().set_module_name("blocks.1", A)
        if by_global:
            ours.set_global(None)
        else:
            ours.set_module_name("blocks.0", None).set_operator_type(_aten.mul, None)
        quantizer = ComposableQuantizer([ours, xnnpack_quantizer()])
        prepared = prepare_pt2e(unguarded(Net(), X), quantizer)
        prepared(X)
        gm = ours.fuse(convert_pt2e(prepared))
        names = targets(gm)
        assert names.count("fused_quant.linear.default") == 2
        linears = [node for node in gm.graph.nodes if node.target == _aten.linear.default]
        assert len(linears) == 2
        for node in linears:
            assert ("dequantize" in str(node.args[1].target)) == by_global


ANY: dict[str, Any] = {"class": nn.Linear, "name": "Linear", "instance": nn.ReLU()}
BAD: dict[str, tuple[Setter, str]] = {
    "config": (lambda q: q.set_global("int8"), "set_global: got 'int8', supported: a Quant"),
    "name-type": (lambda q: q.set_module_name(ANY["class"], A), "set_module_name: got .*a str"),
    "type-name": (lambda q: q.set_module_type(ANY["name"], A), "set_module_type: got .Linear"),
    "type-instance": (lambda q: q.set_module_type(ANY["instance"], A), "set_module_type: got ReLU"),
    "operator-function": (lambda q: q.set_operator_type(torch.add, A), "set_operator_type: got .*"),
    "operator-nobody-is-for": (
        lambda q: q.set_operator_type(_aten.sort, A),
        "set_operator_type: got aten.sort, which no quantizer is for; supported: .*aten.linear.def",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_refused(name: str) -> None:
    setter, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        setter(fused_quant.default_quantizer())


def test_a_module_name_that_matches_nothing_is_refused() -> None:
    quantizer = fused_quant.default_quantizer().set_module_name("block.0", None)
    with pytest.raises(ValueError, match=r"got 'block\.0', which no operator.*'blocks\.0\.inner'"):
        quantizer.annotate(exported(Net(), X))


def test_filters_see_nodes() -> None:
    seen: list[Node] = []

    def note(node: Node) -> bool:
        seen.append(node)
        return False

    quantizer = fused_quant.default_quantizer().set_filter_function(note)
    quantizer.annotate(exported(Net(), X))
    assert [str(node.target) for node in seen][-1] == "aten.mul.Tensor"
