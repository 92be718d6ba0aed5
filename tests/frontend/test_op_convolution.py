# SPDX-License-Identifier: BSD-3-Clause
"""conv1d, conv3d, transposed convolutions: sums in Python integers, scales, paddings, spellings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import fused_quant
from fused_quant import dialect
from tests.frontend.blocks import FLOAT, OPS, Block, block, codes, error, fitting, real
from tests.frontend.both_graphs import both, converted, fused_names, result_of
from tests.frontend.exact import rescale
from tests.frontend.graphs import Graph, Grid

torch.set_num_threads(1)

INT32 = (torch.float32, -(2**31), 2**31 - 1)


def _positions(shape: Sequence[int]) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, shape)))


def _sums(
    x: Tensor,
    w: Tensor,
    zero_point: int,
    stride: list[int],
    begin: list[int],
    dilation: list[int],
    groups: int,
    out_shape: Sequence[int],
    transposed: bool,
) -> dict[tuple[int, ...], int]:
    """The sum of every output position: taps meet inputs at stride and dilation."""
    acc = dict.fromkeys(_positions(out_shape), 0)
    out_c = out_shape[1]
    in_c = x.shape[1]
    for n, *where in _positions(
        (out_shape[0], *(out_shape[2:] if not transposed else x.shape[2:]))
    ):
        for tap in _positions(w.shape[2:]):
            steps = [
                p * s - b + t * d
                for p, s, b, t, d in zip(where, stride, begin, tap, dilation, strict=True)
            ]
            limits = out_shape[2:] if transposed else x.shape[2:]
            if not all(0 <= step < limit for step, limit in zip(steps, limits, strict=True)):
                continue
            source, sink = (where, steps) if transposed else (steps, where)
            for o, i in itertools.product(range(out_c), range(in_c // groups)):
                group, inner = divmod(o, out_c // groups)
                c = group * (in_c // groups) + i
                index = (c, inner, *tap) if transposed else (o, i, *tap)
                value = int(x[(n, c, *source)]) - zero_point
                acc[(n, o, *sink)] += value * int(w[index])
    return acc


CASES: dict[str, dict[str, Any]] = {
    # x, w, stride, padding (sides), dilation, groups
    "1d": {"x": (2, 3, 17), "w": (5, 3, 3), "s": [2], "p": [1, 1], "d": [2], "g": 1},
    "1d-sides": {"x": (1, 4, 8), "w": (4, 2, 4), "s": [1], "p": [1, 2], "d": [1], "g": 2},
    "1d-depthwise": {"x": (1, 3, 8), "w": (6, 1, 3), "s": [1], "p": [2, 2], "d": [2], "g": 3},
    "3d": {
        "x": (2, 2, 4, 3, 5), "w": (3, 2, 2, 1, 3),
        "s": [2, 1, 1], "p": [1, 1, 0, 0, 1, 1], "d": [1, 1, 2], "g": 1,
    },
    "3d-sides": {
        "x": (1, 2, 3, 4, 3), "w": (2, 1, 2, 2, 2),
        "s": [1, 1, 1], "p": [0, 1, 1, 2, 1, 0], "d": [1, 1, 1], "g": 2,
    },
}  # fmt: skip


def _weights(shape: Sequence[int], axis: int, per_channel: bool) -> tuple[Tensor, Block]:
    w = codes(*shape, seed=5, low=-127)
    if not per_channel:
        return w, block(0.02)
    count = shape[axis]
    view = [count if i == axis else 1 for i in range(len(shape))]
    scale = (0.005 + 0.01 * torch.arange(count)).reshape(view)
    return w, (scale, torch.zeros(view, dtype=torch.int64), torch.float32, -127, 127)


def _bias(out_c: int, s_x: Tensor, weight: Block, channels: int) -> tuple[Tensor, Block]:
    values = (torch.arange(out_c) * 301 - 500).to(torch.int32)
    scale = s_x.reshape(-1) * weight[0].reshape(-1)
    assert scale.numel() in (1, channels)
    return values, (scale, torch.zeros(scale.numel(), dtype=torch.int64), *INT32)


@pytest.mark.parametrize("zero_point", [-128, -3, 127])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_sums_in_python_integers(name: str, per_channel: bool, zero_point: int) -> None:
    case = CASES[name]
    x = codes(*case["x"], seed=4)
    w, weight = _weights(case["w"], 0, per_channel)
    source, out_c = block(0.05, zero_point), case["w"][0]
    b, bias = _bias(out_c, source[0], weight, out_c)
    sides = case["p"]
    symmetric = sides[::2] == sides[1::2]
    packet = getattr(OPS, f"conv{len(case['s'])}d")
    op = packet.default if symmetric else packet.sides
    out = block(3.0, 9, out=True)
    padding = sides[::2] if symmetric else sides
    attributes = (case["s"], padding, case["d"], case["g"])
    got = op(x, w, b, *source, *weight, *bias, *out, *attributes)
    acc = _sums(x, w, zero_point, case["s"], sides[::2], case["d"], case["g"], got.shape, False)
    _assert_rescaled(got, acc, b, source, weight, out)


def _assert_rescaled(
    got: Tensor,
    acc: dict[tuple[int, ...], int],
    b: Tensor,
    source: Block,
    weight: Block,
    out: Block,
) -> None:
    scales = weight[0].reshape(-1).tolist()
    for position, total in acc.items():
        scale = scales[position[1] % len(scales)]
        ratio = (float(source[0]) * scale) / float(out[0])
        assert int(got[position]) == rescale(total + int(b[position[1]]), ratio, int(out[1]))


TRANSPOSED: dict[str, dict[str, Any]] = {
    "1d": {"x": (2, 3, 5), "w": (3, 4, 3), "s": [2], "p": [1], "d": [1], "o": [1], "g": 1},
    "2d": {"x": (1, 3, 4, 4), "w": (3, 4, 4, 4), "s": [2, 2], "p": [1, 1], "d": [1, 1],
           "o": [0, 0], "g": 1},
    "2d-one-channel": {"x": (1, 2, 5, 3), "w": (2, 1, 3, 3), "s": [2, 3], "p": [0, 1],
                       "d": [1, 2], "o": [0, 2], "g": 1},
    "2d-groups": {"x": (1, 4, 3, 3), "w": (4, 3, 2, 3), "s": [2, 1], "p": [0, 1], "d": [1, 1],
                  "o": [1, 0], "g": 2},
    "3d": {"x": (1, 2, 2, 3, 2), "w": (2, 3, 2, 2, 1), "s": [2, 1, 2], "p": [0, 1, 0],
           "d": [1, 2, 1], "o": [1, 0, 0], "g": 1},
}  # fmt: skip


@pytest.mark.parametrize("zero_point", [-128, 5])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_sums_in_python_integers(name: str, per_channel: bool, zero_point: int) -> None:
    case = TRANSPOSED[name]
    x = codes(*case["x"], seed=6)
    w, weight = _weights(case["w"], 1, per_channel)
    source, groups = block(0.05, zero_point), case["g"]
    out_c = case["w"][1] * groups
    b, bias = _bias(out_c, source[0], weight, case["w"][1])
    if groups > 1 and per_channel:  # every group has the same scales
        bias = (bias[0].repeat(groups), bias[1].repeat(groups), *bias[2:])
    out = block(3.0, 9, out=True)
    attributes = (case["s"], case["p"], case["d"], True, case["o"], groups)
    got = OPS.convolution(x, w, b, *source, *weight, *bias, *out, *attributes)
    acc = _sums(x, w, zero_point, case["s"], case["p"], case["d"], groups, got.shape, True)
    _assert_rescaled(got, acc, b, source, weight, out)


@pytest.mark.parametrize("scale", [torch.rand(3, 1, 1) + 0.1, torch.rand(3, 2, 2) + 0.1])
def test_weights_of_other_granularity_compute_in_float(scale: Tensor) -> None:
    """Transposed: per input channel. conv1d: in groups, for each tap."""
    x, source = codes(2, 3, 9, seed=1), block(0.05, -3)
    if scale.shape[1] == 1:
        w = codes(3, 4, 2, seed=2)
        exact = functional.conv_transpose1d(real(x, source), w.double() * scale.double(), None, 2)
        out = fitting(exact)
        got = OPS.convolution(
            x, w, None, *source, *block(scale), *FLOAT, *out, [2], [0], [1], True, [0], 1
        )
    else:
        x, w = codes(2, 4, 9, seed=1), codes(3, 4, 2, seed=2)
        widened = scale.repeat_interleave(2, 1).double()
        exact = functional.conv1d(real(x, source), w.double() * widened)
        out = fitting(exact)
        got = OPS.conv1d(x, w, None, *source, *block(scale), *FLOAT, *out, [1], [0], [1], 1)
    assert error(got, exact, out) <= 0.5 + 1e-3


@pytest.mark.parametrize("edges", [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 0, 1)])
def test_float_edges(edges: tuple[int, int, int]) -> None:
    params = (block(0.05, -3), block(0.02))
    tensors = (codes(1, 2, 4, 3, 3, seed=1), codes(2, 2, 2, 2, 2, seed=2, low=-127))
    reals = [real(t, p).float() for t, p in zip(tensors, params, strict=True)]
    bias = torch.tensor([0.5, -0.25])
    exact = functional.conv3d(*reals, bias, padding=1)
    out = fitting(exact)
    chosen = [t if q else r for t, r, q in zip(tensors, reals, edges, strict=False)]
    blocks = [p if q else FLOAT for p, q in zip(params, edges, strict=False)]
    last = out if edges[2] else FLOAT
    ones = [1, 1, 1]
    got = OPS.conv3d(*chosen, bias, *blocks[0], *blocks[1], *FLOAT, *last, ones, ones, ones, 1)
    if edges[2]:
        assert error(got, exact, out) <= 0.5 + 1e-3
    else:
        torch.testing.assert_close(got, exact)


SEQUENCE = torch.linspace(-2, 2, 2 * 3 * 17).reshape(2, 3, 17)
IMAGE = torch.linspace(-2, 2, 2 * 4 * 5 * 6).reshape(2, 4, 5, 6)
VOLUME = torch.linspace(-2, 2, 2 * 3 * 4 * 5).reshape(1, 2, 3, 4, 5)
MODULES: dict[str, tuple[nn.Module, Tensor, str]] = {
    "1d": (nn.Conv1d(3, 5, 3, stride=2, padding=1, dilation=2), SEQUENCE, "conv1d.default"),
    "1d-relu": (nn.Sequential(nn.Conv1d(3, 5, 3), nn.ReLU()), SEQUENCE, "conv1d.default"),
    "1d-same-even": (nn.Conv1d(3, 4, 4, padding="same"), SEQUENCE, "conv1d.sides"),
    "1d-same-even-relu": (
        nn.Sequential(nn.Conv1d(3, 4, 4, padding="same"), nn.ReLU()),
        SEQUENCE,
        "conv1d.sides",
    ),
    "1d-no-bias": (nn.Conv1d(3, 3, 1, groups=3, bias=False), SEQUENCE, "conv1d.default"),
    "3d": (nn.Conv3d(2, 3, (2, 1, 3), padding=1), VOLUME, "conv3d.default"),
    "transposed-1d": (nn.ConvTranspose1d(3, 4, 3, 2), SEQUENCE, "convolution.default"),
    "transposed-2d": (
        nn.ConvTranspose2d(4, 3, 4, stride=2, padding=1, output_padding=1),
        IMAGE,
        "convolution.default",
    ),
    "transposed-groups": (
        nn.ConvTranspose2d(4, 6, 3, groups=2, bias=False),
        IMAGE,
        "convolution.default",
    ),
    "transposed-3d": (nn.ConvTranspose3d(2, 2, 2), VOLUME, "convolution.default"),
}


@pytest.mark.parametrize("name", MODULES)
def test_pattern_the_default_quantizers_graph_is_one_operator(name: str) -> None:
    """Out of convert_pt2e, and out of to_edge: the same operator with the same bits."""
    module, x, wanted = MODULES[name]
    raw = converted(module, x)
    reference = raw(x)
    results = []
    for gm in both(raw, x):
        assert fused_names(gm) == [wanted]
        results.append(result_of(gm, (x,)))
    assert torch.equal(*results)
    node = next(n for n in fused_quant.fuse(raw).graph.nodes if wanted in str(n.target))
    out = dialect.blocks_of(raw, node)["out"]
    assert out is not None
    assert float((results[0] - reference).abs().max()) <= out.scale_value * 1.001


def test_per_channel_scales_of_a_transposed_convolution_are_on_axis_1() -> None:
    raw = fused_quant.fuse(converted(nn.ConvTranspose2d(4, 3, 2), IMAGE))
    node = next(n for n in raw.graph.nodes if "convolution" in str(n.target))
    blocks = dialect.blocks_of(raw, node)
    weight, bias = blocks["weight"], blocks["bias"]
    assert weight is not None
    assert bias is not None
    assert tuple(weight.scale.shape) == (1, 3, 1, 1)
    assert bias.scale.numel() == 3


def test_overflow_of_a_transposed_bias_enlarges_its_channel() -> None:
    """The weight's scale grows along axis 1; the other channels keep their codes."""
    module = nn.ConvTranspose2d(3, 2, 1)
    with torch.no_grad():
        module.weight[:, 0] *= 1e-7
        assert module.bias is not None
        module.bias.copy_(torch.tensor([5.0, -4.5]))
    x = IMAGE[:, :3].contiguous()
    raw = converted(module, x)
    reference = raw(x)
    gm = fused_quant.fuse(raw)
    assert fused_names(gm) == ["convolution.default"]
    assert float((gm(x) - reference).abs().max()) <= float(reference.abs().max()) / 100


def test_rank_an_unbatched_convolution_is_one_after_decomposition() -> None:
    """Training IR keeps conv1d of [C, L], which has no batch; decomposition adds one."""
    source, out = Grid(0.05, -3), Grid(0.1, 7)
    weights = Grid(0.02, 0, -127, 127)
    w = codes(4, 3, 2, low=-127)
    module = Graph(
        lambda q, v: out.quantize(functional.conv1d(source.dequantize(q), weights.dequantize(v)))
    )
    plain, edge = both(module, codes(3, 9), w)
    assert not fused_names(plain)
    assert torch.equal(plain(codes(3, 9), w), module(codes(3, 9), w))
    difference = result_of(edge, (codes(3, 9), w)).int() - module(codes(3, 9), w).int()
    assert int(difference.abs().max()) <= 1
