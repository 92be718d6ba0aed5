# SPDX-License-Identifier: BSD-3-Clause
"""Every network of the zoo trained on scikit-learn's handwritten digits, in seconds each.

The digits are stretched to the input of the network: an image, rows of features in time, or words
(pixels in steps). Classifiers learn the digit, or its remainder where they have fewer classes; the
U-Net learns which pixels of a noisy image are ink, the detection head which cells hold some.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from examples.digits import data
from examples.study import Outputs, Study
from examples.zoo.small import SMALL

BATCH, STEPS, LEARNING_RATE = 64, 300, 4e-3
FEWER_STEPS = 100  # for the one network that takes half a second a step
CALIBRATION, TESTS = 48, 100
INK = 0.3

Loss = Callable[[Tensor, Tensor], Tensor]


def stretch(images: Tensor, shape: tuple[int, ...], tokens: int | None) -> Tensor:
    """Digits [n, 1, 8, 8] in [0, 1] as inputs of a network that reads `shape`."""
    if tokens is not None:
        side = int(shape[1] ** 0.5)
        words = nn.functional.adaptive_avg_pool2d(images, side) * (tokens - 1)
        return words.round().long().flatten(1)
    size = (shape[-2], shape[-1])
    wide = nn.functional.interpolate(images, size, mode="bilinear", align_corners=False)
    wide = 2.0 * wide - 1.0
    return wide.expand(-1, shape[1], -1, -1).contiguous() if len(shape) == 4 else wide.squeeze(1)


def _cells(images: Tensor) -> Tensor:
    """Which cells hold ink: [n, 64 + 16] of the two scales of `YoloLike`, zeros and ones."""
    coarse = nn.functional.avg_pool2d(images, 2)
    return (torch.cat([images.flatten(1), coarse.flatten(1)], 1) > INK).float()


def _pixels(images: Tensor) -> Tensor:
    """Which pixels are ink: [n, 1, 16, 16], zeros and ones."""
    wide = nn.functional.interpolate(images, (16, 16), mode="bilinear", align_corners=False)
    return (wide > INK).float()


def _scores(outputs: Tensor) -> Tensor:
    """Class scores [n, classes]: the mean over time where there is one ([n, classes, length])."""
    return outputs.mean(2) if outputs.dim() == 3 else outputs


def _maps(name: str, outputs: Tensor) -> Tensor:
    return outputs[:, :, 4] if name == "YoloLike" else outputs


def _is_map(name: str) -> bool:
    return name in ("UNet", "YoloLike")


def _targets(name: str, images: Tensor, labels: Tensor, classes: int) -> Tensor:
    if name == "YoloLike":
        return _cells(images)
    return _pixels(images) if name == "UNet" else labels % classes


def _inputs(name: str, images: Tensor, generator: torch.Generator) -> Tensor:
    x = stretch(images, SMALL[name].shape, SMALL[name].tokens)
    return x + 0.3 * torch.randn(x.shape, generator=generator) if name == "UNet" else x


def _train(name: str, model: nn.Module, x: Tensor, target: Tensor) -> None:
    steps = FEWER_STEPS if name == "MobileNetV2" else STEPS
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    for _ in range(steps):
        rows = torch.randperm(len(x))[:BATCH]
        y = model(x[rows])
        if _is_map(name):
            loss = nn.functional.binary_cross_entropy(_maps(name, y), target[rows])
        else:
            loss = nn.functional.cross_entropy(_scores(y), target[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def study(name: str) -> Study:
    """The network of that name, trained; the same on a machine in every run."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    digits, model = data.load(), SMALL[name].build()
    generator = torch.Generator().manual_seed(1)
    train = _inputs(name, digits.train_images, generator)
    tests = _inputs(name, digits.test_images, generator)[:TESTS]
    classes = model.eval()(train[:1]).shape[1]
    _train(
        name,
        model.train(),
        train,
        _targets(name, digits.train_images, digits.train_labels, classes),
    )
    target = _targets(name, digits.test_images, digits.test_labels, classes)[:TESTS]

    def task(exact: Outputs, integers: Outputs) -> str:
        if _is_map(name):
            hard = [_maps(name, y[0]) > 0.5 for y in (exact, integers)]
            right = [float((h == (target > 0.5)).double().mean()) for h in hard]
            same, what = float((hard[0] == hard[1]).double().mean()), "pixels or cells"
        else:
            named = [_scores(y[0]).argmax(1) for y in (exact, integers)]
            right = [float((n == target).double().mean()) for n in named]
            same, what = float((named[0] == named[1]).double().mean()), f"digits mod {classes}"
        what = "digits" if classes >= 10 and not _is_map(name) else what
        return f"{right[0]:.1%} and {right[1]:.1%} of {what} right, {same:.1%} alike"

    calibration = list(train[:CALIBRATION].split(1))
    return Study(
        f"`{name}`", model.eval(), calibration, list(tests.split(1)), task, histogram=False
    )
