# SPDX-License-Identifier: BSD-3-Clause
"""`FoldBatchNorm`: random layers keep their meaning, and what may not be folded stays."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import fused_quant
from fused_quant.passes import FoldBatchNorm
from tests.e2e import routes
from tests.frontend.graphs import exported, targets
from tests.support import random_quantized

torch.set_num_threads(1)

_CONVOLUTIONS: dict[str, tuple[type[nn.Module], type[nn.Module], int]] = {
    "conv1d": (nn.Conv1d, nn.BatchNorm1d, 1),
    "conv2d": (nn.Conv2d, nn.BatchNorm2d, 2),
    "conv3d": (nn.Conv3d, nn.BatchNorm3d, 3),
    "conv_transpose1d": (nn.ConvTranspose1d, nn.BatchNorm1d, 1),
    "conv_transpose2d": (nn.ConvTranspose2d, nn.BatchNorm2d, 2),
}
KINDS = (*_CONVOLUTIONS, "linear")


def _settled(norm: nn.Module) -> nn.Module:
    """Statistics and parameters far from 0 and 1."""
    for name, low, high in (
        ("running_mean", -1.0, 1.0),
        ("running_var", 0.2, 3.0),
        ("weight", -2.0, 2.0),
        ("bias", -1.0, 1.0),
    ):
        value = getattr(norm, name)
        if value is not None:
            value.data.uniform_(low, high)
    return norm


def _random(seed: int, always_affine: bool = False) -> tuple[nn.Module, Tensor]:
    """A layer with a normalization, between others, and an input."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    kind = KINDS[seed % len(KINDS)]
    bias, affine = rng.random() < 0.5, rng.random() < 0.7 or always_affine
    if kind == "linear":
        size = rng.randint(1, 6)
        norm = _settled(nn.BatchNorm1d(size, affine=affine))
        return nn.Sequential(nn.Linear(5, size, bias), norm, nn.ReLU()), torch.randn(3, 5)
    conv, norm_type, rank = _CONVOLUTIONS[kind]
    groups = rng.choice([1, 2]) if "transpose" not in kind else 1
    outputs = groups * rng.randint(1, 3)
    layer = conv(4, outputs, rng.randint(1, 3), rng.randint(1, 2), groups=groups, bias=bias)
    norm = _settled(norm_type(outputs, affine=affine, eps=rng.choice([1e-5, 1e-2])))
    return nn.Sequential(layer, norm, nn.ReLU()), torch.randn(2, 4, *[6] * rank)


def _norms(gm: GraphModule) -> list[str]:
    return [name for name in targets(gm) if "batch_norm" in name]


@pytest.mark.parametrize("seed", range(24))
def test_random_layers_keep_their_meaning(seed: int) -> None:
    module, x = _random(seed)
    gm = exported(module.eval(), x)
    expected = gm(x)
    assert len(_norms(gm)) == 1
    result = FoldBatchNorm()(gm)
    assert result.modified
    assert _norms(gm) == []
    assert torch.allclose(gm(x), expected, rtol=1e-4, atol=1e-5)
    assert not FoldBatchNorm()(gm).modified


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_random_layers_in_a_program(seed: int) -> None:
    module, x = _random(seed)
    program = torch.export.export(module.eval(), (x,))
    folded = FoldBatchNorm()(program).exported_program
    assert _norms(folded.module()) == []
    assert len(_norms(program.module())) == 1
    assert torch.allclose(folded.module()(x), module(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(2 * len(KINDS)))
def test_quantized_with_an_int32_bias(seed: int) -> None:
    """One fused operator, within two codes of the float module on average inputs."""
    # torchao folds it behind a linear layer itself, and only with weight and bias.
    module, x = _random(seed, always_affine=True)
    quantizer = fused_quant.default_quantizer(random_quantized.config())
    prepared = prepare_pt2e(exported(module.eval(), x), quantizer)
    prepared(x)
    raw = convert_pt2e(prepared)
    fused = quantizer.fuse(copy.deepcopy(raw))
    names = [name for name in targets(fused) if "fused_quant" in name]
    assert len(names) == 1
    assert torch.int32 in {value.dtype for value in fused.buffers()}
    scale = max(routes.result_scales(raw))
    assert float((fused(x) - module(x)).abs().mean()) <= 2 * scale + 1e-6


class _Shared(nn.Module):
    """The layer's result has another reader."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        result: Tensor = self.norm(y) + y
        return result


def _last_dimension() -> nn.Module:
    """The normalization's channels are not the layer's features."""
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(3))


def _no_layer() -> nn.Module:
    return nn.Sequential(nn.ReLU(), nn.BatchNorm1d(3))


def _grouped() -> nn.Module:
    return nn.Sequential(nn.ConvTranspose1d(4, 4, 3, groups=2), nn.BatchNorm1d(4))


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (_Shared, (2, 4)),
        (_last_dimension, (2, 3, 4)),
        (_no_layer, (2, 3, 4)),
        (_grouped, (2, 4, 6)),
    ],
)
def test_what_may_not_be_folded_stays(
    build: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    x = torch.randn(shape)
    gm = exported(build().eval(), x)
    expected = gm(x)
    assert not FoldBatchNorm()(gm).modified
    assert len(_norms(gm)) == 1
    assert torch.equal(gm(x), expected)


def test_a_normalization_in_training_stays() -> None:
    x = torch.randn(3, 4)
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).train()
    gm = torch.export.export(module, (x,)).module()
    assert not FoldBatchNorm()(gm).modified
