# SPDX-License-Identifier: BSD-3-Clause
"""Network definitions beyond MLPerf Tiny's, with random weights: graphs to quantize and lower."""

from examples.zoo.audio import GruSpotter, LstmSpotter, TemporalConvNet, Wav2LetterLike
from examples.zoo.mobilenet import EfficientNetLike, MobileNetV2, MobileNetV3Small
from examples.zoo.transformer import BertLike, Encoder, TinyViT
from examples.zoo.vision import ResNet18, UNet, YoloLike

__all__ = [
    "BertLike",
    "EfficientNetLike",
    "Encoder",
    "GruSpotter",
    "LstmSpotter",
    "MobileNetV2",
    "MobileNetV3Small",
    "ResNet18",
    "TemporalConvNet",
    "TinyViT",
    "UNet",
    "Wav2LetterLike",
    "YoloLike",
]
