# SPDX-License-Identifier: BSD-3-Clause
"""Every network of the zoo, narrow, with small inputs: what the tests and the report lower."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

import fused_quant
from examples.zoo.audio import GruSpotter, LstmSpotter, TemporalConvNet, Wav2LetterLike
from examples.zoo.mobilenet import EfficientNetLike, MobileNetV2, MobileNetV3Small
from examples.zoo.transformer import BertLike, Encoder, TinyViT
from examples.zoo.vision import ResNet18, UNet, YoloLike
from fused_quant.quantizer import FusedQuantQuantizer, default_config


@dataclasses.dataclass(frozen=True)
class Small:
    """build: the network. shape: of its input, batch 1. tokens: the input is numbers below this."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    tokens: int | None = None

    def draw(self, generator: torch.Generator) -> Tensor:
        """One random input: standard normal, or token numbers."""
        if self.tokens is not None:
            return torch.randint(0, self.tokens, self.shape, generator=generator)
        return torch.randn(self.shape, generator=generator)


SMALL: dict[str, Small] = {
    "MobileNetV2": Small(lambda: MobileNetV2(classes=10), (1, 3, 32, 32)),
    "MobileNetV3Small": Small(MobileNetV3Small, (1, 3, 32, 32)),
    "ResNet18": Small(lambda: ResNet18(width=8), (1, 3, 32, 32)),
    "EfficientNetLike": Small(EfficientNetLike, (1, 3, 32, 32)),
    "UNet": Small(lambda: UNet(width=4), (1, 3, 16, 16)),
    "TemporalConvNet": Small(TemporalConvNet, (1, 8, 32)),
    "Wav2LetterLike": Small(lambda: Wav2LetterLike(width=12), (1, 13, 32)),
    "LstmSpotter": Small(LstmSpotter, (1, 6, 10)),
    "GruSpotter": Small(GruSpotter, (1, 6, 10)),
    "Encoder": Small(Encoder, (1, 8, 32)),
    "BertLike": Small(BertLike, (1, 16), tokens=100),
    "TinyViT": Small(TinyViT, (1, 3, 16, 16)),
    "YoloLike": Small(YoloLike, (1, 3, 16, 16)),
}


def make(name: str, count: int) -> tuple[nn.Module, list[Tensor]]:
    """A network of random weights in evaluation mode and `count` inputs, the same in every run.

    Batch norms hold the statistics of these inputs, as after training: without, the values of a
    deep network of random weights fade away from layer to layer.
    """
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model = SMALL[name].build().eval()
    inputs = [SMALL[name].draw(generator) for _ in range(count)]
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.train()
            module.momentum = None
    with torch.no_grad():
        model(torch.cat(inputs))
    return model.eval(), inputs


def _config(per_channel: bool) -> QuantizationConfig:
    config = default_config(per_channel)
    observer = MinMaxObserver.with_args(eps=2.0**-24)
    spec = dataclasses.replace(config.input_activation, observer_or_fake_quant_ctr=observer)
    return dataclasses.replace(config, input_activation=spec, output_activation=spec)


def quantizer() -> FusedQuantQuantizer:
    """The default quantizer with minimum and maximum observers: a histogram takes 0.3 s each."""
    quantizer = fused_quant.default_quantizer(_config(per_channel=True))
    return quantizer.set_operator_type(torch.ops.aten.embedding.default, _config(per_channel=False))
