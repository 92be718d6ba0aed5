# SPDX-License-Identifier: BSD-3-Clause
"""Networks over time: dilated convolutions, a wav2letter-like stack, recurrent spotters."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class _DilatedBlock(nn.Module):
    """Two causal dilated convolutions with a residual."""

    def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
        super().__init__()
        self.left = 2 * dilation
        self.first = nn.Conv1d(inputs, outputs, 3, dilation=dilation)
        self.second = nn.Conv1d(outputs, outputs, 3, dilation=dilation)
        self.shortcut = nn.Conv1d(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, L] to [N, outputs, L]."""
        y = torch.relu(self.first(nn.functional.pad(x, (self.left, 0))))
        y = torch.relu(self.second(nn.functional.pad(y, (self.left, 0))))
        return torch.relu(y + self.shortcut(x))


class TemporalConvNet(nn.Module):
    """A temporal convolutional network: features [N, 8, L] to logits [N, classes]."""

    def __init__(self, width: int = 16, classes: int = 5) -> None:
        super().__init__()
        channels = (8, width, width, width)
        self.blocks = nn.Sequential(
            *(_DilatedBlock(channels[i], channels[i + 1], 2**i) for i in range(3))
        )
        self.classifier = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Features to the logits of the last step."""
        logits: Tensor = self.classifier(self.blocks(x)[:, :, -1])
        return logits


class Wav2LetterLike(nn.Module):
    """A stack of long one-dimensional convolutions: features [N, 13, L] to log-probabilities."""

    def __init__(self, width: int = 24, letters: int = 29) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv1d(13, width, 11, 2, 5), nn.ReLU()]
        for _ in range(2):
            layers += [nn.Conv1d(width, width, 7, padding=3), nn.ReLU()]
        layers += [nn.Conv1d(width, 2 * width, 9, padding=4), nn.ReLU()]
        layers += [nn.Conv1d(2 * width, letters, 1)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Features to [N, letters, L / 2]."""
        return torch.log_softmax(self.layers(x), 1)


class LstmSpotter(nn.Module):
    """An LSTM over features [N, L, 10]; logits [N, classes] of its last state."""

    def __init__(self, hidden: int = 16, classes: int = 12) -> None:
        super().__init__()
        self.lstm = nn.LSTM(10, hidden, batch_first=True)
        self.classifier = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Features to logits."""
        states = self.lstm(x)[0]
        logits: Tensor = self.classifier(states[:, -1])
        return logits


class GruSpotter(nn.Module):
    """A GRU over features [N, L, 10]; logits [N, classes] of its last state."""

    def __init__(self, hidden: int = 16, classes: int = 12) -> None:
        super().__init__()
        self.gru = nn.GRU(10, hidden, batch_first=True)
        self.classifier = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Features to logits."""
        states = self.gru(x)[0]
        logits: Tensor = self.classifier(states[:, -1])
        return logits
