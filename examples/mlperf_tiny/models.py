# SPDX-License-Identifier: BSD-3-Clause
"""The models of MLPerf Tiny in PyTorch.

ResNet-8 and DS-CNN have trained weights or seeded random ones, MobileNetV1 and the autoencoder
seeded random ones.

The trained modules are defined here, since their structure differs from the definitions in the
executorch wheel (`executorch.examples.models.mlperf_tiny`), which serve for the random ones:

* TensorFlow's SAME padding of a 3x3 convolution with stride 2 pads one row below and one column to
  the right, and nothing above or to the left; the wheel's ResNet-8 pads all four sides.
* The trained convolutions have a bias, and BatchNorm's epsilon is 1e-3.
* The trained DS-CNN reads 50x10 features, and pools over all 25x5; the wheel's reads 49x10.

Checked once by hand against the int8 .tflite files of the same package, run with ai-edge-litert
2.3.0 on 120 of `inputs.test_inputs` each (photographs; recorded words): the float modules and the
int8 files name the same class for 92.5 % (ResNet-8) and 99.2 % (DS-CNN) of all inputs, and for
98.8 % and 100 % of those where the float module gives its class more than 0.6; probabilities differ
by 0.013 and 0.003 on average. Of this package's fused int8 programs and the int8 files the same is
true for 90.8 % and 99.2 % of all, 98.7 % and 100 % of the confident ones.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from examples.mlperf_tiny.weights import Weights, WeightsUnavailableError, keras_weights

EPSILON = 1e-3
SEED = 0


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
    if norm is not None and isinstance(module.norm, nn.BatchNorm2d):
        name = _numbered("batch_normalization", norm)
        _copy(module.norm.weight, weights[f"{name}/gamma"])
        _copy(module.norm.bias, weights[f"{name}/beta"])
        for buffer, key in (("running_mean", "moving_mean"), ("running_var", "moving_variance")):
            _copy(module.norm.get_buffer(buffer), weights[f"{name}/{key}"])


def _load_head(head: nn.Linear, weights: Weights) -> None:
    _copy(head.weight, weights["dense/kernel"].T)
    _copy(head.bias, weights["dense/bias"])


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
    _load_head(model.head, weights)
    return model.eval()


def ds_cnn_from_keras(weights: Weights) -> DsCnn:
    """`DsCnn` with the arrays of `keyword_spotting.h5`."""
    model = DsCnn()
    _load_conv(model.entry, weights, "conv2d", 0)
    for i in range(4):
        depthwise, pointwise = model.depthwise[i], model.pointwise[i]
        assert isinstance(depthwise, ConvBn)
        assert isinstance(pointwise, ConvBn)
        _load_conv(depthwise, weights, _numbered("depthwise_conv2d", i), 2 * i + 1)
        _load_conv(pointwise, weights, _numbered("conv2d", i + 1), 2 * i + 2)
    _load_head(model.head, weights)
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


def load_mobilenet_v1(trained: bool = False) -> nn.Module:
    """MobileNetV1 (width 0.25, Visual Wake Words): the wheel's definition with seeded weights.

    Reads float32 [n, 3, 96, 96] in [-1, 1), gives logits [n, 2]. There are no trained weights.
    """
    if trained:
        raise WeightsUnavailableError("mobilenet_v1 has seeded weights only")
    from executorch.examples.models.mlperf_tiny.mobilenet_v1_025 import MobileNetV1025Model

    torch.manual_seed(SEED)
    return _settle(MobileNetV1025Model().get_eager_model(), (3, 96, 96))


def load_autoencoder(trained: bool = False) -> nn.Module:
    """The autoencoder of anomaly detection: the wheel's definition with seeded weights.

    Reads float32 [n, 640] in [-1, 1] and gives its reconstruction. There are no trained weights.
    """
    if trained:
        raise WeightsUnavailableError("autoencoder has seeded weights only")
    from executorch.examples.models.mlperf_tiny.deep_autoencoder import DeepAutoEncoderModel

    torch.manual_seed(SEED)
    return _settle(DeepAutoEncoderModel().get_eager_model(), (640,))


LOADERS: dict[str, Callable[[bool], nn.Module]] = {
    "resnet8": load_resnet8,
    "ds_cnn": load_ds_cnn,
    "mobilenet_v1": load_mobilenet_v1,
    "autoencoder": load_autoencoder,
}
