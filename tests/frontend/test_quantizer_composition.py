# SPDX-License-Identifier: BSD-3-Clause
"""Together with other PT2E quantizers: either order, composed or one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import ComposableQuantizer, Quantizer
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

import fused_quant
from fused_quant import FusedQuantQuantizer
from fused_quant.quantizer import default_config
from tests.frontend.graphs import targets
from tests.support.foreign import FOREIGN, unguarded

torch.set_num_threads(1)
_aten = torch.ops.aten


class _Half(nn.Module):
    """Convolutions, a residual, a pool, moves and a linear layer."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.max_pool2d(self.first(x).relu(), 2)
        y = torch.relu(self.second(y) + y)
        return self.linear(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class _Net(nn.Module):
    """Two halves, so that each of two quantizers can have one, and an operator few take."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = _Half(2), _Half(4)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.elu(self.right(self.left(x)))


X = torch.randn(1, 2, 8, 8, generator=torch.Generator().manual_seed(0))


def _net() -> nn.Module:
    torch.manual_seed(0)
    return _Net()


def _ours(half: str | None = None) -> FusedQuantQuantizer:
    """Everything, or only one half of the net."""
    quantizer = fused_quant.default_quantizer()
    if half is None:
        return quantizer
    return quantizer.set_global(None).set_module_name(half, default_config())


def _is_compute(node: Node) -> bool:
    return node.op == "call_function" and "quantize" not in str(node.target)


def _owned(gm: GraphModule) -> set[str]:
    return {node.name for node in gm.graph.nodes if node.meta.get("fused_quant_owned")}


class _Successive(Quantizer):
    """One quantizer after the other, without the checks of `ComposableQuantizer`."""

    def __init__(self, members: Sequence[Quantizer]) -> None:
        super().__init__()
        self.members = members

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        for member in self.members:
            model = member.transform_for_annotation(model)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        for member in self.members:
            before = {n: n.meta.get(Q_ANNOTATION_KEY) for n in model.graph.nodes}
            member.annotate(model)
            for node, annotation in before.items():
                if annotation is not None and annotation._annotated:  # first claim wins
                    assert node.meta[Q_ANNOTATION_KEY] is annotation, node.name
        return model

    def validate(self, model: GraphModule) -> None:
        for member in self.members:
            member.validate(model)


def _edges(node: Node) -> list[Any]:
    """How a node is quantized: the dequantizes it reads and the quantizes of its result."""
    sources = [s for s in node.all_input_nodes if "dequantize" in str(s.target)]
    sinks = [u for u in node.users if "quantize" in str(u.target)]
    if node.meta[Q_ANNOTATION_KEY].output_qspec is None:
        sinks = []  # its result is float; what a later operator makes of it is that one's
    return [
        node.name,
        str(node.target),
        [(s.name, str(s.target), s.args[1:]) for s in sources],
        [(u.name, str(u.target), u.args[1:]) for u in sinks],
    ]


def _foreign_edges(gm: GraphModule) -> list[Any]:
    claimed = (n for n in gm.graph.nodes if n.meta.get(Q_ANNOTATION_KEY) and _is_compute(n))
    return [_edges(node) for node in claimed if not node.meta.get("fused_quant_owned")]


@pytest.mark.parametrize("composed", [True, False])
@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("name", FOREIGN)
def test_composes_in_both_orders(name: str, ours_first: bool, composed: bool) -> None:
    """First claim wins, `fuse` leaves the others' nodes alone, and the result is that of q/dq."""
    ours = _ours("left" if ours_first else None)
    theirs = FOREIGN[name]()
    members = [ours, theirs] if ours_first else [theirs, ours]
    quantizer = ComposableQuantizer(members) if composed else _Successive(members)
    prepared = prepare_pt2e(unguarded(_net(), X), quantizer)
    prepared(X)
    converted = convert_pt2e(prepared)
    owned, foreign = _owned(converted), _foreign_edges(converted)
    convolutions = [n for n in converted.graph.nodes if n.target == _aten.conv2d.default]
    assert len(convolutions) == 4
    wanted = convolutions[:2] if ours_first else []
    assert [n for n in convolutions if n.name in owned] == wanted
    assert any(name in owned for name in ("elu", "elu_1")) == (not ours_first and name != "arm")
    reference = converted(X)
    fused = ours.fuse(converted)
    assert _foreign_edges(fused) == foreign
    assert not [node.name for node in fused.graph.nodes if "shielded" in str(node.meta)]
    names = targets(fused)
    assert names.count("fused_quant.conv2d.default") == len(wanted)
    dequantizes = [n for n in fused.graph.nodes if "dequantize_per_tensor" in str(n.target)]
    steps = [float(n.args[1]) for n in dequantizes if n.args[0].op == "call_function"]
    assert float((fused(X) - reference).abs().mean()) <= 2 * max(steps)
    again = targets(ours.fuse(fused))
    assert again == names


@pytest.mark.parametrize("name", FOREIGN)
def test_fuse_changes_nothing_that_is_not_ours(name: str) -> None:
    prepared = prepare_pt2e(unguarded(_net(), X), FOREIGN[name]())
    prepared(X)
    converted = convert_pt2e(prepared)
    before, reference = targets(converted), converted(X)
    fused = _ours().fuse(converted)
    assert targets(fused) == before
    assert torch.equal(fused(X), reference)
