# SPDX-License-Identifier: BSD-3-Clause
"""The backend's own quantization, for every operator that has a runtime kernel.

int8 activations per tensor, symmetric int8 weights per channel.
"""

from __future__ import annotations

import dataclasses

import torch
from torchao.quantization.pt2e import (
    HistogramObserver,
    PerChannelMinMaxObserver,
)
from torchao.quantization.pt2e.quantizer.quantizer import QuantizationSpec
from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

from fused_quant.ops import activation, registry
from fused_quant.ops.spec import Sharing
from fused_quant.quantizer.core_aten import get_core_aten_quantizers
from fused_quant.quantizer.op_quantizer import OpQuantizer
from fused_quant.quantizer.quantizer import FusedQuantQuantizer

_aten = torch.ops.aten
_EPS = 2.0**-24  # smallest scale an observer may give: far below any trained tensor's


def default_config() -> QuantizationConfig:
    """int8 activations per tensor, symmetric int8 weights per output channel.

    Activations: [-128, 127], affine, histogram calibration. Weights: [-127, 127], min/max. The bias
    stays float here and is quantized to int32 when the operator is fused.
    """
    activations = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-128,
        quant_max=127,
        qscheme=torch.per_tensor_affine,
        observer_or_fake_quant_ctr=HistogramObserver.with_args(eps=_EPS),
    )
    weights = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-127,
        quant_max=127,
        qscheme=torch.per_channel_symmetric,
        ch_axis=0,
        observer_or_fake_quant_ctr=PerChannelMinMaxObserver.with_args(eps=_EPS),
    )
    return QuantizationConfig(activations, activations, weights, None)


def _further_quantizers(config: QuantizationConfig) -> list[OpQuantizer]:
    """Operators that are not core ATen, and data movement, out of the registry."""
    quantizers = [
        OpQuantizer(
            _aten.linear.default, config, ("input",), weights=("weight",), others=("bias",)
        ),
        OpQuantizer(_aten.clamp.default, config, ("self",), targets=activation.CLAMP),
    ]
    known = {
        target for q in get_core_aten_quantizers(config, config) for target in (q.op, *q.targets)
    }
    known |= {_aten.linear.default, *activation.CLAMP}
    for spec in registry.specs():
        if spec.annotation is None or spec.runtime is None:
            continue
        targets = tuple(t for t in spec.annotation.targets if t not in known)
        if not targets:
            continue
        shares = spec.annotation.sharing is Sharing.INPUT
        quantizers.append(
            OpQuantizer(targets[0], config, ("self", "input"), targets=targets, shares_input=shares)
        )
        known.update(targets)
    return quantizers


def default_quantizer(config: QuantizationConfig | None = None) -> FusedQuantQuantizer:
    """The quantizer to use when nothing else is wanted; `config` replaces `default_config()`."""
    registry.load()
    chosen = default_config() if config is None else config
    supported = {
        target
        for spec in registry.specs()
        if spec.annotation is not None and spec.runtime is not None
        for target in spec.annotation.targets
    }
    core = [
        dataclasses.replace(q, targets=tuple(t for t in q.targets if t in supported))
        for q in get_core_aten_quantizers(chosen, chosen)
        if q.op in supported
    ]
    return FusedQuantQuantizer([*core, *_further_quantizers(chosen)])
