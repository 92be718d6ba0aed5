# SPDX-License-Identifier: BSD-3-Clause
"""Quantization-aware training of the digits model: accuracy, fusing, one delegate call."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torchao.quantization.pt2e import allow_exported_model_train_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e

import fused_quant
from examples.digits import data
from examples.digits.train import accuracy, train
from fused_quant.quantizer import default_config
from tests.e2e import routes
from tests.frontend.graphs import targets

torch.set_num_threads(1)

_BATCH = 50  # divides the test set, so that one static program serves training and testing
_STEPS = 40
_LEARNING_RATE = 1e-3


@functools.cache
def _trained() -> tuple[nn.Module, data.Digits]:
    """Three epochs: good, with room above."""
    digits = data.load()
    return train(digits, epochs=3, progress=False), digits


def _example() -> tuple[Tensor]:
    return (_trained()[1].train_images[:_BATCH],)


def _after_training() -> GraphModule:
    """Calibrated, not trained further."""
    model, digits = _trained()
    quantizer = fused_quant.default_quantizer()
    prepared = prepare_pt2e(torch.export.export(model.eval(), _example()).module(), quantizer)
    for images in torch.split(digits.train_images[: 6 * _BATCH], _BATCH):
        prepared(images)
    return quantizer.fuse(convert_pt2e(prepared))


def _in_training() -> GraphModule:
    """A few steps with fake quantization, from the same weights."""
    model, digits = _trained()
    torch.manual_seed(0)
    quantizer = fused_quant.default_quantizer(default_config(qat=True))
    exported = torch.export.export(copy.deepcopy(model).train(), _example())
    prepared = prepare_qat_pt2e(exported.module(), quantizer)
    allow_exported_model_train_eval(prepared)
    prepared.train()
    optimizer = torch.optim.Adam(prepared.parameters(), lr=_LEARNING_RATE)
    for _ in range(_STEPS):
        index = torch.randint(len(digits.train_labels), (_BATCH,))
        loss = nn.functional.cross_entropy(
            prepared(digits.train_images[index]), digits.train_labels[index]
        )
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        optimizer.step()
    prepared.eval()
    return quantizer.fuse(convert_pt2e(prepared))


def _accuracy(gm: GraphModule) -> float:
    digits = _trained()[1]
    scores = torch.cat([gm(images) for images in torch.split(digits.test_images, _BATCH)])
    return accuracy(scores, digits.test_labels)


def test_training_with_fake_quantization_keeps_the_accuracy_and_lowers_to_one_call() -> None:
    calibrated, trained = _after_training(), _in_training()
    assert _accuracy(trained) >= _accuracy(calibrated) > 0.9
    names = targets(trained)
    # Batch normalization is folded into all of them, also where the padding is the word "same".
    assert names.count("fused_quant.conv2d.default") == 4
    assert not [name for name in names if name.startswith("aten") and "flatten" not in name]
    edge = routes.lowered(trained, _example(), routes.TRANSFORM)
    assert routes.is_one_delegate_call(edge)
    routes.assert_same_bits(routes.run(edge, _example()), routes.eager(trained, _example()))


# Convolution or linear layer, batch normalization, activation; the shape of the input.
_NORMALIZED: dict[str, tuple[list[nn.Module], tuple[int, ...]]] = {
    "conv1d": ([nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6), nn.ReLU()], (2, 4, 9)),
    "conv2d": ([nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU()], (2, 4, 5, 5)),
    "conv3d": ([nn.Conv3d(2, 6, 2), nn.BatchNorm3d(6), nn.ReLU()], (2, 2, 4, 4, 4)),
    "linear": ([nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU6()], (5, 4)),
    "transposed 1d": ([nn.ConvTranspose1d(4, 6, 3, stride=2), nn.BatchNorm1d(6)], (2, 4, 5)),
    "transposed 2d": ([nn.ConvTranspose2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU()], (2, 4, 5, 5)),
    "transposed alone": ([nn.ConvTranspose2d(4, 6, 3, output_padding=1, stride=2)], (2, 4, 5, 5)),
}


_FOLDED_BY_US = ("conv3d", "linear")


@pytest.mark.parametrize("name", _NORMALIZED)
def test_per_channel_training_of_every_weighted_layer_lowers_to_one_call(name: str) -> None:
    """Weights of transposed convolutions on axis 1; normalizations with negative factors and 0."""
    layers, shape = _NORMALIZED[name]
    torch.manual_seed(0)
    model, example = nn.Sequential(*copy.deepcopy(layers)).train(), (torch.randn(shape),)
    for module in model:
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            with torch.no_grad():
                least = 0.0 if name in _FOLDED_BY_US else 0.1  # torchao divides by it
                module.weight.copy_(torch.tensor([1.5, -0.7, least, 1.0, -2.0, 0.3]))
    quantizer = fused_quant.default_quantizer(default_config(qat=True))
    prepared = prepare_qat_pt2e(torch.export.export(model, example).module(), quantizer)
    allow_exported_model_train_eval(prepared)
    optimizer = torch.optim.SGD(prepared.parameters(), lr=1e-3)
    for _ in range(5):
        optimizer.zero_grad()
        torch.autograd.backward(prepared(torch.randn(shape)).square().mean())
        optimizer.step()
    prepared.eval()
    converted = convert_pt2e(prepared)
    fused = quantizer.fuse(copy.deepcopy(converted))
    edge = routes.lowered(fused, example, routes.TRANSFORM)
    assert routes.is_one_delegate_call(edge), routes.operators(edge)
    got = routes.eager(fused, example)
    routes.assert_same_bits(routes.run(edge, example), got)
    expected = routes.eager(converted, example)
    routes.assert_within_codes(got, expected, routes.result_scales(converted))
