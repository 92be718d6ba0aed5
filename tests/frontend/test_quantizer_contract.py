# SPDX-License-Identifier: BSD-3-Clause
"""What the quantizers promise: who claims a node, with which parameters, what stays alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import ComposableQuantizer, Quantizer
from torchao.quantization.pt2e.quantizer.quantizer import (
    Q_ANNOTATION_KEY,
    QuantizationAnnotation,
    SharedQuantizationSpec,
)
from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

import fused_quant
from fused_quant.quantizer import OpQuantizer, default_config
from tests.frontend.graphs import Graph, exported, targets
from tests.support.foreign import xnnpack_quantizer

torch.set_num_threads(1)
_aten = torch.ops.aten

CORE = {
    *(f"aten.{name}.{kind}" for name in ("add", "sub", "mul") for kind in ("Tensor", "Scalar")),
    "aten.bmm.default",
    "aten.relu.default",
    "aten.max_pool2d_with_indices.default",
    "aten.avg_pool2d.default",
    "aten.convolution.default",
    "aten.sigmoid.default",
    "aten.tanh.default",
    "aten.hardtanh.default",
    "aten.gelu.default",
    "aten.native_layer_norm.default",
}


def _annotated(quantizer: Quantizer, module: nn.Module, *inputs: Tensor) -> GraphModule:
    return quantizer.annotate(exported(module, *inputs))


def _annotation(node: Node) -> QuantizationAnnotation | None:
    return node.meta.get(Q_ANNOTATION_KEY)


def _node(gm: GraphModule, target: Any, index: int = 0) -> Node:
    return [node for node in gm.graph.nodes if node.target == target][index]


def _config(quant_min: int = -128) -> QuantizationConfig:
    """A config that can be told from another one by its quant_min."""
    config = default_config()
    object.__setattr__(config.input_activation, "quant_min", quant_min)
    return config


def _converted(quantizer: Quantizer, module: nn.Module, *inputs: Tensor) -> GraphModule:
    prepared = prepare_pt2e(exported(module, *inputs), quantizer)
    prepared(*inputs)
    return convert_pt2e(prepared)


class _ConvLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(2, 3, 3), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.conv(x))


IMAGE = torch.linspace(-1, 1, 72).reshape(1, 2, 6, 6)


def test_first_claim_wins_inside_the_list() -> None:
    first, second = _config(-100), _config(-90)
    quantizer = fused_quant.FusedQuantQuantizer(
        [
            OpQuantizer(_aten.linear.default, config, ("input",), weights=("weight",))
            for config in (first, second)
        ]
    )
    gm = _annotated(quantizer, nn.Linear(3, 2), torch.zeros(1, 3))
    annotation = _annotation(_node(gm, _aten.linear.default))
    assert annotation is not None
    assert annotation.output_qspec is first.output_activation
    assert list(annotation.input_qspec_map.values()) == [first.input_activation, first.weight]


def test_noop_keeps_an_operator_in_float() -> None:
    quantizer = fused_quant.FusedQuantQuantizer(
        [
            fused_quant.NoopQuantizer((_aten.linear.default,)),
            *fused_quant.default_quantizer().quantizers,
        ]
    )
    converted = _converted(quantizer, _ConvLinear(), IMAGE)
    linear = _node(converted, _aten.linear.default)
    assert all("quantize" not in str(user.target) for user in linear.users)
    assert "dequantize" not in str(linear.args[1].target)
    fused = quantizer.fuse(converted)
    assert "fused_quant.conv2d.default" in targets(fused)
    assert "aten.linear.default" in targets(fused)


def test_core_quantizers_are_core_aten() -> None:
    quantizers = fused_quant.get_core_aten_quantizers(_config(), _config())
    assert {str(quantizer.op) for quantizer in quantizers} == CORE
    for quantizer in quantizers:
        assert torch.Tag.core in quantizer.op.tags, quantizer.op


def test_configs_are_the_callers() -> None:
    config, weighted = _config(-100), _config(-90)
    quantizers = fused_quant.get_core_aten_quantizers(config, weighted)
    quantizer = fused_quant.FusedQuantQuantizer(quantizers)

    def function(conv: nn.Module, grouped: nn.Module, x: Tensor) -> Tensor:
        return grouped(torch.sigmoid(conv(x)))

    grouped = nn.ConvTranspose2d(4, 4, 2, groups=2)
    gm = _annotated(quantizer, Graph(function, conv=nn.Conv2d(2, 4, 3), grouped=grouped), IMAGE)
    expected = {
        _aten.conv2d.default: weighted,
        _aten.sigmoid.default: config,
        _aten.conv_transpose2d.input: config,
    }
    for target, chosen in expected.items():
        annotation = _annotation(_node(gm, target))
        assert annotation is not None
        assert annotation.output_qspec is chosen.output_activation


@pytest.mark.parametrize(
    ("module", "axis"), [(nn.Conv2d(2, 4, 3), 0), (nn.ConvTranspose2d(2, 4, 3), 1)]
)
def test_per_channel_axis_of_a_convolution(module: nn.Module, axis: int) -> None:
    config = _config()
    quantizer = fused_quant.FusedQuantQuantizer(
        fused_quant.get_core_aten_quantizers(config, config)
    )
    gm = _annotated(quantizer, module, IMAGE)
    node = next(node for node in gm.graph.nodes if "conv" in str(node.target))
    annotation = _annotation(node)
    assert annotation is not None
    assert annotation.input_qspec_map[node.args[1]].ch_axis == axis
    assert config.weight.ch_axis == 0
    converted = _converted(quantizer, module, IMAGE)
    dequantize = _node(converted, torch.ops.quantized_decomposed.dequantize_per_channel.default)
    assert dequantize.args[3] == axis
    assert converted.get_buffer(str(dequantize.args[1].target)).numel() == 4


@pytest.mark.parametrize("scalar", [2, 0.5])
def test_scalar_second_argument(scalar: float) -> None:
    quantizer = fused_quant.FusedQuantQuantizer(
        fused_quant.get_core_aten_quantizers(_config(), _config())
    )
    gm = _annotated(quantizer, Graph(lambda x, y: (x * scalar) * y), IMAGE, IMAGE)
    first, second = (_annotation(_node(gm, _aten.mul.Tensor, i)) for i in (0, 1))
    assert first is not None
    assert second is not None
    assert (len(first.input_qspec_map), len(second.input_qspec_map)) == (1, 2)


def test_tag_of_the_fused_operator_on_annotated_nodes() -> None:
    gm = _annotated(fused_quant.default_quantizer(), _ConvLinear(), IMAGE)
    assert _node(gm, _aten.conv2d.default).meta["quantization_tag"] == "conv2d"
    assert _node(gm, _aten.linear.default).meta["quantization_tag"] == "linear"


def test_tag_reaches_quantize_and_dequantize() -> None:
    quantizer = fused_quant.FusedQuantQuantizer(
        [OpQuantizer(_aten.linear.default, _config(), ("input",), weights=("weight",))]
    )
    converted = _converted(quantizer, nn.Linear(3, 2), torch.linspace(-1, 1, 6).reshape(2, 3))
    linear = _node(converted, _aten.linear.default)
    (quantize,) = linear.users
    assert linear.args[0].meta["quantization_tag"] == "linear"
    assert quantize.meta["quantization_tag"] == "linear"


def test_dtype_float64_stays_as_it_is_beside_what_is_quantized() -> None:
    """The quantize operators of PyTorch refuse float64: observed, the graph could not run."""

    def function(x: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        return x + x, functional.relu(position * 2 + position)

    inputs = (torch.randn(4, 3), torch.linspace(-1, 1, 5, dtype=torch.float64))
    prepared = prepare_pt2e(exported(Graph(function), *inputs), fused_quant.default_quantizer())
    prepared(*inputs)
    gm = fused_quant.fuse(convert_pt2e(prepared))
    assert torch.equal(gm(*inputs)[1], function(*inputs)[1])
    assert "fused_quant.add.default" in targets(gm)


def test_dtype_integer_tensors_are_not_annotated() -> None:
    def function(emb: nn.Module, linear: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
        positions = torch.arange(4) + 1
        gated = torch.where(mask & mask, x, x + x)
        return linear(emb(positions) + gated)

    module = Graph(function, emb=nn.Embedding(6, 3), linear=nn.Linear(3, 2))
    inputs = (torch.randn(4, 3), torch.ones(4, 3, dtype=torch.bool))
    gm = _annotated(fused_quant.default_quantizer(), module, *inputs)
    for node in gm.graph.nodes:
        annotation = _annotation(node)
        if annotation is None:
            continue
        assert node.meta["val"].dtype == torch.float32
        assert all(source.meta["val"].is_floating_point() for source in annotation.input_qspec_map)
    converted = _converted(fused_quant.default_quantizer(), module, *inputs)
    assert torch.isfinite(converted(*inputs)).all()


def test_sharing_never_points_forward() -> None:
    def function(conv: nn.Module, x: Tensor) -> Tensor:
        early = functional.max_pool2d(x, 2)
        return functional.max_pool2d(conv(early).view(1, 3, 1, 1).permute(0, 2, 3, 1), 1)

    gm = _annotated(
        fused_quant.default_quantizer(), Graph(function, conv=nn.Conv2d(2, 3, 3)), IMAGE
    )
    order = {node: index for index, node in enumerate(gm.graph.nodes)}
    shared = 0
    for node in gm.graph.nodes:
        annotation = _annotation(node)
        if annotation is None or not isinstance(annotation.output_qspec, SharedQuantizationSpec):
            continue
        shared += 1
        edge = annotation.output_qspec.edge_or_node
        assert all(order[member] <= order[node] for member in edge)
    assert shared == 4  # view, permute and both pools


def _ours_for_linear() -> fused_quant.FusedQuantQuantizer:
    quantizers = fused_quant.default_quantizer().quantizers
    return fused_quant.FusedQuantQuantizer(
        [quantizer for quantizer in quantizers if getattr(quantizer, "name", "") == "linear"]
    )


@pytest.mark.parametrize("ours_first", [True, False])
def test_composes_with_the_stock_quantizer(ours_first: bool) -> None:
    ours = fused_quant.default_quantizer() if not ours_first else _ours_for_linear()
    members: Sequence[Quantizer] = (
        (ours, xnnpack_quantizer()) if ours_first else (xnnpack_quantizer(), ours)
    )
    quantizer = ComposableQuantizer(list(members))
    converted = _converted(quantizer, _ConvLinear(), IMAGE)
    fused = ours.fuse(converted)
    names = targets(fused)
    # The stock quantizer claims both operators when it is asked first.
    assert "aten.conv2d.default" in names
    assert ("fused_quant.linear.default" in names) == ours_first
    assert ("aten.linear.default" in names) != ours_first


@pytest.mark.parametrize("ours_first", [True, False])
def test_skips_what_another_quantizer_annotated(ours_first: bool) -> None:
    gm = exported(_ConvLinear(), IMAGE)
    ours, theirs = fused_quant.default_quantizer(), xnnpack_quantizer()
    for quantizer in (ours, theirs) if ours_first else (theirs, ours):
        quantizer.annotate(gm)
    owned = [
        bool(node.meta.get("fused_quant_owned"))
        for node in gm.graph.nodes
        if node.target in (_aten.conv2d.default, _aten.linear.default)
    ]
    assert owned == [ours_first, ours_first]


def test_pattern_inplace_spellings_are_annotated() -> None:
    def function(conv: nn.Module, x: Tensor) -> Tensor:
        y = conv(x)
        y += x
        return functional.hardtanh_(
            functional.relu6(functional.relu(y, inplace=True), inplace=True)
        )

    gm = _annotated(
        fused_quant.default_quantizer(), Graph(function, conv=nn.Conv2d(2, 2, 3, padding=1)), IMAGE
    )
    calls = [node for node in gm.graph.nodes if node.op == "call_function"]
    assert any("_." in str(node.target) for node in calls)
    assert all(_annotation(node) is not None for node in calls)


def test_preserved_operators_include_the_backends_own() -> None:
    preserved = fused_quant.default_quantizer().preserved_ops()
    assert _aten.linear.default in preserved
    assert _aten.adaptive_avg_pool2d.default in preserved


def _softmax_product(x: Tensor, y: Tensor) -> Tensor:
    return torch.bmm(torch.softmax(x, -1), torch.sigmoid(y))


def test_a_fixed_grid_is_read_as_it_is() -> None:
    """No requantize between softmax or sigmoid, whose grids follow from their range, and a user."""
    x, y = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
    quantizer = fused_quant.default_quantizer()
    fused = quantizer.fuse(_converted(quantizer, Graph(_softmax_product), x, y))
    names = [name for name in targets(fused) if "fused_quant" in name]
    assert names == [f"fused_quant.{op}.default" for op in ("softmax", "sigmoid", "bmm")]


class _PaddedResidual(nn.Module):
    """TensorFlow's SAME padding of stride 2, beside a branch that reads the same values."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.second, self.skip = nn.Conv2d(4, 4, 3, 2), nn.Conv2d(4, 4, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.first(x))
        return self.second(functional.pad(y, (0, 1, 0, 1))) + self.skip(y)


def test_a_padding_that_a_convolution_takes_in_is_not_quantized_itself() -> None:
    """Zeros around the image would change its observer's grid: one requantize more."""
    torch.manual_seed(0)
    quantizer = fused_quant.default_quantizer()
    fused = quantizer.fuse(_converted(quantizer, _PaddedResidual().eval(), torch.rand(1, 3, 8, 8)))
    names = [name for name in targets(fused) if "fused_quant" in name]
    operators = ("conv2d.default", "conv2d.sides", "conv2d.default", "add.default")
    assert names == [f"fused_quant.{operator}" for operator in operators]
