# SPDX-License-Identifier: BSD-3-Clause
"""MobileNetV2 and a small MobileNetV3: depthwise convolutions, squeeze-excite, hardswish."""

from __future__ import annotations

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


class SqueezeExcite(nn.Module):
    """Scales channels by gate(expand(activation(reduce(mean over the image))))."""

    def __init__(self, channels: int, reduced: int, activation: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, reduced, 1), nn.Conv2d(reduced, channels, 1)
        self.activation, self.gate = activation, gate

    def forward(self, x: Tensor) -> Tensor:
        """[N, channels, H, W] to the same."""
        scale = nn.functional.adaptive_avg_pool2d(x, 1)
        scale = self.gate(self.expand(self.activation(self.reduce(scale))))
        return x * scale


_V3_STAGES = (
    # kernel, hidden, channels, squeeze-excite, hardswish, stride
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 288, 96, True, True, 2),
)


class _V3Block(nn.Module):
    """Expansion, depthwise, squeeze-excite, projection, and the input where it fits."""

    def __init__(
        self,
        inputs: int,
        kernel: int,
        hidden: int,
        outputs: int,
        excite: bool,
        swish: bool,
        stride: int,
    ) -> None:
        super().__init__()

        def activation() -> nn.Module:
            return nn.Hardswish() if swish else nn.ReLU()

        layers: list[nn.Module] = []
        if hidden != inputs:
            layers += [*_conv_bn(inputs, hidden, 1, 1, 1), activation()]
        layers += [*_conv_bn(hidden, hidden, kernel, stride, hidden), activation()]
        if excite:
            reduced = max(8, hidden // 32 * 8)
            layers.append(SqueezeExcite(hidden, reduced, nn.ReLU(), nn.Hardsigmoid()))
        layers += _conv_bn(hidden, outputs, 1, 1, 1)
        self.layers = nn.Sequential(*layers)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] to [N, outputs, H / stride, W / stride]."""
        y: Tensor = self.layers(x)
        return x + y if self.is_residual else y


class MobileNetV3Small(nn.Module):
    """The stages of MobileNetV3-small, without its last repetitions: [N, 3, H, W] to logits."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = [*_conv_bn(3, 16, 3, 2, 1), nn.Hardswish()]
        channels = 16
        for kernel, hidden, outputs, excite, swish, stride in _V3_STAGES:
            layers.append(_V3Block(channels, kernel, hidden, outputs, excite, swish, stride))
            channels = outputs
        layers += [*_conv_bn(channels, 288, 1, 1, 1), nn.Hardswish()]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(288, 256), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(256, classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Images to logits."""
        y = nn.functional.adaptive_avg_pool2d(self.features(x), 1)
        logits: Tensor = self.classifier(y.flatten(1))
        return logits


class EfficientNetLike(nn.Module):
    """Inverted residuals with squeeze-excite and SiLU everywhere: [N, 3, H, W] to logits."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_conv_bn(3, 16, 3, 2, 1), nn.SiLU())
        self.blocks = nn.ModuleList(
            nn.Sequential(
                *_conv_bn(inputs, 4 * inputs, 1, 1, 1),
                nn.SiLU(),
                *_conv_bn(4 * inputs, 4 * inputs, kernel, stride, 4 * inputs),
                nn.SiLU(),
                SqueezeExcite(4 * inputs, max(4, inputs // 4), nn.SiLU(), nn.Sigmoid()),
                *_conv_bn(4 * inputs, outputs, 1, 1, 1),
            )
            for inputs, outputs, kernel, stride in ((16, 24, 3, 2), (24, 24, 3, 1), (24, 40, 5, 2))
        )
        self.head = nn.Sequential(*_conv_bn(40, 128, 1, 1, 1), nn.SiLU())
        self.classifier = nn.Linear(128, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Images to logits."""
        x = self.stem(x)
        for block in self.blocks:
            y = block(x)
            x = x + y if y.shape == x.shape else y
        logits: Tensor = self.classifier(self.head(x).mean((2, 3)))
        return logits
