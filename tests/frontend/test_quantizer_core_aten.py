# SPDX-License-Identifier: BSD-3-Clause
"""`get_core_aten_quantizers`: a test for each promise of its contract."""

from __future__ import annotations

import copy
import dataclasses
import types
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer.quantizer import (
    Q_ANNOTATION_KEY,
    DerivedQuantizationSpec,
    QuantizationAnnotation,
)
from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

import fused_quant
from fused_quant.quantizer import OpQuantizer, default_config
from tests.frontend.graphs import Graph, exported, targets

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
IMAGE = torch.randn(1, 2, 8, 8, generator=torch.Generator().manual_seed(0)) * 2


def _config(quant_min: int) -> QuantizationConfig:
    """A config that can be told from another one by its quant_min."""
    config = default_config()
    specs = [
        dataclasses.replace(spec, quant_min=quant_min)
        for spec in (config.input_activation, config.output_activation, config.weight)
    ]
    return QuantizationConfig(*specs, None)


CONFIG, WEIGHTED = _config(-100), _config(-90)


def _everything(**modules: nn.Module) -> nn.Module:
    """Every operator of the list, each behind the one before."""

    def function(conv: nn.Module, norm: nn.Module, x: Tensor) -> Tensor:
        x = torch.sigmoid(conv(x))
        x = functional.max_pool2d(torch.relu((x + 1) * 2 - 2.5), 2)
        x = functional.avg_pool2d(torch.tanh(x + x * x - x), 1)
        x = functional.hardtanh(functional.gelu(x))
        rows = norm(x.reshape(4, 3, 3))
        return torch.bmm(rows, rows)

    return Graph(function, conv=nn.Conv2d(2, 4, 3), norm=nn.LayerNorm(3), **modules)


def _decomposed() -> GraphModule:
    """In core ATen operators, as export's own decompositions leave it."""
    torch.manual_seed(0)
    program = torch.export.export(_everything().eval(), (IMAGE,))
    return program.run_decompositions().module()


def _quantizers() -> list[OpQuantizer]:
    return fused_quant.get_core_aten_quantizers(CONFIG, WEIGHTED)


def _annotated(gm: GraphModule) -> GraphModule:
    return fused_quant.FusedQuantQuantizer(_quantizers()).annotate(gm)


def _annotation(node: Node) -> QuantizationAnnotation:
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    assert annotation is not None, node.name
    return annotation


def _nodes(gm: GraphModule, *ops: Any) -> list[Node]:
    found = [node for node in gm.graph.nodes if node.target in ops]
    assert found, ops
    return found


def test_exactly_these_operators_each_tagged_core() -> None:
    assert {str(quantizer.op) for quantizer in _quantizers()} == CORE
    for quantizer in _quantizers():
        assert torch.Tag.core in quantizer.op.tags, quantizer.op


def test_every_quantizer_sees_its_operator_after_exports_decompositions() -> None:
    gm = _decomposed()
    for quantizer in _quantizers():
        if quantizer.op == _aten.convolution.default and quantizer.config is CONFIG:
            continue  # grouped transposed convolution: below
        assert any(quantizer.matches(node) for node in gm.graph.nodes), quantizer.op


@pytest.mark.parametrize("decompose", [False, True])
def test_every_operator_is_annotated_in_either_spelling(decompose: bool) -> None:
    torch.manual_seed(0)
    gm = _annotated(_decomposed() if decompose else exported(_everything(), IMAGE))
    moves = ("view", "reshape", "getitem", "_guards_fn")
    for node in gm.graph.nodes:
        if node.op == "call_function" and not any(name in str(node.target) for name in moves):
            _annotation(node)


def test_a_decomposed_graph_is_quantized_and_fused() -> None:
    """Operators with several results too: the first one is what is quantized."""
    gm = _decomposed()
    quantizer = fused_quant.FusedQuantQuantizer(_quantizers())
    prepared = prepare_pt2e(gm, quantizer)
    reference = prepared(IMAGE)
    converted = convert_pt2e(prepared)
    # Some fifteen roundings to 1/228 of the range; a misplaced quantization costs all of it.
    error = float((converted(IMAGE) - reference).abs().mean())
    assert error < 0.25 * float(reference.abs().mean())
    pool = _nodes(converted, _aten.max_pool2d_with_indices.default)[0]
    (value,) = pool.users
    assert "quantize_per_tensor" in str(next(iter(value.users)).target)
    fused = quantizer.fuse(converted)
    names = targets(fused)
    for name in ("conv2d", "max_pool2d_with_indices", "avg_pool2d", "add", "sub", "mul", "bmm"):
        assert any(target.startswith(f"fused_quant.{name}.") for target in names), name


def test_a_scalar_second_argument_is_picked_by_the_node_filter() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return ((x + 2) * 0.5 - 1) * (x + y) - y

    gm = _annotated(exported(Graph(function), IMAGE, IMAGE / 2))
    names = ("add", "sub", "mul")
    for node in _nodes(gm, *(getattr(_aten, name).Tensor for name in names)):
        scalar = not isinstance(node.args[1], Node)
        assert len(_annotation(node).input_qspec_map) == (1 if scalar else 2)
        (matched,) = [quantizer for quantizer in _quantizers() if quantizer.matches(node)]
        assert str(matched.op).endswith(".Scalar" if scalar else ".Tensor")


def test_weighted_config_is_for_convolution_and_config_for_everything_else() -> None:
    gm = _annotated(_decomposed())
    for node in gm.graph.nodes:
        annotation = node.meta.get(Q_ANNOTATION_KEY)
        if annotation is None:
            continue
        convolution = node.target == _aten.convolution.default
        chosen = WEIGHTED if convolution else CONFIG
        specs = [*annotation.input_qspec_map.values(), annotation.output_qspec]
        for spec in specs:
            owned = (chosen.input_activation, chosen.output_activation, chosen.weight)
            shared = spec is None or type(spec).__name__ == "SharedQuantizationSpec"
            assert shared or any(spec is own for own in owned), node.name


def test_the_callers_configs_are_not_changed() -> None:
    before = copy.deepcopy((repr(CONFIG), repr(WEIGHTED)))
    module = nn.Sequential(nn.ConvTranspose2d(2, 4, 2), nn.ConvTranspose2d(4, 4, 2, groups=2))
    _annotated(exported(module, IMAGE))
    assert (repr(CONFIG), repr(WEIGHTED)) == before


TRANSPOSED = {
    1: (lambda groups: nn.ConvTranspose1d(2, 4, 3, groups=groups), IMAGE[0, :, 0][None]),
    2: (lambda groups: nn.ConvTranspose2d(2, 4, 3, groups=groups), IMAGE),
    3: (lambda groups: nn.ConvTranspose3d(2, 4, 3, groups=groups), IMAGE[:, :, None]),
}


@pytest.mark.parametrize("decompose", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dimensions", TRANSPOSED)
def test_per_channel_axis_moves_to_1_for_transposed_convolution_and_groups_use_config(
    dimensions: int, groups: int, decompose: bool
) -> None:
    make, x = TRANSPOSED[dimensions]
    program = torch.export.export(make(groups).eval(), (x,))
    gm = (program.run_decompositions() if decompose else program).module()
    (node,) = [n for n in _annotated(gm).graph.nodes if "conv" in str(n.target)]
    annotation = _annotation(node)
    config = CONFIG if groups > 1 else WEIGHTED
    assert annotation.output_qspec is config.output_activation
    assert annotation.input_qspec_map[node.args[0]] is config.input_activation
    weight = annotation.input_qspec_map[node.args[1]]
    assert weight == dataclasses.replace(config.weight, ch_axis=1)


@pytest.mark.parametrize("groups", [1, 2])
def test_per_channel_axis_stays_0_for_other_convolutions(groups: int) -> None:
    gm = _annotated(exported(nn.Conv2d(2, 4, 3, groups=groups), IMAGE))
    (node,) = _nodes(gm, _aten.conv2d.default)
    assert _annotation(node).input_qspec_map[node.args[1]] is WEIGHTED.weight


def test_a_config_of_another_backend_may_compute_its_specs_from_the_node() -> None:
    """As Arm's do for biases: any object with the fields, and functions in them."""
    seen: list[Node] = []

    def bias(node: Node) -> DerivedQuantizationSpec:
        seen.append(node)
        edges = [(node.args[0], node), (node.args[1], node)]
        return DerivedQuantizationSpec(
            edges,
            lambda parts: (
                parts[0].calculate_qparams()[0] * parts[1].calculate_qparams()[0],
                torch.zeros(4, dtype=torch.int32),
            ),
            torch.int32,
            -(2**31) + 1,
            2**31 - 1,
            torch.per_channel_symmetric,
            0,
        )

    config = types.SimpleNamespace(
        input_activation=WEIGHTED.input_activation,
        output_activation=lambda node: WEIGHTED.output_activation,
        weight=WEIGHTED.weight,
        bias=bias,
    )
    quantizer = fused_quant.FusedQuantQuantizer(
        fused_quant.get_core_aten_quantizers(CONFIG, config)
    )
    torch.manual_seed(0)
    gm = exported(nn.Conv2d(2, 4, 3), IMAGE)
    prepared = prepare_pt2e(gm, quantizer)
    prepared(IMAGE)
    converted = convert_pt2e(prepared)
    assert [node.target for node in seen] == [_aten.conv2d.default]
    fused = quantizer.fuse(converted)
    (node,) = [n for n in fused.graph.nodes if "fused_quant.conv2d" in str(n.target)]
    assert fused.get_buffer(str(node.args[2].target)).dtype == torch.int32
