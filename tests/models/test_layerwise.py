# SPDX-License-Identifier: BSD-3-Clause
"""The layer-wise comparison notices layers that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn import functional

from tests.models import layerwise

if TYPE_CHECKING:
    from tests.models.conftest import Lowered


def _without_padding_value(t: layerwise.Tensors, a: layerwise.Attributes) -> torch.Tensor:
    """A convolution whose padded taps contribute the input's zero code instead of 0."""
    x, weight = t["inp"], t["weight"]
    assert x is not None
    assert weight is not None
    top, left = a["padding"]
    padded = functional.pad(x, [left, left, top, top], value=float(x.max()))
    return functional.conv2d(padded, weight, t["bias"], a["stride"], 0, a["dilation"], a["groups"])


def _without_bias(t: layerwise.Tensors, a: layerwise.Attributes) -> torch.Tensor:
    x, weight = t["inp"], t["weight"]
    assert x is not None
    assert weight is not None
    return functional.linear(x, weight)


def _ignoring_other(t: layerwise.Tensors, a: layerwise.Attributes) -> torch.Tensor:
    x = t["inp"]
    assert x is not None
    return x


@pytest.mark.parametrize(
    ("operator", "wrong"),
    [("conv2d", _without_padding_value), ("linear", _without_bias), ("add", _ignoring_other)],
)
@pytest.mark.parametrize("lowered", ["digits"], indirect=True)
def test_a_wrong_layer_is_seen(
    lowered: Lowered,
    operator: str,
    wrong: Callable[[layerwise.Tensors, layerwise.Attributes], torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a wrong float side, the layers of that operator disagree, and only they."""
    monkeypatch.setitem(layerwise.FLOAT, operator, wrong)
    layers = layerwise.compare(lowered.fused, lowered.inputs[:4])
    bad = {x.operator for x in layers if x.within_one < 0.99}
    assert bad == {operator}
