# SPDX-License-Identifier: BSD-3-Clause
"""Quantization-aware training of the digits model: accuracy, fusing, one delegate call."""

from __future__ import annotations

import copy
import functools

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
