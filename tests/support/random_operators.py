# SPDX-License-Identifier: BSD-3-Clause
"""The operators that `random_graphs` draws from: one maker each, and the table of them."""

from __future__ import annotations

import dataclasses
import functools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Shape = tuple[int, ...]
Apply = Callable[..., Tensor]

_MAX_ELEMENTS, _MAX_MAGNITUDE, MAX_RANK = 1500, 1e3, 5


@dataclasses.dataclass(frozen=True)
class Step:
    """One operator: values are numbered, the inputs first, then one per step."""

    text: str
    apply: Apply
    arguments: tuple[int, ...]


class _WithConstant(nn.Module):
    """A binary operator with a buffer as one operand."""

    def __init__(self, op: Apply, constant: Tensor, first: bool) -> None:
        super().__init__()
        self.register_buffer("constant", constant)
        self.op, self.first = op, first

    def forward(self, x: Tensor) -> Tensor:
        return self.op(self.constant, x) if self.first else self.op(x, self.constant)


class Draw:
    """The module under construction: random choices and the values made so far."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.values: list[Tensor] = []
        self.steps: list[Step] = []

    def normal(self, shape: Sequence[int], scale: float = 1.0) -> Tensor:
        """Normally distributed values."""
        return torch.randn(tuple(shape), generator=self.generator) * scale

    def pick(self, accept: Callable[[Tensor], bool]) -> int | None:
        """A value that fits, mostly a late one."""
        fitting = [i for i, value in enumerate(self.values) if accept(value)]
        if not fitting:
            return None
        return fitting[-1] if self.rng.random() < 0.6 else self.rng.choice(fitting)

    def pick_rank(self, low: int, high: int) -> int | None:
        """A value whose rank is within the bounds."""
        return self.pick(lambda value: low <= value.dim() <= high)

    def add(self, step: Step) -> bool:
        """Run a step and keep it, unless its result is empty, large, or not finite."""
        with torch.no_grad():
            result = step.apply(*(self.values[i] for i in step.arguments))
        if not 0 < result.numel() <= _MAX_ELEMENTS or result.dim() > MAX_RANK:
            return False
        if not bool(torch.isfinite(result).all()) or float(result.abs().max()) > _MAX_MAGNITUDE:
            return False
        self.values.append(result)
        self.steps.append(step)
        return True


Maker = Callable[[Draw], Step | None]
Entry = tuple[tuple[str, ...], int, Maker]


def randomized(d: Draw, layer: nn.Module) -> nn.Module:
    """The layer with parameters from the module's own generator."""
    with torch.no_grad():
        for parameter in layer.parameters():
            fan_in = max(1, parameter.numel() // max(1, parameter.shape[0]))
            parameter.copy_(d.normal(parameter.shape, 1 / math.sqrt(fan_in)))
    return layer.eval()


def _conv2d(d: Draw) -> Step | None:
    source = d.pick_rank(4, 4)
    if source is None:
        return None
    channels, *image = d.values[source].shape[1:]
    divisors = [g for g in range(1, channels + 1) if channels % g == 0]
    groups = d.rng.choice([1, channels, d.rng.choice(divisors)])
    kernel = [d.rng.choice([k for k in (1, 2, 3, 5) if k <= size + 2]) for size in image]
    stride, dilation = d.rng.choice([1, 1, 2, (2, 1)]), d.rng.choice([1, 1, 1, 2])
    padding: Any = d.rng.choice([0, 1, (1, 0), (0, 2)])
    reach = [
        s + 2 * p - dilation * (k - 1)
        for s, p, k in zip(image, _pair(padding), kernel, strict=True)
    ]
    if min(reach) < 1:
        return None
    if stride == 1 and d.rng.random() < 0.15:
        padding = "same"
    out = groups * d.rng.randint(1, max(1, 8 // groups))
    bias = d.rng.random() < 0.7
    layer = nn.Conv2d(channels, out, tuple(kernel), stride, padding, dilation, groups, bias)  # type: ignore[arg-type]
    text = f"conv2d {channels}->{out} k{kernel} s{stride} p{padding} d{dilation} g{groups} b{bias}"
    return Step(text, randomized(d, layer), (source,))


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


def _linear(d: Draw) -> Step | None:
    source = d.pick_rank(1, MAX_RANK)
    if source is None:
        return None
    features, out, bias = d.values[source].shape[-1], d.rng.randint(1, 9), d.rng.random() < 0.7
    layer = randomized(d, nn.Linear(features, out, bias))
    return Step(f"linear {features}->{out} b{bias}", layer, (source,))


def broadcasts(a: Tensor, b: Tensor) -> bool:
    """True for shapes that an elementwise operator takes together."""
    pairs = zip(reversed(a.shape), reversed(b.shape), strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)


def _binary(ops: Sequence[tuple[str, Apply]]) -> Maker:
    def make(d: Draw) -> Step | None:
        text, op = d.rng.choice(ops)
        a = d.pick(lambda value: True)
        assert a is not None
        if d.rng.random() < 0.25:
            shape = [1 if d.rng.random() < 0.3 else size for size in d.values[a].shape]
            shape = shape[d.rng.randint(0, len(shape)) if d.rng.random() < 0.3 else 0 :]
            first = d.rng.random() < 0.5
            where = f"buffer{shape} {'first' if first else 'second'}"
            return Step(f"{text} {where}", _WithConstant(op, d.normal(shape), first), (a,))
        others = [i for i, value in enumerate(d.values) if broadcasts(d.values[a], value)]
        residuals = [i for i in others if i != a and d.values[i].shape == d.values[a].shape]
        b = d.rng.choice(residuals if residuals and d.rng.random() < 0.7 else others)
        return Step(text, op, (a, b) if d.rng.random() < 0.5 else (b, a))

    return make


def _with_alpha(op: Any) -> list[tuple[str, Apply]]:
    name = op.__name__
    scaled = [(f"{name} alpha={a}", functools.partial(op, alpha=a)) for a in (2, -1, 0.5)]
    return [(name, op)] * 3 + scaled


def unary(text: str, op: Apply, largest: float = math.inf) -> Maker:
    """A function of one element, of values up to `largest`."""

    def make(d: Draw) -> Step | None:
        source = d.pick(lambda value: float(value.abs().max()) <= largest)
        return None if source is None else Step(text, op, (source,))

    return make


def _hard_tanh(d: Draw) -> Step | None:
    low, high = d.rng.choice([(-1.0, 1.0), (-0.5, 2.0), (0.0, 3.0), (0.25, 1.5)])
    choices: list[tuple[Apply, str]] = [
        (functional.relu6, "relu6"),
        (
            functools.partial(functional.hardtanh, min_val=low, max_val=high),
            f"hardtanh [{low}, {high}]",
        ),
        (functools.partial(torch.clamp, min=low, max=high), f"clamp [{low}, {high}]"),
        (functools.partial(torch.clamp, min=low), f"clamp [{low}, )"),
        (functools.partial(torch.clamp, max=high), f"clamp (, {high}]"),
    ]
    op, text = d.rng.choice(choices)
    return unary(text, op)(d)


def _pool(d: Draw) -> tuple[int, dict[str, Any]] | None:
    source = d.pick_rank(4, 4)
    if source is None:
        return None
    kernel = [d.rng.randint(1, min(3, size)) for size in d.values[source].shape[2:]]
    half = min(kernel) // 2
    return source, {
        "kernel_size": tuple(kernel),
        "stride": d.rng.choice([None, 1, 2, (1, 2)]),
        "padding": d.rng.randint(0, half),
        "ceil_mode": d.rng.random() < 0.3,
    }


def _max_pool2d(d: Draw) -> Step | None:
    drawn = _pool(d)
    if drawn is None:
        return None
    source, window = drawn
    return Step(
        f"max_pool2d {window}", functools.partial(functional.max_pool2d, **window), (source,)
    )


def _avg_pool2d(d: Draw) -> Step | None:
    drawn = _pool(d)
    if drawn is None:
        return None
    source, window = drawn
    window["count_include_pad"] = d.rng.random() < 0.5
    window["divisor_override"] = d.rng.choice([None, None, None, 3])
    return Step(
        f"avg_pool2d {window}", functools.partial(functional.avg_pool2d, **window), (source,)
    )


def _adaptive_avg_pool2d(d: Draw) -> Step | None:
    source = d.pick_rank(4, 4)
    if source is None:
        return None
    height, width = d.values[source].shape[2:]
    size = (d.rng.randint(1, height), d.rng.randint(1, width))
    op = functools.partial(functional.adaptive_avg_pool2d, output_size=size)
    return Step(f"adaptive_avg_pool2d {size}", op, (source,))


def _mean(d: Draw) -> Step | None:
    source = d.pick_rank(1, MAX_RANK)
    if source is None:
        return None
    rank = d.values[source].dim()
    dims = d.rng.sample(range(rank), d.rng.randint(1, rank))
    dims = [axis - rank if d.rng.random() < 0.3 else axis for axis in dims]
    keepdim = d.rng.random() < 0.5
    op = functools.partial(torch.mean, dim=dims, keepdim=keepdim)
    return Step(f"mean {dims} keepdim={keepdim}", op, (source,))


def _factors(d: Draw, count: int, rank: int) -> list[int]:
    shape = []
    for _ in range(rank - 1):
        chosen = d.rng.choice([f for f in range(1, count + 1) if count % f == 0])
        shape.append(chosen)
        count //= chosen
    return [*shape, count]


def _reshaped(x: Tensor, shape: Shape) -> Tensor:
    return x.reshape(shape)


def _reshape(d: Draw) -> Step | None:
    source = d.pick(lambda value: True)
    assert source is not None
    value = d.values[source]
    rank = value.dim()
    kind = d.rng.choice(["reshape", "flatten", "unsqueeze", "squeeze"])
    if kind == "unsqueeze" and rank < MAX_RANK:
        axis = d.rng.randint(-rank - 1, rank)
        return Step(f"unsqueeze {axis}", functools.partial(torch.unsqueeze, dim=axis), (source,))
    if kind == "squeeze" and 1 in value.shape:
        axis = d.rng.choice([i for i, size in enumerate(value.shape) if size == 1])
        if d.rng.random() < 0.5:
            return Step("squeeze", torch.squeeze, (source,))
        return Step(f"squeeze {axis}", functools.partial(torch.squeeze, dim=axis), (source,))
    if kind == "flatten" and rank >= 2:
        start = d.rng.randint(0, rank - 2)
        op = functools.partial(torch.flatten, start_dim=start)
        return Step(f"flatten {start}", op, (source,))
    shape = tuple(_factors(d, value.numel(), d.rng.randint(1, MAX_RANK)))
    return Step(f"reshape {shape}", functools.partial(_reshaped, shape=shape), (source,))


def _permute(d: Draw) -> Step | None:
    source = d.pick_rank(2, MAX_RANK)
    if source is None:
        return None
    rank = d.values[source].dim()
    dims = d.rng.sample(range(rank), rank)
    if d.rng.random() < 0.3:
        op = functools.partial(torch.transpose, dim0=dims[0], dim1=dims[1])
        return Step(f"transpose {dims[:2]}", op, (source,))
    return Step(f"permute {dims}", functools.partial(torch.permute, dims=dims), (source,))


def _joined(a: Tensor, b: Tensor, dim: int) -> Tensor:
    return torch.cat([a, b], dim)


def _cat(d: Draw) -> Step | None:
    a = d.pick_rank(1, MAX_RANK)
    if a is None:
        return None
    shape = d.values[a].shape
    dim = d.rng.randint(-len(shape), len(shape) - 1)
    b = d.rng.choice([i for i, value in enumerate(d.values) if value.shape == shape])
    return Step(f"cat {dim}", functools.partial(_joined, dim=dim), (a, b))


def _softmax(d: Draw) -> Step | None:
    source = d.pick_rank(1, MAX_RANK)
    if source is None:
        return None
    rank = d.values[source].dim()
    axis = d.rng.randint(-rank, rank - 1)
    return Step(f"softmax {axis}", functools.partial(torch.softmax, dim=axis), (source,))


def _normalization(text: str, make: Callable[[int], nn.Module]) -> Maker:
    """A normalization of the last dimension."""

    def maker(d: Draw) -> Step | None:
        source = d.pick(lambda value: value.dim() >= 2 and value.shape[-1] >= 2)
        if source is None:
            return None
        layer = make(d.values[source].shape[-1])
        return Step(text, randomized(d, layer), (source,))

    return maker


def _bmm(d: Draw) -> Step | None:
    a = d.pick_rank(3, 3)
    if a is None:
        return None
    batch, _, inner = d.values[a].shape
    fitting = [i for i, v in enumerate(d.values) if v.dim() == 3 and v.shape[:2] == (batch, inner)]
    if fitting:
        return Step("bmm", torch.bmm, (a, d.rng.choice(fitting)))
    constant = d.normal((batch, inner, d.rng.randint(1, 6)))
    return Step("bmm buffer", _WithConstant(torch.bmm, constant, False), (a,))


def _constant_pad(d: Draw) -> Step | None:
    source = d.pick_rank(1, MAX_RANK)
    if source is None:
        return None
    amounts = [d.rng.randint(0, 2) for _ in range(2 * d.rng.randint(1, d.values[source].dim()))]
    value = d.rng.choice([0.0, 0.0, 0.75])
    op = functools.partial(functional.pad, pad=amounts, value=value)
    return Step(f"pad {amounts} value={value}", op, (source,))


def _upsample_nearest2d(d: Draw) -> Step | None:
    source = d.pick_rank(4, 4)
    if source is None:
        return None
    op = functools.partial(functional.interpolate, scale_factor=2, mode="nearest")
    return Step("upsample_nearest2d 2", op, (source,))


def _conv1d(d: Draw) -> Step | None:
    source = d.pick(lambda value: value.dim() == 3 and value.shape[-1] >= 3)
    if source is None:
        return None
    channels, out = d.values[source].shape[1], d.rng.randint(1, 6)
    layer = nn.Conv1d(channels, out, d.rng.randint(1, 3), d.rng.randint(1, 2), d.rng.randint(0, 1))
    return Step(f"{layer}", randomized(d, layer), (source,))


# Operators an entry needs, how often it is drawn, and how it is made.
TABLE: tuple[Entry, ...] = (
    (("conv2d",), 8, _conv2d),
    (("linear",), 5, _linear),
    (("add",), 4, _binary(_with_alpha(torch.add))),
    (("sub",), 2, _binary(_with_alpha(torch.sub))),
    (("mul",), 3, _binary([("mul", torch.mul)])),
    (("relu",), 3, unary("relu", torch.relu)),
    (("hard_tanh",), 2, _hard_tanh),
    (("max_pool2d_with_indices",), 2, _max_pool2d),
    (("avg_pool2d",), 2, _avg_pool2d),
    (("adaptive_avg_pool2d", "mean"), 1, _adaptive_avg_pool2d),
    (("mean",), 2, _mean),
    (("reshape",), 3, _reshape),
    (("permute",), 2, _permute),
    (("sigmoid",), 1, unary("sigmoid", torch.sigmoid)),
    (("tanh",), 1, unary("tanh", torch.tanh)),
    (("gelu",), 1, unary("gelu", functional.gelu)),
    (("silu",), 1, unary("silu", functional.silu)),
    (("hardswish",), 1, unary("hardswish", functional.hardswish)),
    (("hardsigmoid",), 1, unary("hardsigmoid", functional.hardsigmoid)),
    (("leaky_relu",), 1, unary("leaky_relu", functional.leaky_relu)),
    (("elu",), 1, unary("elu", functional.elu)),
    (("exp",), 1, unary("exp", torch.exp, 4.0)),
    (("softmax",), 1, _softmax),
    (("native_layer_norm",), 1, _normalization("layer_norm", nn.LayerNorm)),
    (("rms_norm",), 1, _normalization("rms_norm", functools.partial(nn.RMSNorm, eps=1e-5))),
    (("bmm",), 2, _bmm),
    (("cat",), 2, _cat),
    (("maximum",), 1, _binary([("maximum", torch.maximum)])),
    (("minimum",), 1, _binary([("minimum", torch.minimum)])),
    (("constant_pad_nd",), 1, _constant_pad),
    (("upsample_nearest2d",), 1, _upsample_nearest2d),
    (("conv1d",), 2, _conv1d),
)
