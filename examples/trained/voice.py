# SPDX-License-Identifier: BSD-3-Clause
"""Silero VAD: is somebody speaking? Weights of the package `silero-vad` (MIT licence).

The convolutions are the network here: magnitudes of a short-time spectrum in, 128 features out.
The spectrum before them and the recurrent cell behind them, which keeps its state from one piece of
sound to the next, stay in float and are the same for both sides of the comparison.

The weights are those of the package's .safetensors. (Its .jit is of another training; with the
weights of that file, this structure gives that file's probabilities within 1e-6.)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from examples.mlperf_tiny import inputs as words
from examples.packages import Package
from examples.study import Outputs, Study
from examples.trained.safetensors import parse

PACKAGE = Package(
    "silero-vad",
    "6.2.3",
    "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
    megabytes=11,
)
PIECE, CONTEXT, MIRRORED = 512, 64, 64  # samples at 16 kHz


class Features(nn.Module):
    """Magnitudes [n, 129, 4] to features [n, 128]."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs, stride in ((129, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1)):
            layers += [nn.Conv1d(inputs, outputs, 3, stride, 1), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Four magnitude spectra to one vector."""
        y: Tensor = self.layers(x)
        return y.flatten(1)


class Spotter:
    """What stays in float: the spectrum before the features, the cell and the decision behind."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self._basis = weights["stft_conv.weight"]
        self._cell = nn.LSTMCell(128, 128)
        own = {k.partition(".")[2]: v for k, v in weights.items() if k.startswith("lstm_cell.")}
        self._cell.load_state_dict(own)
        self._weight, self._bias = weights["final_conv.weight"], weights["final_conv.bias"]

    def magnitudes(self, sound: Tensor) -> list[Tensor]:
        """Sound [samples] in [-1, 1], whole pieces, to inputs of `Features`."""
        before = nn.functional.pad(sound, (CONTEXT, 0))
        pieces = before.unfold(0, PIECE + CONTEXT, PIECE)[:, None]
        pieces = nn.functional.pad(pieces, (0, MIRRORED), "reflect")
        parts = nn.functional.conv1d(pieces, self._basis, stride=128)
        real, imaginary = parts.chunk(2, 1)
        return list((real.square() + imaginary.square()).sqrt().split(1))

    def probabilities(self, features: Tensor) -> Tensor:
        """Of speech, for each piece in the order of time."""
        state, found = None, []
        with torch.no_grad():
            for row in features.split(1):
                state = self._cell(row, state)
                hidden = torch.relu(state[0])[:, :, None]
                logit = nn.functional.conv1d(hidden, self._weight, self._bias)
                found.append(torch.sigmoid(logit).reshape(()))
        return torch.stack(found)


def _sound(names: tuple[str, ...]) -> Tensor:
    """The recordings one after the other, half a second of quiet noise between them."""
    generator = torch.Generator().manual_seed(5)
    parts = []
    for name in names:
        recording = torch.from_numpy(words.recording(name)).float() / 32768.0
        parts += [recording, torch.randn(8_000, generator=generator) * 1e-3]
    sound = torch.cat(parts)
    return sound[: len(sound) // PIECE * PIECE]


def study() -> Study:
    """Recordings of Debian's `alsa-utils`: five to calibrate, four others to test."""
    if words.sound_source() != "recorded":
        raise FileNotFoundError(f"{words.RECORDINGS} has no recordings: install alsa-utils")
    weights = parse(PACKAGE.read("silero_vad_16k.safetensors"))
    spotter, model = Spotter(weights), Features()
    names = list(model.state_dict())
    arrays = [weights[f"conv{i}.{end}"] for i in range(1, 5) for end in ("weight", "bias")]
    model.load_state_dict(dict(zip(names, arrays, strict=True)))

    def task(exact: Outputs, integers: Outputs) -> str:
        p, q = (spotter.probabilities(y[0]) for y in (exact, integers))
        shares = [f"{float((x > 0.5).double().mean()):.1%}" for x in (p, q)]
        same, far = ((p > 0.5) == (q > 0.5)).double().mean(), (p - q).abs().mean()
        return (
            f"speech in {shares[0]} and {shares[1]} of {len(p)} pieces of 32 ms, "
            f"{float(same):.1%} alike; probabilities differ by {float(far):.4f} on average"
        )

    with torch.no_grad():
        calibration = spotter.magnitudes(_sound(words.CALIBRATION_RECORDINGS))
        tests = spotter.magnitudes(_sound(words.TEST_RECORDINGS))
    model.eval()
    return Study("Silero VAD, convolutions", model, calibration, tests, task, histogram=False)
