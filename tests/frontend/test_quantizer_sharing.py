# SPDX-License-Identifier: BSD-3-Clause
"""Sharing annotations point backwards, and the tag of a fused operator is on its three nodes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer.quantizer import (
    Q_ANNOTATION_KEY,
    SharedQuantizationSpec,
)

import fused_quant
from tests.frontend.graphs import Graph, exported, targets
from tests.support.random_graphs import random_module

torch.set_num_threads(1)

IMAGE = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))


def _pool(x: Tensor) -> Tensor:
    return functional.max_pool2d(x, 1)


HARD: dict[str, Any] = {
    "input-shared": lambda x: _pool(x) + _pool(x),
    "same-operand-twice": lambda x: _pool(x) + _pool(x).view(1, 4, 8, 8) * x,
    "residual-chain": lambda x: _pool(_pool(x + x) + x) + _pool(x),
    "pool-of-pool": lambda x: _pool(_pool(_pool(x))),
    "output-twice": lambda x: (_pool(x), _pool(x), x),
    "one-output-twice": lambda x: (lambda y: (y, y))(_pool(torch.relu(x))),
    "fork-and-join": lambda x: torch.cat([_pool(x), torch.relu(x), _pool(x)], 1),
    "moves-around": lambda x: _pool(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) + x,
    "joined-late": lambda x: _pool(x) + torch.sigmoid(_pool(torch.tanh(_pool(x)))),
}


def _edges(gm: GraphModule) -> dict[Any, Any]:
    """Every quantized point of the graph -> the point it shares with, or None."""
    points: dict[Any, Any] = {}
    for node in gm.graph.nodes:
        annotation = node.meta.get(Q_ANNOTATION_KEY)
        if annotation is None:
            continue
        specs = {(source, node): s for source, s in annotation.input_qspec_map.items()}
        specs[node] = annotation.output_qspec
        for point, spec in specs.items():
            shared = isinstance(spec, SharedQuantizationSpec)
            points[point] = spec.edge_or_node if shared else None
    return points


def _check_sharing(gm: GraphModule) -> int:
    order = {node: index for index, node in enumerate(gm.graph.nodes)}

    def place(point: Any) -> tuple[int, int]:
        """An edge into a node comes before the node's result."""
        return (order[point[1]], 0) if isinstance(point, tuple) else (order[point], 1)

    points = _edges(gm)
    shared = {point: with_ for point, with_ in points.items() if with_ is not None}
    for point, with_ in shared.items():
        assert with_ in points, point
        assert place(with_) < place(point), point  # strictly backwards: no cycle either
    return len(shared)


def _check_quantizes(gm: GraphModule, inputs: tuple[Tensor, ...]) -> GraphModule:
    """Torchao takes the annotations: it fails on forward and on cyclic sharing."""
    quantizer = fused_quant.default_quantizer()
    prepared = prepare_pt2e(gm, quantizer)
    prepared(*inputs)
    return convert_pt2e(prepared)


@pytest.mark.parametrize("name", HARD)
def test_sharing_never_points_forward_or_in_a_circle(name: str) -> None:
    module = Graph(HARD[name])
    gm = fused_quant.default_quantizer().annotate(exported(module, IMAGE))
    assert _check_sharing(gm) > 0
    converted = _check_quantizes(exported(module, IMAGE), (IMAGE,))
    results, wanted = converted(IMAGE), module(IMAGE)
    for got, real in zip(
        results if isinstance(results, tuple) else (results,),
        wanted if isinstance(wanted, tuple) else (wanted,),
        strict=True,
    ):
        assert float((got - real).abs().mean()) < 0.05 * float(real.abs().max())


@pytest.mark.parametrize("seed", range(60))
def test_sharing_never_points_forward_or_in_a_circle_on_random_graphs(seed: int) -> None:
    module, inputs, text = random_module(seed, kernel_less=True)
    gm = fused_quant.default_quantizer().annotate(exported(module, *inputs))
    _check_sharing(gm)
    if seed % 6 == 0:
        assert _check_quantizes(exported(module, *inputs), inputs) is not None, text


def _three_nodes(node: Node) -> list[Node]:
    """The activation's dequantize, the operator, and the quantize of its result."""
    result = node
    while len(result.users) == 1 and "quantize" not in str(next(iter(result.users)).target):
        result = next(iter(result.users))
    return [*node.all_input_nodes[:1], node, next(iter(result.users))]


TAGGED: dict[str, tuple[Any, str]] = {
    "conv": (lambda: nn.Conv2d(4, 4, 3), "conv2d"),
    "conv-relu": (lambda: nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU()), "conv2d"),
    "linear": (lambda: nn.Linear(8, 3), "linear"),
    "relu": (lambda: nn.ReLU(), "relu"),
    "relu6": (lambda: nn.ReLU6(), "hard_tanh"),
    "max-pool": (lambda: nn.MaxPool2d(2), "max_pool2d_with_indices"),
    "avg-pool": (lambda: nn.AvgPool2d(2), "avg_pool2d"),
    "add": (lambda: Graph(lambda x: x + x * 2), "add"),
    "scalar": (lambda: Graph(lambda x: x * 2), "mul"),
    "softmax": (lambda: nn.Softmax(-1), "softmax"),
    "sigmoid": (lambda: nn.Sigmoid(), "sigmoid"),
    "layer-norm": (lambda: nn.LayerNorm(8), "native_layer_norm"),
    "transposed": (lambda: nn.ConvTranspose2d(4, 4, 3, groups=2), "convolution"),
}


@pytest.mark.parametrize("name", TAGGED)
def test_quantization_tag_names_the_fused_operator_on_its_three_nodes(name: str) -> None:
    make, tag = TAGGED[name]
    torch.manual_seed(0)
    converted = _check_quantizes(exported(make(), IMAGE), (IMAGE,))
    operators = [
        node
        for node in converted.graph.nodes
        if node.op == "call_function" and node.meta.get("fused_quant_owned")
    ]
    owned = next(node for node in operators if node.meta["quantization_tag"] == tag)
    for node in _three_nodes(owned):
        assert node.meta.get("quantization_tag") == tag, node.name
    assert "dequantize" in str(owned.args[0].target)
    fused = fused_quant.default_quantizer().fuse(converted)
    assert any(f"fused_quant.{tag}." in target for target in targets(fused))
    for node in fused.graph.nodes:
        if f"fused_quant.{tag}." in str(node.target):
            assert node.meta["quantization_tag"] == tag
