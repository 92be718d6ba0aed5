# SPDX-License-Identifier: BSD-3-Clause
"""Network definitions beyond MLPerf Tiny's, with random weights: graphs to quantize and lower."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_MOBILENET_STAGES = (
    # expansion, channels, blocks, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _conv_bn(inputs: int, outputs: int, kernel: int, stride: int, groups: int) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]


class _InvertedResidual(nn.Module):
    """Pointwise expansion, depthwise 3x3, pointwise projection, and the input where it fits."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers += [*_conv_bn(inputs, hidden, 1, 1, 1), nn.ReLU6()]
        layers += [*_conv_bn(hidden, hidden, 3, stride, hidden), nn.ReLU6()]
        layers += _conv_bn(hidden, outputs, 1, 1, 1)
        self.layers = nn.Sequential(*layers)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] to [N, outputs, H / stride, W / stride]."""
        y: Tensor = self.layers(x)
        return x + y if self.is_residual else y


class MobileNetV2(nn.Module):
    """MobileNetV2 of width 1.0: images [N, 3, H, W], logits [N, classes]."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [*_conv_bn(3, 32, 3, 2, 1), nn.ReLU6()]
        channels = 32
        for expansion, outputs, blocks, stride in _MOBILENET_STAGES:
            for block in range(blocks):
                step = stride if block == 0 else 1
                layers.append(_InvertedResidual(channels, outputs, step, expansion))
                channels = outputs
        layers += [*_conv_bn(channels, 1280, 1, 1, 1), nn.ReLU6()]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Images to logits."""
        y = nn.functional.adaptive_avg_pool2d(self.features(x), 1)
        logits: Tensor = self.classifier(y.flatten(1))
        return logits


class _EncoderLayer(nn.Module):
    """Self-attention and a GELU feed-forward part, each with residual and layer norm behind it."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def _split(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """[N, length, width] to the same."""
        query, key, value = (self._split(f(x)) for f in (self.query, self.key, self.value))
        scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5)
        mixed = (torch.softmax(scores, -1) @ value).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.out(mixed))
        y: Tensor = self.norm2(x + self.down(nn.functional.gelu(self.up(x))))
        return y


class Encoder(nn.Module):
    """A small transformer encoder: features [N, length, width], logits [N, classes]."""

    def __init__(
        self, width: int = 32, heads: int = 4, hidden: int = 64, layers: int = 2, classes: int = 5
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(_EncoderLayer(width, heads, hidden) for _ in range(layers)))
        self.classifier = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Features to logits."""
        logits: Tensor = self.classifier(self.layers(x).mean(1))
        return logits
