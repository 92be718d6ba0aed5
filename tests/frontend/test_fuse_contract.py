# SPDX-License-Identifier: BSD-3-Clause
"""Fusing: repeatable, blind to spelling, and blind to nothing else of a call."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph as FxGraph
from torch.fx import Node
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import fused_quant
from fused_quant.ops import registry
from fused_quant.ops.spec import Call
from tests.frontend.graphs import Graph, Grid, exported, fused, run_natively, targets

torch.set_num_threads(1)
_aten = torch.ops.aten

IN, MID, OUT = Grid(0.05, -3), Grid(0.04, 11), Grid(0.03, 7)
IMAGE = torch.linspace(-4, 4, 2 * 3 * 6 * 5).reshape(2, 3, 6, 5)


def _quantized(module: nn.Module, *inputs: Tensor) -> Any:
    prepared = prepare_pt2e(exported(module, *inputs), fused_quant.default_quantizer())
    prepared(*inputs)
    return convert_pt2e(prepared)


def test_fuse_is_idempotent() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    )
    once = fused_quant.fuse(_quantized(module, IMAGE))
    first = once(IMAGE)
    names = targets(once)
    again = fused_quant.fuse(once)
    assert targets(again) == names
    assert torch.equal(again(IMAGE), first)
    assert [name for name in names if name.startswith("aten.")] == ["aten.flatten.using_ints"]


SPELLINGS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "relu": (lambda c, x: functional.relu(c(x)), lambda c, x: functional.relu(c(x), inplace=True)),
    "relu6": (
        lambda c, x: functional.relu6(c(x)),
        lambda c, x: functional.relu6(c(x), inplace=True),
    ),
    "hardtanh": (lambda c, x: functional.hardtanh(c(x)), lambda c, x: functional.hardtanh_(c(x))),
    "clamp": (lambda c, x: c(x).clamp(-0.2, 0.3), lambda c, x: c(x).clamp_(-0.2, 0.3)),
    "add": (lambda c, x: c(x) + x, lambda c, x: c(x).add_(x)),
    "sub": (lambda c, x: c(x) - x, lambda c, x: c(x).sub_(x)),
    "add-relu": (lambda c, x: functional.relu(c(x) + x), lambda c, x: c(x).add_(x).relu_()),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_pattern_inplace_spelling_is_the_functional_one(name: str) -> None:
    conv = nn.Conv2d(3, 3, 3, padding=1)
    graphs = [
        fused_quant.fuse(_quantized(Graph(function, conv=conv), IMAGE))
        for function in SPELLINGS[name]
    ]
    assert targets(graphs[0]) == targets(graphs[1])
    assert not [name for name in targets(graphs[0]) if name.startswith("aten.")]
    assert torch.equal(graphs[0](IMAGE), graphs[1](IMAGE))


def test_owned_nodes_only() -> None:
    """`quantizer.fuse` leaves q/dq patterns that somebody else wrote; `fuse` takes them."""

    def function(x: Tensor) -> Tensor:
        return OUT.round(functional.relu(IN.round(x)))

    graph = exported(Graph(function), IMAGE)
    names = targets(graph)
    kept = fused_quant.default_quantizer().fuse(copy.deepcopy(graph))
    assert targets(kept) == names
    assert torch.equal(kept(IMAGE), graph(IMAGE))
    assert "fused_quant.relu.default" in targets(fused_quant.fuse(graph))


@dataclasses.dataclass(frozen=True)
class _Anchor:
    """A legal call of an ATen operator, and for each further argument another value than there.

    Strings in `args` are tensors of the shape named in `shapes`.
    """

    args: tuple[Any, ...]
    others: dict[str, Any] = dataclasses.field(default_factory=dict)


_SHAPES = {
    "x": (2, 4, 8, 8),
    "y": (2, 4, 8, 8),
    "w": (4, 4, 3, 3),
    "b": (4,),
    "m": (5, 8),
    "c": (5,),
    "x1": (2, 4, 8),
    "y1": (2, 8, 4),
    "w1": (4, 4, 3),
    "x3": (2, 4, 8, 8, 8),
    "w3": (4, 4, 3, 3, 3),
    "g": (8,),
    "i": (2, 3),
    "w2g": (4, 2, 3, 3),
}
_CONV = ("x", "w", "b", [1, 1], [0, 0], [1, 1], 1)
_CONV_OTHERS = {"stride": [2, 1], "padding": [1, 0], "dilation": [1, 2], "groups": 2, "bias": None}
_POOL = ("x", [2, 2], [2, 2], [0, 0])
_AVG_OTHERS = {
    "kernel_size": [3, 2],
    "stride": [1, 2],
    "padding": [1, 0],
    "ceil_mode": True,
    "count_include_pad": False,
    "divisor_override": 3,
}
_MAX_OTHERS = {
    "kernel_size": [3, 2],
    "stride": [1, 2],
    "padding": [1, 0],
    "dilation": [2, 1],
    "ceil_mode": True,
}
_ADD = _Anchor(("x", "y"), {"alpha": 2})
_HARDTANH = _Anchor(("x", -1.0, 1.0), {"min_val": -2.0, "max_val": 3.0})
_CLAMP = _Anchor(("x", -1.0, 1.0), {"min": None, "max": None})
_ADAPTIVE = _Anchor(("x", [2, 2]), {"output_size": [4, 2]})
_X = _Anchor(("x",))


def _conv(rank: int, *further: Any) -> tuple[Any, ...]:
    ones = [1] * rank
    return (f"x{rank}", f"w{rank}", "b", ones, *(further or ([0] * rank, ones, 1)))


def _conv_others(rank: int, **others: Any) -> dict[str, Any]:
    two = [2] * rank
    return {"stride": two, "padding": two, "dilation": two, "groups": 2, "bias": None, **others}


def _conv_padding(rank: int) -> _Anchor:
    args = _conv(rank, "valid", [1] * rank, 1)
    return _Anchor(args, _conv_others(rank, padding="same"))


_CONV_T2 = ("x", "w", "b", [2, 2], [0, 0], [0, 0], 1, [1, 1])
_CONV_T_OTHERS = {"stride": [3, 2], "output_padding": [1, 0], "padding": [1, 0], "groups": 2}
_NORM = {"normalized_shape": [8, 8], "weight": None, "eps": 1e-3}
_AFFINE = {"weight": None, "bias": None, "eps": 1e-3}
_PAD = {"pad": [1, 2, 3, 4], "value": 0.5}
_ELU = {"alpha": 2.0, "scale": 3.0, "input_scale": 4.0}
ANCHORS: dict[Any, _Anchor] = {
    **dict.fromkeys(
        (_aten.add.Tensor, _aten.add_.Tensor, _aten.sub.Tensor, _aten.sub_.Tensor), _ADD
    ),
    **dict.fromkeys((_aten.relu.default, _aten.relu_.default), _X),
    **dict.fromkeys((_aten.relu6.default, _aten.relu6_.default), _X),
    **dict.fromkeys((_aten.hardtanh.default, _aten.hardtanh_.default), _HARDTANH),
    **dict.fromkeys((_aten.clamp.default, _aten.clamp_.default), _CLAMP),
    _aten.conv2d.default: _Anchor(_CONV, _CONV_OTHERS),
    _aten.conv2d.padding: _Anchor(
        ("x", "w", "b", [1, 1], "valid", [1, 1], 1), {**_CONV_OTHERS, "padding": "same"}
    ),
    _aten.convolution.default: _Anchor(
        ("x", "w", "b", [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
        {**_CONV_OTHERS, "transposed": True, "output_padding": [1, 0]},
    ),
    _aten.linear.default: _Anchor(("x", "m", "c"), {"bias": None}),
    _aten.avg_pool2d.default: _Anchor(_POOL, _AVG_OTHERS),
    _aten.max_pool2d.default: _Anchor(_POOL, _MAX_OTHERS),
    _aten.max_pool2d_with_indices.default: _Anchor(_POOL, _MAX_OTHERS),
    _aten.adaptive_avg_pool2d.default: _ADAPTIVE,
    _aten._adaptive_avg_pool2d.default: _ADAPTIVE,
    _aten.mean.dim: _Anchor(
        ("x", [2, 3], False), {"dim": [1, 3], "keepdim": True, "dtype": torch.float64}
    ),
    _aten.sum.dim_IntList: _Anchor(
        ("x", [2, 3], False), {"dim": [1, 3], "keepdim": True, "dtype": torch.float64}
    ),
    **dict.fromkeys(
        (_aten.mean.default, _aten.sum.default), _Anchor(("x",), {"dtype": torch.float64})
    ),
    **dict.fromkeys(
        (_aten.amax.default, _aten.amin.default),
        _Anchor(("x", [2, 3], False), {"dim": [1], "keepdim": True}),
    ),
    **dict.fromkeys(
        (_aten.max.dim, _aten.min.dim), _Anchor(("x", 2, False), {"dim": 1, "keepdim": True})
    ),
    _aten.native_group_norm.default: _Anchor(
        ("x", "b", "b", 2, 4, 64, 2, 1e-5),
        {**_AFFINE, "N": 4, "C": 8, "HxW": 32, "group": 4},
    ),
    _aten.group_norm.default: _Anchor(
        ("x", 2, "b", "b", 1e-5), {**_AFFINE, "num_groups": 4, "cudnn_enabled": False}
    ),
    _aten.instance_norm.default: _Anchor(
        ("x", "b", "b", None, None, True, 0.1, 1e-5, False),
        {
            **_AFFINE,
            "running_mean": "b",
            "running_var": "b",
            "use_input_stats": False,
            "momentum": 0.2,
            "cudnn_enabled": True,
        },
    ),
    **dict.fromkeys((_aten.rsub.Tensor,), _ADD),
    **dict.fromkeys(
        (_aten.gelu.default, _aten.gelu_.default), _Anchor(("x",), {"approximate": "tanh"})
    ),
    **dict.fromkeys((_aten.elu.default, _aten.elu_.default), _Anchor(("x",), _ELU)),
    **dict.fromkeys(
        (
            _aten.add.Scalar,
            _aten.add_.Scalar,
            _aten.sub.Scalar,
            _aten.sub_.Scalar,
            _aten.rsub.Scalar,
        ),
        _Anchor(("x", 3, 1), {"other": 2, "alpha": -1}),
    ),
    **dict.fromkeys(
        (_aten.mul.Scalar, _aten.mul_.Scalar, _aten.div.Scalar, _aten.div_.Scalar),
        _Anchor(("x", 3), {"other": -3}),
    ),
    **dict.fromkeys(
        (_aten.pow.Tensor_Scalar, _aten.pow_.Scalar), _Anchor(("x", 3), {"exponent": 0.5})
    ),
    **dict.fromkeys(
        (_aten.threshold.default, _aten.threshold_.default),
        _Anchor(("x", 0.5, 2.0), {"threshold": 0.25, "value": 3.0}),
    ),
    **dict.fromkeys((_aten.logit.default, _aten.logit_.default), _Anchor(("x",), {"eps": 0.125})),
    _aten.prelu.default: _Anchor(("x", "b")),
    _aten.bmm.default: _Anchor(("x1", "y1")),
    _aten.matmul.default: _Anchor(("x1", "y1")),
    _aten.softmax.int: _Anchor(("x", -1), {"dim": 1, "dtype": torch.float64}),
    _aten._softmax.default: _Anchor(("x", -1, False), {"dim": 1, "half_to_float": True}),
    _aten._masked_softmax.default: _Anchor(("x", "y", -1), {"mask": "i", "dim": 1, "mask_type": 0}),
    _aten.log_softmax.int: _Anchor(("x", -1), {"dim": 1, "dtype": torch.float64}),
    _aten._log_softmax.default: _Anchor(("x", -1, False), {"dim": 1, "half_to_float": True}),
    _aten.native_layer_norm.default: _Anchor(("x", [8], "g", "g", 1e-5), {**_NORM, "bias": None}),
    _aten.layer_norm.default: _Anchor(
        ("x", [8], "g", "g", 1e-5), {**_NORM, "bias": None, "cudnn_enable": False}
    ),
    _aten.rms_norm.default: _Anchor(("x", [8], "g", 1e-5), _NORM),
    _aten.embedding.default: _Anchor(
        ("m", "i"),
        {"indices": "c", "padding_idx": 2, "scale_grad_by_freq": True, "sparse": True},
    ),
    **dict.fromkeys(
        (_aten.cat.default, _aten.concat.default, _aten.concatenate.default),
        _Anchor((["x", "y"], 1), {"tensors": ["y", "x"], "dim": 2}),
    ),
    _aten.constant_pad_nd.default: _Anchor(("x", [1, 1], 0), _PAD),
    _aten.pad.default: _Anchor(("x", [1, 1], "constant", 0.0), {**_PAD, "mode": "reflect"}),
    _aten.upsample_nearest2d.default: _Anchor(
        ("x", [16, 16]), {"output_size": [8, 8], "scales_h": 2.0, "scales_w": 2.0}
    ),
    _aten.upsample_nearest2d.vec: _Anchor(
        ("x", [16, 16], None), {"output_size": [8, 16], "scale_factors": [2.0, 2.0]}
    ),
    _aten.upsample_bilinear2d.default: _Anchor(
        ("x", [16, 16], False),
        {"output_size": [8, 8], "align_corners": True, "scales_h": 2.0, "scales_w": 2.0},
    ),
    _aten.upsample_bilinear2d.vec: _Anchor(
        ("x", [16, 16], False, None),
        {"output_size": [8, 16], "align_corners": True, "scale_factors": [2.0, 2.0]},
    ),
    **dict.fromkeys(
        (_aten.div.Tensor_mode, _aten.div_.Tensor_mode),
        _Anchor(("x", "y"), {"rounding_mode": "floor"}),
    ),
    _aten.conv1d.default: _Anchor(_conv(1), _conv_others(1)),
    _aten.conv3d.default: _Anchor(_conv(3), _conv_others(3)),
    _aten.conv1d.padding: _conv_padding(1),
    _aten.conv3d.padding: _conv_padding(3),
    _aten.conv_transpose2d.input: _Anchor(
        _CONV_T2, {**_CONV_T_OTHERS, "dilation": [1, 2], "bias": None}
    ),
    _aten.conv_transpose1d.default: _Anchor(
        _conv(1, [0], [0], 1, [1]), _conv_others(1, output_padding=[1])
    ),
    _aten.conv_transpose3d.input: _Anchor(
        _conv(3, [0] * 3, [0] * 3, 1, [1] * 3), _conv_others(3, output_padding=[1] * 3)
    ),
}
_TENSORS = {"self", "input", "other", "weight", "bias", "mat2", "indices", "mask", "tensors"}
# Arguments that choose an implementation of the same function, or statistics that are not read.
_NO_EFFECT = {
    (_aten.layer_norm.default, "cudnn_enable"),
    (_aten.group_norm.default, "cudnn_enabled"),
    *((_aten.instance_norm.default, n) for n in ("momentum", "cudnn_enabled")),
    *((_aten.instance_norm.default, n) for n in ("running_mean", "running_var")),
}


def _anchor_of(target: Any) -> _Anchor:
    """The table's entry; an operator of tensors and plain numbers needs none."""
    if target in ANCHORS:
        return ANCHORS[target]
    tensors = [a.name for a in target._schema.arguments if a.name in _TENSORS]
    others = {
        a.name: not a.default_value if isinstance(a.default_value, bool) else a.default_value + 1
        for a in target._schema.arguments
        if a.name not in tensors
    }
    return _Anchor(("x", "y")[: len(tensors)], others)


def _registered() -> list[Any]:
    registry.load()
    anchors: dict[Any, None] = {}
    for spec in registry.specs():
        if spec.fusion is not None:
            anchors.update(dict.fromkeys(spec.fusion.anchors))
    return list(anchors)


def _read(
    target: Any, arguments: dict[str, Any]
) -> list[tuple[str, tuple[str, ...], dict[str, Any]]]:
    """What every parser of a spelling makes of a call; nothing where it refuses."""
    graph, mode = FxGraph(), FakeTensorMode()
    nodes: dict[str, Node] = {}
    for name, shape in _SHAPES.items():
        nodes[name] = graph.placeholder(name)
        nodes[name].meta["val"] = mode.from_tensor(torch.zeros(shape))
    schema = {argument.name: argument for argument in target._schema.arguments}

    def node_of(name: str, value: Any) -> Any:
        if name not in _TENSORS:
            return value
        if isinstance(value, list):
            return [nodes[member] for member in value]
        return nodes[value] if isinstance(value, str) else value

    values = {name: node_of(name, value) for name, value in arguments.items()}
    args = tuple(value for name, value in values.items() if not schema[name].kwarg_only)
    kwargs = {name: value for name, value in values.items() if schema[name].kwarg_only}
    call = graph.call_function(target, args, kwargs)
    with mode:
        first = arguments.get("self", arguments.get("input"))
        shape = _SHAPES[first] if isinstance(first, str) else _SHAPES["x"]
        call.meta["val"] = mode.from_tensor(torch.zeros(shape))
    found = []
    for spec, parse in registry.anchors_of(target):
        result = parse(call)
        if isinstance(result, Call):
            operands = tuple(str(node) for node in result.operands.values())
            attributes = {
                n: str(v) if isinstance(v, Node) else v for n, v in result.attributes.items()
            }
            found.append((spec.qualified_name, operands, attributes))
    return found


@pytest.mark.parametrize("target", _registered(), ids=str)
def test_attribute_dropped_every_argument_counts(target: Any) -> None:
    """Each argument of each spelling changes what is fused, or the call is refused."""
    anchor = _anchor_of(target)
    arguments = target._schema.arguments
    base = dict(zip([argument.name for argument in arguments], anchor.args, strict=False))
    for argument in arguments:
        base.setdefault(argument.name, argument.default_value)
    understood = _read(target, base)
    assert len(understood) == 1
    operands = {"self", "input", "other", "mat2"} | (set() if "eps" in base else {"weight"})
    further = {a.name for a in arguments} - {n for n in operands if isinstance(base.get(n), str)}
    assert set(anchor.others) == further, "the table must list every argument of the schema"
    for name, value in anchor.others.items():
        changed = _read(target, {**base, name: value})
        same = (target, name) in _NO_EFFECT
        assert (changed == understood) == same, f"{name}={value!r} is dropped"


@pytest.mark.parametrize("alpha", [2.0, -1.0, 0.5])
@pytest.mark.parametrize("operator", [torch.add, torch.sub])
def test_attribute_dropped_alpha(alpha: float, operator: Callable[..., Tensor]) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return OUT.round(operator(IN.round(x), MID.round(y), alpha=alpha))

    module = Graph(function)
    inputs = (IMAGE / 4, IMAGE.flip(0) / 3)
    reference = module(*inputs)
    for got in (fused(module, *inputs)(*inputs), run_natively(module, *inputs)[0]):
        assert float((got - reference).abs().max()) <= OUT.scale * 1.001


def test_arg_order_six_different_parameters() -> None:
    """Each operand keeps its own scale and zero point: swapping them would be far off."""
    a, b, out = Grid(0.02, -7), Grid(0.3, 12), Grid(0.35, 40)

    def function(x: Tensor, y: Tensor) -> Tensor:
        return out.round(a.round(x) - b.round(y))

    inputs = (IMAGE / 2, 5 * IMAGE.flip(0))
    reference = Graph(function)(*inputs)
    (got,) = run_natively(Graph(function), *inputs)
    assert float((got - reference).abs().max()) <= out.scale * 1.001
