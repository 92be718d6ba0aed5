# SPDX-License-Identifier: BSD-3-Clause
"""ResNet-18, a U-Net with transposed convolutions and joins, a detection head."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class _BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] to [N, outputs, H / stride, W / stride]."""
        y: Tensor = torch.relu(self.layers(x) + self.shortcut(x))
        return y


class ResNet18(nn.Module):
    """ResNet-18, its channels times width / 64: images [N, 3, H, W] to logits."""

    def __init__(self, classes: int = 10, width: int = 64) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        ]
        channels = width
        for stage in range(4):
            outputs = width << stage
            for block in range(2):
                stride = 2 if stage > 0 and block == 0 else 1
                layers.append(_BasicBlock(channels, outputs, stride))
                channels = outputs
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Images to logits."""
        y = nn.functional.adaptive_avg_pool2d(self.features(x), 1)
        logits: Tensor = self.classifier(y.flatten(1))
        return logits


def _twice(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.ReLU(),
    )


class UNet(nn.Module):
    """Two levels down and up with transposed convolutions: images [N, 3, H, W] to a mask."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down1, self.down2 = _twice(3, width), _twice(width, 2 * width)
        self.bottom = _twice(2 * width, 4 * width)
        self.rise2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.rise1 = nn.ConvTranspose2d(2 * width, width, 3, 2, 1, output_padding=1)
        self.up2, self.up1 = _twice(4 * width, 2 * width), _twice(2 * width, width)
        self.mask = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Images to probabilities [N, 1, H, W]; H and W are multiples of 4."""
        first = self.down1(x)
        second = self.down2(nn.functional.max_pool2d(first, 2))
        y = self.bottom(nn.functional.max_pool2d(second, 2))
        y = self.up2(torch.cat([second, self.rise2(y)], 1))
        y = self.up1(torch.cat([first, self.rise1(y)], 1))
        return torch.sigmoid(self.mask(y))


class YoloLike(nn.Module):
    """Two scales joined by upsampling; boxes from sigmoid, slices and grid arithmetic."""

    def __init__(self, width: int = 8, classes: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.SiLU())
        self.deep = nn.Sequential(nn.Conv2d(width, 2 * width, 3, 2, 1), nn.SiLU())
        self.join = nn.Sequential(nn.Conv2d(3 * width, 2 * width, 1), nn.SiLU())
        self.heads = nn.ModuleList(nn.Conv2d(2 * width, 5 + classes, 1) for _ in range(2))

    @staticmethod
    def _boxes(y: Tensor) -> Tensor:
        """[N, 5 + classes, H, W] to [N, H * W, 5 + classes]: centres, sizes, scores."""
        y = torch.sigmoid(y)
        centres = y[:, 0:2] * 2.0 - 0.5
        sizes = (y[:, 2:4] * 2.0) ** 2
        return torch.cat([centres, sizes, y[:, 4:]], 1).flatten(2).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Images [N, 3, H, W] to boxes of both scales; H and W are multiples of 4."""
        fine = self.stem(x)
        coarse = self.deep(fine)
        up = nn.functional.interpolate(coarse, scale_factor=2.0, mode="nearest")
        joined = self.join(torch.cat([fine, up], 1))
        both = (self.heads[0](joined), self.heads[1](coarse))
        return torch.cat([self._boxes(y) for y in both], 1)
