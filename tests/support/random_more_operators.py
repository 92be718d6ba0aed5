# SPDX-License-Identifier: BSD-3-Clause
"""More operators that `random_graphs` draws from: joins, moves, reductions and their kin."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.support.random_operators import (
    MAX_RANK,
    Draw,
    Entry,
    Maker,
    Step,
    broadcasts,
    randomized,
    unary,
)


def _along_an_axis(text: str, op: Callable[..., Tensor], **fixed: Any) -> Maker:
    """op(x, dim=axis) of any value that has an axis."""

    def make(d: Draw) -> Step | None:
        source = d.pick_rank(1, MAX_RANK)
        if source is None:
            return None
        rank = d.values[source].dim()
        axis = d.rng.randint(-rank, rank - 1)
        return Step(f"{text} {axis}", functools.partial(op, dim=axis, **fixed), (source,))

    return make


def _reduction(text: str, op: Callable[..., Tensor]) -> Maker:
    def make(d: Draw) -> Step | None:
        source = d.pick_rank(1, MAX_RANK)
        if source is None:
            return None
        rank = d.values[source].dim()
        dims, keepdim = d.rng.sample(range(rank), d.rng.randint(1, rank)), d.rng.random() < 0.5
        return Step(
            f"{text} {dims} {keepdim}", functools.partial(op, dim=dims, keepdim=keepdim), (source,)
        )

    return make


def _half(x: Tensor, dim: int, second: bool) -> Tensor:
    parts = torch.chunk(x, 2, dim)
    return parts[-1 if second else 0]


def _chunk(d: Draw) -> Step | None:
    return _along_an_axis("half", _half, second=d.rng.random() < 0.5)(d)


def _strided(x: Tensor, dim: int, start: int, step: int) -> Tensor:
    index: list[Any] = [slice(None)] * x.dim()
    index[dim] = slice(start, None, step)
    return x[tuple(index)]


def _slice(d: Draw) -> Step | None:
    return _along_an_axis(
        "slice", _strided, start=d.rng.choice([0, 0, -2]), step=d.rng.randint(1, 3)
    )(d)


def _moved(d: Draw) -> Step | None:
    source = d.pick_rank(1, 4)
    if source is None:
        return None
    rank = d.values[source].dim()
    axis = d.rng.randrange(rank)
    moves: list[tuple[str, Callable[..., Tensor]]] = [
        ("flip", functools.partial(torch.flip, dims=[axis])),
        ("roll", functools.partial(torch.roll, shifts=d.rng.randint(-2, 2), dims=axis)),
        (
            "repeat",
            functools.partial(Tensor.repeat, repeats=[1 + (i == axis) for i in range(rank)]),
        ),
        ("select", functools.partial(torch.select, dim=axis, index=-1)),
        ("repeat_interleave", functools.partial(torch.repeat_interleave, repeats=2, dim=axis)),
    ]
    text, op = d.rng.choice(moves)
    return Step(f"{text} {axis}", op, (source,))


class _Picked(nn.Module):
    """Picks along an axis by constant indices."""

    indices: Tensor

    def __init__(self, indices: Tensor, dim: int) -> None:
        super().__init__()
        self.register_buffer("indices", indices)
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return torch.index_select(x, self.dim, self.indices)


def _index_select(d: Draw) -> Step | None:
    source = d.pick_rank(1, MAX_RANK)
    if source is None:
        return None
    shape = d.values[source].shape
    dim = d.rng.randrange(len(shape))
    picks = [d.rng.randrange(shape[dim]) for _ in range(d.rng.randint(1, 5))]
    return Step(f"index_select {dim} {picks}", _Picked(torch.tensor(picks), dim), (source,))


def _stack(d: Draw) -> Step | None:
    a = d.pick_rank(0, MAX_RANK - 1)
    if a is None:
        return None
    shape = d.values[a].shape
    b = d.rng.choice([i for i, value in enumerate(d.values) if value.shape == shape])
    dim = d.rng.randint(-len(shape) - 1, len(shape))
    return Step(f"stack {dim}", lambda x, y: torch.stack([x, y], dim), (a, b))


def _mirrored(d: Draw) -> Step | None:
    mode = d.rng.choice(["reflect", "replicate"])
    source = d.pick(lambda value: value.dim() in (3, 4) and value.shape[-1] >= 3)
    if source is None:
        return None
    amounts = [d.rng.randint(0, 2), d.rng.randint(0, 2)]
    op = functools.partial(functional.pad, pad=amounts, mode=mode)
    return Step(f"{mode} {amounts}", op, (source,)) if d.values[source].dim() == 3 else None


def _transposed(d: Draw) -> Step | None:
    source = d.pick(lambda value: value.dim() in (3, 4))
    if source is None:
        return None
    value = d.values[source]
    make = nn.ConvTranspose1d if value.dim() == 3 else nn.ConvTranspose2d
    stride = d.rng.randint(1, 2)
    layer = make(
        value.shape[1], d.rng.randint(1, 4), d.rng.randint(1, 3), stride, bias=d.rng.random() < 0.7
    )
    return Step(f"{layer}", randomized(d, layer), (source,))


def _conv3d(d: Draw) -> Step | None:
    source = d.pick(lambda value: value.dim() == 5 and min(value.shape[2:]) >= 2)
    if source is None:
        return None
    layer = nn.Conv3d(
        d.values[source].shape[1], d.rng.randint(1, 4), 2, padding=d.rng.randint(0, 1)
    )
    return Step(f"{layer}", randomized(d, layer), (source,))


def _prelu(d: Draw) -> Step | None:
    source = d.pick_rank(2, MAX_RANK)
    if source is None:
        return None
    channels = d.rng.choice([1, d.values[source].shape[1]])
    layer = nn.PReLU(channels)
    with torch.no_grad():
        layer.weight.copy_(d.normal((channels,)))
    return Step(f"prelu {channels}", layer.eval(), (source,))


def _group_norm(d: Draw) -> Step | None:
    source = d.pick(lambda value: value.dim() >= 3 and value[0].numel() >= 4)
    if source is None:
        return None
    channels = d.values[source].shape[1]
    groups = d.rng.choice([1, channels]) if d.values[source][0, 0].numel() > 1 else 1
    return Step(f"group_norm {groups}", randomized(d, nn.GroupNorm(groups, channels)), (source,))


def _bilinear(d: Draw) -> Step | None:
    source = d.pick_rank(4, 4)
    if source is None:
        return None
    align = d.rng.random() < 0.5
    op = functools.partial(
        functional.interpolate, scale_factor=2, mode="bilinear", align_corners=align
    )
    return Step(f"upsample_bilinear2d {align}", op, (source,))


def _quotient(d: Draw) -> Step | None:
    b = d.pick(lambda value: float(value.min()) > 0.05)
    if b is None:
        return None
    a = d.rng.choice([i for i, v in enumerate(d.values) if broadcasts(v, d.values[b])])
    return Step("div", torch.div, (a, b))


class _Hidden(nn.Module):
    """softmax along the last axis of what a constant mask leaves in."""

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(x.masked_fill(self.mask, -torch.inf), -1)


def _masked_softmax(d: Draw) -> Step | None:
    source = d.pick(lambda value: value.dim() >= 1 and value.shape[-1] >= 2)
    if source is None:
        return None
    mask = d.normal(d.values[source].shape[-2:]) > 0.5
    mask[..., 0] = False
    return Step("masked_softmax", _Hidden(mask), (source,))


def _scalar(d: Draw) -> Step | None:
    c = d.rng.choice([0.5, -1.5, 2.0, 3.0])
    forms: list[tuple[str, Callable[[Tensor], Tensor]]] = [
        (f"x + {c}", lambda x: x + c),
        (f"{c} - x", lambda x: c - x),
        (f"x * {c}", lambda x: x * c),
        (f"x / {c}", lambda x: x / c),
    ]
    return unary(*d.rng.choice(forms))(d)


_FUNCTIONS: tuple[tuple[str, Callable[[Tensor], Tensor], float], ...] = (
    ("abs", torch.abs, 1e3),
    ("neg", torch.neg, 1e3),
    ("sin", torch.sin, 10.0),
    ("mish", functional.mish, 10.0),
    ("softplus", functional.softplus, 10.0),
    ("erf", torch.erf, 10.0),
    ("softshrink", functional.softshrink, 10.0),
)


MORE: tuple[Entry, ...] = (
    (("sum",), 1, _reduction("sum", torch.sum)),
    (("amax",), 1, _reduction("amax", torch.amax)),
    (("amin",), 1, _reduction("amin", torch.amin)),
    (("slice",), 3, _slice),
    (("slice",), 2, _chunk),
    (("slice",), 3, _moved),
    (("gather",), 2, _index_select),
    (("cat",), 1, _stack),
    (("mirror_pad",), 1, _mirrored),
    (("convolution",), 2, _transposed),
    (("conv3d",), 2, _conv3d),
    (("prelu",), 1, _prelu),
    (("native_group_norm",), 1, _group_norm),
    (("upsample_bilinear2d",), 1, _bilinear),
    (("div",), 1, _quotient),
    (("masked_softmax",), 1, _masked_softmax),
    (("log_softmax",), 1, _along_an_axis("log_softmax", torch.log_softmax)),
    (("add.Scalar",), 2, _scalar),
    (("mul",), 1, unary("square", torch.square, 10.0)),
    *(((name,), 1, unary(name, op, largest)) for name, op, largest in _FUNCTIONS),
)
