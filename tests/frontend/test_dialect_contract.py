# SPDX-License-Identifier: BSD-3-Clause
"""The `fused_quant` operators: schemas, granularity, float edges, integer eager, fake kernels."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils._pytree import tree_map

from fused_quant import dialect
from fused_quant.ops import registry
from fused_quant.ops.spec import OpSpec
from tests.frontend.graphs import Graph, Grid, Weights, fused

torch.set_num_threads(1)
registry.load()

FIELDS = ("scale", "zero_point", "dtype", "quant_min", "quant_max")
FUSED = [spec for spec in registry.specs() if spec.fusion is not None]
Block = tuple[Any, Any, torch.dtype, int, int]
FLOAT_EDGE: Block = (None, None, torch.float32, 0, 0)
_ops: Any = torch.ops.fused_quant


def _block(scale: float, zero_point: int, storage: torch.dtype | None = None) -> Block:
    """An input block, or an output block of a storage type."""
    dtype = torch.float32 if storage is None else storage
    return (torch.tensor([scale]), torch.tensor([zero_point]), dtype, -128, 127)


X, Y = _block(0.05, -3), _block(0.04, 11)
OUT = _block(0.03, 7, torch.int8)
WEIGHT = _block(0.02, 0)
ACC: Block = (torch.tensor([0.05 * 0.02]), torch.tensor([0]), torch.float32, -(2**31), 2**31 - 1)


def _overload(spec: OpSpec) -> Any:
    assert spec.fusion is not None
    return getattr(getattr(_ops, spec.name), spec.fusion.overload or "default")


@pytest.mark.parametrize("spec", FUSED, ids=lambda spec: spec.qualified_name)
def test_schema_argument_order(spec: OpSpec) -> None:
    """Tensors; a block per tensor; the out block; the ATen operator's own arguments."""
    arguments = _overload(spec)._schema.arguments
    names = [argument.name for argument in arguments]
    count = next(i for i, name in enumerate(names) if name.endswith("_scale"))
    operands = names[:count]
    assert operands in (["inp"], ["inp", "other"], ["inp", "weight", "bias"], ["weight"])
    blocks = [f"{operand}_{field}" for operand in (*operands, "out") for field in FIELDS]
    assert names[count : count + len(blocks)] == blocks
    further = names[count + len(blocks) :]
    assert not set(further) & {"self", "input", "out", "dtype"}
    for argument in arguments[count : count + len(blocks)]:
        optional = "Optional[Tensor]" in str(argument.type)
        assert optional == argument.name.endswith(("_scale", "_zero_point"))


@pytest.mark.parametrize("spec", FUSED, ids=lambda spec: spec.qualified_name)
def test_schema_remaining_arguments_in_aten_order(spec: OpSpec) -> None:
    assert spec.fusion is not None
    arguments = list(_overload(spec)._schema.arguments)
    known = {a.name for anchor in spec.fusion.anchors for a in anchor._schema.arguments}
    while arguments[-1].has_default_value() and arguments[-1].name not in known:
        arguments.pop()  # new behaviour may be a trailing argument with a default
    names = [argument.name for argument in arguments]
    further = names[names.index("out_quant_max") + 1 :]
    orders = []
    for anchor in spec.fusion.anchors:
        aten = [argument.name for argument in anchor._schema.arguments]
        if set(further) <= set(aten):
            orders.append([name for name in aten if name in further])
    assert not further or further in orders
    assert all(order == further for order in orders)


def _codes(*shape: int) -> Tensor:
    count = math.prod(shape)
    return (torch.arange(count) * 37 % 256 - 128).reshape(shape).to(torch.int8)


IMAGE = _codes(2, 4, 6, 5)
KERNEL = _codes(3, 4, 3, 2).clamp(min=-127)
BIAS = torch.tensor([100, -7, 0], dtype=torch.int32)
_CONV = (IMAGE, KERNEL, BIAS, *X, *WEIGHT, *ACC, *OUT, [2, 1], [1, 0], [1, 2], 1)
WIDE, UNIT = _block(2.0, 5, torch.int8), _block(1 / 256, -128, torch.int8)


def _reals(*shape: int) -> Tensor:
    return _codes(*shape).float() / 100 + 0.2


def _list_block(*blocks: Block) -> tuple[Any, ...]:
    """The block of a list operand: lists, but for the dtype."""
    scales, zero_points, dtypes, *bounds = map(list, zip(*blocks, strict=True))
    return (scales, zero_points, dtypes[0], *bounds)


def _conv1d(padding: list[int]) -> tuple[Any, ...]:
    tensors = (_codes(2, 4, 9), _codes(3, 4, 2).clamp(min=-127), None)
    return (*tensors, *X, *WEIGHT, *FLOAT_EDGE, *OUT, [2], padding, [3], 1)


def _conv3d(padding: list[int]) -> tuple[Any, ...]:
    tensors = (_codes(2, 4, 4, 3, 5), _codes(6, 2, 2, 1, 3).clamp(min=-127), None)
    return (*tensors, *X, *WEIGHT, *FLOAT_EDGE, *WIDE, [1, 2, 1], padding, [1, 1, 2], 2)


CALLS: dict[str, tuple[Any, ...]] = {
    "add": (IMAGE, IMAGE[:, :1], *X, *Y, *OUT, 2.0),
    "sub": (IMAGE, IMAGE[0], *X, *Y, *OUT),
    "relu": (IMAGE, *X, *OUT),
    "requantize": (IMAGE, *X, *OUT),
    "hard_tanh": (IMAGE, *X, *OUT, -0.5, 1.0),
    "conv2d": _CONV,
    "conv2d.sides": (*_CONV[:-3], [1, 0, 2, 1], [1, 2], 1),
    "linear": (
        _codes(2, 3, 5),
        _codes(4, 5).clamp(min=-127),
        None,
        *X,
        *WEIGHT,
        *FLOAT_EDGE,
        *OUT,
    ),
    "max_pool2d_with_indices": (IMAGE, *X, *OUT, [3, 2], [2, 1], [1, 0], [1, 1], True),
    "avg_pool2d": (IMAGE, *X, *OUT, [3, 2], [], [1, 1], False, True, None),
    "adaptive_avg_pool2d": (IMAGE, *X, *OUT, [3, 2]),
    "mean": (IMAGE, *X, *OUT, [3, 1], False),
    "sum": (IMAGE, *X, *OUT, [3, 1], False),
    "amax": (IMAGE, *X, *OUT, [3, 1], True),
    "amin": (IMAGE, *X, *OUT, [], False),
    "max.dim": (IMAGE, *X, *OUT, 1, False),
    "min.dim": (IMAGE, *X, *OUT, -1, True),
    "log_softmax": (IMAGE, *X, *OUT, 1),
    "native_group_norm": (IMAGE, *X, *OUT, _reals(4), -_reals(4), 2, 4, 30, 2, 1e-5),
    "gelu": (IMAGE, *X, *OUT, "tanh"),
    "pow": (IMAGE, *X, *OUT, 3),
    "threshold": (IMAGE, *X, *OUT, 0.5, -0.25),
    "prelu": (IMAGE, *X, *OUT, torch.tensor([0.25, -0.5, 1.5, 0.0])),
    "add.Scalar": (IMAGE, *X, *OUT, 0.7, -2.0),
    "sub.Scalar": (IMAGE, *X, *OUT, 0.7),
    "rsub.Scalar": (IMAGE, *X, *OUT, 0.7, 0.5),
    "mul.Scalar": (IMAGE, *X, *OUT, -0.3),
    "bmm": (IMAGE[0], IMAGE[0].transpose(1, 2).contiguous(), *X, *Y, *WIDE),
    "softmax": (IMAGE, *X, *UNIT, 1),
    "masked_softmax": (IMAGE, *X, *UNIT, _codes(4, 1, 5) > 40, 1),
    "native_layer_norm": (IMAGE, *X, *OUT, [6, 5], _reals(6, 5), -_reals(6, 5), 1e-5),
    "rms_norm": (IMAGE, *X, *OUT, [5], _reals(5), 1e-6),
    "embedding": (_codes(9, 4), *X, *OUT, torch.tensor([[3, 8, 0]])),
    "cat": ([IMAGE, IMAGE[:, :1]], *_list_block(X, Y), *OUT, 1),
    "constant_pad_nd": (IMAGE, *X, *OUT, [1, 0, 2, -1], 0.4),
    "upsample_nearest2d": (IMAGE, *X, *OUT, [9, 7]),
    "upsample_bilinear2d": (IMAGE, *X, *OUT, [9, 7], False),
    "conv1d": _conv1d([1]),
    "conv1d.sides": _conv1d([2, 1]),
    "conv3d": _conv3d([1, 0, 1]),
    "conv3d.sides": _conv3d([1, 0, 0, 2, 1, 1]),
    "convolution": (
        *(IMAGE, _codes(4, 3, 3, 2).clamp(min=-127), BIAS, *X, *WEIGHT, *ACC, *OUT),
        *([2, 1], [1, 0], [1, 2], True, [1, 0], 1),
    ),
}
# Codes that a formula may be off, beyond half a code: terms of add and sub are aligned to 20 bits,
# softmax and norms have intermediate results of their own.
SLACK = {"add": 1e-3, "sub": 1e-3, "softmax": 0.05, "native_layer_norm": 0.1, "rms_norm": 0.1}
SLACK |= {"masked_softmax": 0.05}
# A bilinear upsampling rounds its weights: an eighth of an input step, in steps of the output.
SLACK |= {"native_group_norm": 0.1, "log_softmax": 1e-3, "upsample_bilinear2d": 0.125 * 0.05 / 0.03}


def _call(spec: OpSpec) -> tuple[Any, ...]:
    """The table's call; an operator of activations and optional attributes needs none."""
    assert spec.fusion is not None
    if spec.qualified_name in CALLS:
        return CALLS[spec.qualified_name]
    return ((IMAGE, *X, *OUT), (IMAGE, IMAGE[:, :1], *X, *Y, *OUT))[len(spec.fusion.operands) - 1]


def _tensors(result: Any) -> list[Tensor]:
    return list(result) if isinstance(result, tuple) else [result]


def _channels_last(x: Tensor) -> Tensor:
    return x.to(memory_format=torch.channels_last) if x.dim() == 4 else x


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("spec", FUSED, ids=lambda spec: spec.qualified_name)
def test_fake_kernel_agrees_with_eager(spec: OpSpec, channels_last: bool) -> None:
    args = list(_call(spec))
    if channels_last:
        args[0] = tree_map(_channels_last, args[0])
    overload = _overload(spec)
    real = _tensors(overload(*args))
    mode = FakeTensorMode()
    faked = tree_map(lambda a: mode.from_tensor(a) if isinstance(a, Tensor) else a, args)
    with mode:
        fake = _tensors(overload(*faked))
    for expected, got in zip(real, fake, strict=True):
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
        assert got.stride() == expected.stride()
    if channels_last and real[0].dim() == 4:
        assert real[0].is_contiguous(memory_format=torch.channels_last)
    contiguous = _tensors(overload(*_call(spec)))
    assert all(torch.equal(a, b) for a, b in zip(real, contiguous, strict=True))


@pytest.mark.parametrize("spec", FUSED, ids=lambda spec: spec.qualified_name)
def test_opcheck(spec: OpSpec) -> None:
    torch.library.opcheck(
        _overload(spec),
        _call(spec),
        test_utils=("test_schema", "test_faketensor"),
    )


@pytest.mark.parametrize("spec", FUSED, ids=lambda spec: spec.qualified_name)
def test_integer_eager_is_within_a_code_of_float(spec: OpSpec) -> None:
    args = list(_call(spec))
    index = {argument.name: i for i, argument in enumerate(_overload(spec)._schema.arguments)}
    assert spec.fusion is not None
    for operand in spec.fusion.operands:
        value, first = args[index[operand.name]], index[f"{operand.name}_scale"]
        if operand.many:
            blocks = zip(value, args[first], args[first + 1], strict=True)
            args[index[operand.name]] = [_real(*block) for block in blocks]
            args[first : first + 5] = _list_block(*[FLOAT_EDGE] * len(value))
        elif value is not None:
            args[index[operand.name]] = _real(value, *args[first : first + 2])
            args[first : first + 5] = FLOAT_EDGE
    out = index["out_scale"]
    scale, zero = args[out : out + 2]
    args[out : out + 5] = FLOAT_EDGE
    exact = _tensors(_overload(spec)(*args))[0]
    assert exact.dtype == torch.float64
    codes = _tensors(_overload(spec)(*_call(spec)))[0]
    assert codes.dtype == torch.int8
    steps = (exact / float(scale)).nan_to_num(nan=0.0, posinf=1e9, neginf=-1e9) + int(zero)
    steps = steps.clamp(-128, 127)
    slack = SLACK.get(spec.qualified_name, 1e-6)
    assert float((codes.double() - steps).abs().max()) <= 0.5 + slack


def _real(codes: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    return (codes.double() - zero_point) * scale.double()


def test_float_edges_run_the_aten_operator() -> None:
    x, w, b = torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3), torch.randn(4)
    result = _ops.conv2d(
        x, w, b, *FLOAT_EDGE, *FLOAT_EDGE, *FLOAT_EDGE, *FLOAT_EDGE, [1, 1], [1, 1], [1, 1], 1
    )
    torch.testing.assert_close(result, functional.conv2d(x, w, b, padding=1))


def test_one_float_edge_computes_in_float() -> None:
    x = torch.randn(3, 4)
    codes = _codes(3, 4)
    result = _ops.add(x, codes, *FLOAT_EDGE, *Y, *FLOAT_EDGE)
    torch.testing.assert_close(result, x + (codes.float() - 11) * 0.04)
    rounded = _ops.add(x, codes, *FLOAT_EDGE, *Y, *OUT)
    assert rounded.dtype == torch.int8


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("operand", ["inp", "out"])
def test_half_a_block_is_an_error(position: int, operand: str) -> None:
    blocks = {"inp": list(X), "out": list(OUT)}
    blocks[operand][position] = None
    with pytest.raises(ValueError, match=rf"{operand}.*None"):
        _ops.relu(IMAGE, *blocks["inp"], *blocks["out"])


def test_per_channel_weight_is_the_shape_of_the_scale() -> None:
    scales = torch.tensor([0.5, 0.25, 2.0])
    per_channel: Block = (
        scales.reshape(3, 1),
        torch.zeros(3, 1, dtype=torch.int64),
        torch.float32,
        -127,
        127,
    )
    bias_block: Block = (
        0.05 * scales,
        torch.zeros(3, dtype=torch.int64),
        torch.float32,
        -(2**31),
        2**31 - 1,
    )
    x, weight = _codes(2, 5), _codes(3, 5).clamp(min=-127)
    out = _block(4.0, 7, torch.int8)
    got = _ops.linear(x, weight, BIAS, *X, *per_channel, *bias_block, *out)
    for row in range(2):
        for channel in range(3):
            acc = int(BIAS[channel]) + sum(
                (int(a) + 3) * int(w) for a, w in zip(x[row], weight[channel], strict=True)
            )
            assert int(got[row, channel]) == _rescaled(acc, 0.05, float(scales[channel]), 4.0, 7)


def _rescaled(acc: int, s_x: float, s_w: float, s_out: float, zero_point: int) -> int:
    """The contract in exact fractions: a 31-bit multiplier, one rounding, ties up."""
    f32 = [float(torch.tensor(scale)) for scale in (s_x, s_w, s_out)]
    mantissa, exponent = math.frexp(f32[0] * f32[1] / f32[2])
    ratio = Fraction(round(mantissa * 2**31)) * Fraction(2) ** (exponent - 31)
    return min(127, max(-128, zero_point + math.floor(acc * ratio + Fraction(1, 2))))


@pytest.mark.parametrize("zero_point", [-128, -1, 0, 37, 127])
def test_overflow_the_reference_subtracts_in_wide_integers(zero_point: int) -> None:
    """int8 codes minus int8 zero points do not wrap, in any operator of the reference."""
    codes = torch.tensor([[-128, -50, 127]], dtype=torch.int8)
    block, out = _block(1.0, zero_point), _block(2.0, 0, torch.int8)
    got = _ops.relu(codes, *block, *out)
    expected = [
        min(127, math.floor(Fraction(max(0, int(code) - zero_point), 2) + Fraction(1, 2)))
        for code in codes[0]
    ]
    assert got[0].tolist() == expected
    total = sum(int(code) - zero_point for code in codes[0])
    mean = _ops.mean(codes, *block, *out, [1], False)
    assert abs(int(mean) - min(127, max(-128, total / 6))) <= 0.5
    double = _ops.add(codes, codes, *block, *block, *_block(4.0, 0, torch.int8))
    for code, result in zip(codes[0], double[0], strict=True):
        assert abs(int(result) - (int(code) - zero_point) / 2) <= 0.5


def test_blocks_of_reads_the_node() -> None:
    grid_in, grid_out = Grid(0.05, -3), Grid(0.03, 7, -127, 120)
    weights = Weights(_codes(2, 4), [0.5, 0.25])

    def function(w: Weights, x: Tensor) -> Tensor:
        return grid_out.round(functional.linear(grid_in.round(x), w()))

    x = torch.randn(3, 4)
    gm = fused(Graph(function, w=weights), x)
    node = next(node for node in gm.graph.nodes if "fused_quant.linear" in str(node.target))
    blocks = dialect.blocks_of(gm, node)
    assert set(blocks) == {"inp", "weight", "bias", "out"}
    assert blocks["bias"] is None
    inp, weight, out = blocks["inp"], blocks["weight"], blocks["out"]
    assert inp is not None
    assert weight is not None
    assert out is not None
    assert inp.scale_value == pytest.approx(0.05)
    assert inp.zero_point_value == -3
    assert weight.scale.shape == (2, 1)
    assert weight.scale.reshape(-1).tolist() == [0.5, 0.25]
    assert (out.zero_point_value, out.quant_min, out.quant_max) == (7, -127, 120)
    with pytest.raises(ValueError, match="supported"):
        dialect.blocks_of(gm, next(n for n in gm.graph.nodes if "quantize" in str(n.target)))
