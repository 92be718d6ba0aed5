# SPDX-License-Identifier: BSD-3-Clause
"""Tiny models, one per way of calling an operator: data for the end-to-end tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Case:
    """A module, the shapes of its inputs without the batch, and the batch they are used with.

    per_item: the items of a batch do not influence each other. xnnpack: the stock quantizer
    quantizes every operator of it.
    """

    name: str
    build: Callable[[], nn.Module]
    shapes: tuple[Shape, ...]
    batch: int = 2
    per_item: bool = True

    def module(self) -> nn.Module:
        """The module with its own fixed weights."""
        torch.manual_seed(sum(map(ord, self.name)))
        return self.build().eval()

    def inputs(self, seed: int, batch: int | None = None) -> tuple[Tensor, ...]:
        """Normally distributed inputs."""
        generator = torch.Generator().manual_seed(seed)
        count = self.batch if batch is None else batch
        return tuple(torch.randn(count, *shape, generator=generator) for shape in self.shapes)


class Apply(nn.Module):
    """A function of the outputs of submodules, as a module."""

    def __init__(self, function: Callable[..., Tensor], *modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.layers = nn.ModuleList(modules)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*self.layers, *inputs)


def _conv(name: str, conv: Callable[[], nn.Module], shape: Shape = (4, 7, 6), n: int = 2) -> Case:
    return Case(f"conv-{name}", conv, (shape,), n)


def _apply(
    name: str,
    function: Callable[..., Tensor],
    *shapes: Shape,
    modules: Callable[[], tuple[nn.Module, ...]] = tuple,
    batch: int = 2,
    per_item: bool = True,
) -> Case:
    return Case(name, lambda: Apply(function, *modules()), shapes, batch, per_item)


def _padded(padding: tuple[int, ...], kernel: int) -> Callable[[], nn.Module]:
    return lambda: Apply(
        lambda c, x: c(functional.pad(x, padding)), nn.Conv2d(4, 3, kernel, padding=1)
    )


CONVOLUTIONS = (
    _conv("3x3", lambda: nn.Conv2d(4, 5, 3)),
    _conv("zero-point-padding", lambda: nn.Conv2d(4, 5, 3, padding=(2, 1), bias=False)),
    _conv("one-side-padding-stride2", lambda: nn.Conv2d(4, 5, 3, stride=2, padding=1), (4, 6, 8)),
    _conv("stride-2x3", lambda: nn.Conv2d(4, 5, (3, 2), stride=(2, 3))),
    _conv("dilation-1x2", lambda: nn.Conv2d(4, 5, 3, dilation=(1, 2), padding=(1, 2))),
    _conv("fast-path-5x1", lambda: nn.Conv2d(4, 8, (5, 1)), n=1),
    _conv("fast-path-1x5", lambda: nn.Conv2d(4, 8, (1, 5)), n=2),
    _conv("fast-path-1x1", lambda: nn.Conv2d(4, 8, 1), n=3),
    _conv("fast-path-1x1-stride2", lambda: nn.Conv2d(4, 8, 1, stride=2), n=1),
    _conv("fast-path-1x1-padding", lambda: nn.Conv2d(4, 8, 1, padding=1), n=2),
    _conv("one-input-channel", lambda: nn.Conv2d(1, 4, 3), (1, 7, 6)),
    _conv("one-output-channel", lambda: nn.Conv2d(4, 1, 3, padding=1)),
    _conv("depthwise", lambda: nn.Conv2d(4, 4, 3, groups=4, padding=1)),
    _conv("depthwise-multiplier4", lambda: nn.Conv2d(3, 12, 3, groups=3), (3, 7, 6), 3),
    _conv(
        "depthwise-dilated", lambda: nn.Conv2d(3, 6, 3, groups=3, dilation=2, bias=False), (3, 7, 6)
    ),
    _conv("grouped-not-depthwise", lambda: nn.Conv2d(8, 12, 3, groups=4), (8, 5, 6)),
    _conv("grouped-one-output-each", lambda: nn.Conv2d(6, 3, 3, groups=3), (6, 5, 6)),
    _conv("same-odd", lambda: nn.Conv2d(4, 5, 3, padding="same")),
    _conv("same-even", lambda: nn.Conv2d(4, 5, 4, padding="same")),
    _conv("same-even-dilated", lambda: nn.Conv2d(4, 5, (2, 3), padding="same", dilation=(3, 2))),
    _conv("valid", lambda: nn.Conv2d(4, 5, 3, padding="valid")),
    _conv("padded-outside", _padded((1, 2, 0, 3), 3)),
    _conv("padded-outside-one-axis", _padded((0, 1), 2)),
    _conv(
        "same-even-relu",
        lambda: nn.Sequential(nn.Conv2d(1, 8, (16, 1), padding="same"), nn.ReLU()),
        (1, 32, 1),
        1,
    ),
    _conv("relu", lambda: nn.Sequential(nn.Conv2d(4, 5, 3), nn.ReLU())),
    _conv("relu6", lambda: nn.Sequential(nn.Conv2d(4, 5, 3), nn.ReLU6())),
    _conv("hardtanh", lambda: nn.Sequential(nn.Conv2d(4, 5, 3), nn.Hardtanh(-0.5, 0.25))),
    _conv("bn", lambda: nn.Sequential(nn.Conv2d(4, 5, 3, bias=False), nn.BatchNorm2d(5))),
    _conv("relu-inplace", lambda: nn.Sequential(nn.Conv2d(4, 5, 3), nn.ReLU(inplace=True))),
    _apply(
        "conv-clamp",
        lambda c, x: c(x).clamp(-0.25, 0.5),
        (4, 5, 6),
        modules=lambda: (nn.Conv2d(4, 5, 3),),
    ),
    _apply(
        "conv-clamp-min-inplace",
        lambda c, x: c(x).clamp_(min=0.1),
        (4, 5, 6),
        modules=lambda: (nn.Conv2d(4, 5, 3),),
    ),
)

LINEARS = (
    _apply(
        "linear-rank1",
        lambda m, x: m(x.reshape(6)),
        (6,),
        modules=lambda: (nn.Linear(6, 5),),
        batch=1,
        per_item=False,
    ),
    _apply("linear-rank2", lambda m, x: m(x), (6,), modules=lambda: (nn.Linear(6, 5),), batch=3),
    _apply(
        "linear-rank3", lambda m, x: m(x), (3, 6), modules=lambda: (nn.Linear(6, 5, bias=False),)
    ),
    _apply("linear-rank4", lambda m, x: m(x), (2, 3, 6), modules=lambda: (nn.Linear(6, 5),)),
    _apply(
        "linear-relu6",
        lambda m, x: functional.relu6(m(x)),
        (6,),
        modules=lambda: (nn.Linear(6, 5),),
        batch=1,
    ),
    _apply("linear-one-feature", lambda m, x: m(x), (1,), modules=lambda: (nn.Linear(1, 4),)),
    _apply(
        "linear-after-flatten",
        lambda c, m, x: m(torch.flatten(functional.relu(c(x)), 1)),
        (2, 4, 5),
        modules=lambda: (nn.Conv2d(2, 3, 3), nn.Linear(18, 4)),
    ),
)

ARITHMETIC = (
    _apply("add", lambda x, y: x + y, (3, 4, 5), (3, 4, 5)),
    _apply("add-alpha2", lambda x, y: torch.add(x, y, alpha=2), (3, 4), (3, 4)),
    _apply("add-alpha-minus1", lambda x, y: torch.add(x, y, alpha=-1), (3, 4), (3, 4)),
    _apply("add-alpha-half", lambda x, y: torch.add(x, y, alpha=0.5), (3, 4), (3, 4)),
    _apply("sub", lambda x, y: x - y, (3, 4, 5), (3, 4, 5), batch=3),
    _apply("sub-alpha2", lambda x, y: torch.sub(x, y, alpha=2), (3, 4), (3, 4)),
    _apply("add-relu", lambda x, y: functional.relu(x + y), (3, 4, 5), (3, 4, 5)),
    _apply("sub-relu6", lambda x, y: functional.relu6(x - y), (3, 4, 5), (3, 4, 5)),
    _apply("add-itself", lambda x: x + x, (3, 4)),
    _apply("add-broadcast-channel", lambda x, y: x + y, (3, 4, 5), (3, 1, 1)),
    _apply("add-broadcast-both", lambda x, y: x + y, (3, 1, 5), (1, 4, 1), batch=3),
    _apply("add-broadcast-rank", lambda x, y: x + y, (3, 4, 5), (5,), batch=1, per_item=False),
    _apply(
        "add-inplace-residual",
        lambda c, x: functional.relu(c(x).add_(x), inplace=True),
        (4, 5, 6),
        modules=lambda: (nn.Conv2d(4, 4, 3, padding=1),),
    ),
)

ACTIVATIONS = (
    _apply("relu-alone", lambda x: functional.relu(x), (3, 4, 5)),
    _apply("relu6-alone", lambda x: functional.relu6(x), (3, 4, 5)),
    _apply("hardtanh-alone", lambda x: functional.hardtanh(x, -0.3, 0.7), (3, 4)),
    _apply("clamp-alone-max", lambda x: x.clamp(max=0.4), (3, 4)),
    _apply("relu-twice", lambda x: functional.relu6(functional.relu(x)), (3, 4)),
)

POOLS = (
    _apply("max-pool", lambda x: functional.max_pool2d(functional.relu(x), 2), (3, 6, 8)),
    _apply(
        "max-pool-padding",
        lambda x: functional.max_pool2d(functional.relu(x), 3, 2, 1),
        (3, 7, 8),
        batch=3,
    ),
    _apply(
        "max-pool-dilation",
        lambda x: functional.max_pool2d(functional.relu(x), (2, 3), (1, 2), (1, 0), (2, 1)),
        (3, 7, 8),
    ),
    _apply(
        "max-pool-ceil",
        lambda x: functional.max_pool2d(functional.relu(x), 2, ceil_mode=True),
        (3, 7, 9),
        batch=1,
    ),
    _apply(
        "conv-max-pool",
        lambda c, x: functional.max_pool2d(functional.relu(c(x)), 3, 2, 1, ceil_mode=True),
        (2, 8, 8),
        modules=lambda: (nn.Conv2d(2, 3, 3),),
    ),
    *(
        _apply(
            f"avg-pool-ceil{int(ceil)}-include{int(include)}",
            lambda x, c=ceil, i=include: functional.avg_pool2d(x, 3, 2, 1, c, i),
            (3, 7, 8),
        )
        for ceil in (False, True)
        for include in (False, True)
    ),
    _apply(
        "avg-pool-default-stride", lambda x: functional.avg_pool2d(x, (2, 3)), (3, 7, 8), batch=3
    ),
    _apply(
        "avg-pool-divisor",
        lambda x: functional.avg_pool2d(x, 2, 2, 0, divisor_override=3),
        (3, 6, 8),
    ),
    _apply("adaptive-1x1", lambda x: functional.adaptive_avg_pool2d(x, 1), (3, 5, 7)),
    _apply("adaptive-divisible", lambda x: functional.adaptive_avg_pool2d(x, (2, 4)), (3, 6, 8)),
    _apply(
        "adaptive-not-divisible", lambda x: functional.adaptive_avg_pool2d(x, (3, 5)), (3, 7, 8)
    ),
    _apply(
        "conv-adaptive",
        lambda c, x: functional.adaptive_avg_pool2d(functional.relu(c(x)), 1),
        (2, 6, 7),
        modules=lambda: (nn.Conv2d(2, 5, 3),),
        batch=3,
    ),
)

MEANS = (
    _apply("mean-spatial", lambda x: x.mean((2, 3)), (3, 4, 5), batch=3),
    _apply("mean-keepdim", lambda x: x.mean((-1, -2), keepdim=True), (3, 4, 5)),
    _apply("mean-last", lambda x: x.mean(-1), (3, 4, 5)),
    _apply("mean-1-3", lambda x: x.mean((3, 1)), (3, 4, 5)),
    _apply("mean-batch", lambda x: x.mean(0), (3, 4, 5), per_item=False),
    _apply("mean-all", lambda x: x.mean((0, 1, 2, 3), keepdim=True), (3, 4, 5), per_item=False),
    _apply(
        "conv-mean",
        lambda c, x: c(x).mean((3, 2)),
        (2, 6, 7),
        modules=lambda: (nn.Conv2d(2, 5, 3),),
    ),
)


def _pair() -> tuple[nn.Module, ...]:
    return nn.Conv2d(2, 4, 3), nn.Linear(6, 3)


MOVEMENT = (
    _apply("view-between", lambda c, m, x: m(c(x).view(-1, 4, 6)), (2, 4, 5), modules=_pair),
    _apply(
        "permute-between",
        lambda c, m, x: m(c(x).permute(0, 2, 1, 3).reshape(x.shape[0], 4, 6)),
        (2, 4, 5),
        modules=_pair,
    ),
    _apply(
        "transpose-between",
        lambda c, m, x: m(c(x).flatten(2).transpose(-1, -2).reshape(x.shape[0], 4, 6)),
        (2, 4, 5),
        modules=_pair,
    ),
    _apply(
        "unsqueeze-squeeze",
        lambda c, m, x: m(c(x).unsqueeze(1).flatten(3).squeeze(1)),
        (2, 4, 5),
        modules=_pair,
    ),
    _apply(
        "permute-at-the-end",
        lambda c, x: c(x).permute(0, 2, 3, 1),
        (2, 4, 5),
        modules=lambda: (nn.Conv2d(2, 4, 3),),
    ),
    _apply(
        "permute-at-the-start",
        lambda c, x: c(x.permute(0, 3, 1, 2)),
        (4, 5, 2),
        modules=lambda: (nn.Conv2d(2, 4, 3),),
    ),
    _apply(
        "dropout-between",
        lambda d, m, x: m(d(functional.relu(x))),
        (6,),
        modules=lambda: (nn.Dropout(), nn.Linear(6, 3)),
    ),
)

CASES = (*CONVOLUTIONS, *LINEARS, *ARITHMETIC, *ACTIVATIONS, *POOLS, *MEANS, *MOVEMENT)
