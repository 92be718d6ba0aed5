# SPDX-License-Identifier: BSD-3-Clause
"""A CNN of about 6,000 parameters with most of the operators that the backend knows."""

from __future__ import annotations

import torch
from torch import nn


class DigitsNet(nn.Module):
    """8x8 grey images to ten class scores: float32 [n, 1, 8, 8] -> [n, 10].

    It has a stem, an inverted residual block (depthwise convolution with multiplier 2, projection,
    addition), a max pool, a regular convolution, an average pool, a spatial mean and a linear
    layer, with ReLU and ReLU6 between them.
    """

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU6()
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(16, 32, 3, padding="same", groups=16, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU6(),
        )
        self.project = nn.Sequential(nn.Conv2d(32, 16, 1, bias=False), nn.BatchNorm2d(16))
        self.relu = nn.ReLU()
        self.max_pool = nn.MaxPool2d(2)
        self.features = nn.Sequential(
            nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()
        )
        self.avg_pool = nn.AvgPool2d(2)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(32, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores (logits) of a batch of images."""
        x = self.stem(x)
        x = self.relu(x + self.project(self.depthwise(x)))
        x = self.max_pool(x)
        x = self.avg_pool(self.features(x))
        out: torch.Tensor = self.classifier(torch.flatten(self.mean(x), 1))
        return out
