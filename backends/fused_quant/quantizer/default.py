# SPDX-License-Identifier: BSD-3-Clause
"""The backend's own quantization, for every operator that the registry can quantize.

int8 activations per tensor, symmetric int8 weights per channel.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torchao.quantization.pt2e import (
    FakeQuantize,
    FusedMovingAvgObsFakeQuantize,
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
)
from torchao.quantization.pt2e.quantizer.quantizer import QuantizationSpec
from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

from fused_quant.ops import registry
from fused_quant.ops.common import CODE_BOUNDS
from fused_quant.ops.spec import OpSpec, Sharing
from fused_quant.quantizer.core_aten import get_core_aten_quantizers
from fused_quant.quantizer.four_bits import four_bits
from fused_quant.quantizer.observers import RoomyMinMaxObserver
from fused_quant.quantizer.op_quantizer import OpQuantizer
from fused_quant.quantizer.quantizer import FusedQuantQuantizer

_EPS = 2.0**-24  # smallest scale an observer may give: far below any trained tensor's

# Made once, so that the specs of two calls are equal and torchao lets equal specs share observers.
_CALIBRATED = HistogramObserver.with_args(eps=_EPS)
_CALIBRATED_WIDE = RoomyMinMaxObserver.with_args(eps=_EPS)
_WEIGHT = MinMaxObserver.with_args(eps=_EPS)
_WEIGHTS = PerChannelMinMaxObserver.with_args(eps=_EPS)
_TRAINED = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver, eps=_EPS)
_TRAINED_WEIGHT = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, eps=_EPS)
_TRAINED_WEIGHTS = FakeQuantize.with_args(observer=MovingAveragePerChannelMinMaxObserver, eps=_EPS)


def _activations(dtype: torch.dtype, qat: bool) -> QuantizationSpec:
    if dtype not in (torch.int8, torch.int16):
        raise ValueError(f"activation_dtype: got {dtype}, supported: torch.int8, torch.int16")
    wide = dtype == torch.int16
    low, high = CODE_BOUNDS[dtype]
    return QuantizationSpec(
        dtype=dtype,
        quant_min=low,
        quant_max=high,
        qscheme=torch.per_tensor_symmetric if wide else torch.per_tensor_affine,
        observer_or_fake_quant_ctr=_TRAINED if qat else _CALIBRATED_WIDE if wide else _CALIBRATED,
    )


def default_config(
    per_channel: bool = True,
    qat: bool = False,
    activation_dtype: torch.dtype = torch.int8,
    weight_bits: int = 8,
    group_size: int | None = None,
) -> QuantizationConfig:
    """int8 activations per tensor, symmetric int8 weights per output channel, or per tensor.

    Activations: [-128, 127], affine, histogram calibration. Weights: [-127, 127], min/max. The bias
    stays float here and is quantized to int32 when the operator is fused. qat: fake quantization
    that follows a moving average of minimum and maximum, for `prepare_qat_pt2e`. activation_dtype:
    torch.int8, or torch.int16 for [-32768, 32767], symmetric (zero point 0), min/max calibration
    with room for values twice as large.
    weight_bits: 4 gives linear, conv1d and conv2d weights in [-8, 7], every other operator what 8
    gives. group_size: with 4 bits, one scale for so many input channels of an output channel, where
    it divides them into two or more groups.
    """
    if weight_bits not in (4, 8):
        raise ValueError(f"weight_bits: got {weight_bits}, supported: 4, 8")
    if group_size is not None and (weight_bits != 4 or group_size < 1):
        got = f"{group_size} with weight_bits={weight_bits}"
        raise ValueError(f"group_size: got {got}, supported: >= 1 with weight_bits=4")
    if group_size is not None and qat:
        raise ValueError("group_size: got qat=True, supported: calibration")
    activations = _activations(activation_dtype, qat)
    one_scale, many_scales = (_TRAINED_WEIGHT, _TRAINED_WEIGHTS) if qat else (_WEIGHT, _WEIGHTS)
    weights = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-127,
        quant_max=127,
        qscheme=torch.per_channel_symmetric if per_channel else torch.per_tensor_symmetric,
        ch_axis=0 if per_channel else None,
        observer_or_fake_quant_ctr=many_scales if per_channel else one_scale,
    )
    weight = weights if weight_bits == 8 else four_bits(weights, group_size)
    return QuantizationConfig(activations, activations, weight, None, qat)


def _of_spec(
    spec: OpSpec, known: set[Any], config: QuantizationConfig, every_operator: bool
) -> list[OpQuantizer]:
    """One quantizer for each of the spec's spellings that is not among `known`."""
    annotation = spec.annotation
    assert annotation is not None
    return [
        OpQuantizer(
            target,
            config,
            annotation.activations,
            annotation.weights,
            ("bias",) if annotation.weights else (),
            node_filter=annotation.condition,
            shares_input=annotation.sharing is Sharing.INPUT,
            fixed_output=annotation.fixed_output,
            moves_data=spec.moves_data,
            starts=every_operator,
            reads_codes=spec.reads_codes,
        )
        for target in annotation.targets
        if target not in known
    ]


def _config_of(
    spec: OpSpec, weighted: QuantizationConfig, unweighted: QuantizationConfig
) -> QuantizationConfig:
    assert spec.annotation is not None
    return weighted if spec.annotation.per_channel else unweighted


def _core(
    weighted: QuantizationConfig, unweighted: QuantizationConfig, annotated: list[OpSpec]
) -> list[OpQuantizer]:
    """The quantizers every backend shares, for the spellings and ranges the registry knows."""
    fixed = {
        target: spec.annotation.fixed_output
        for spec in annotated
        if spec.annotation is not None
        for target in spec.annotation.targets
    }
    return [
        dataclasses.replace(
            quantizer,
            targets=tuple(target for target in quantizer.targets if target in fixed),
            fixed_output=fixed[quantizer.op],
        )
        for quantizer in get_core_aten_quantizers(unweighted, weighted)
        if quantizer.op in fixed
    ]


def default_quantizer(
    config: QuantizationConfig | None = None, *, every_operator: bool = False
) -> FusedQuantQuantizer:
    """The quantizer to use when nothing else is wanted; `config` replaces `default_config()`.

    For every operator of the registry that says how it is quantized, but for functions of unbounded
    slope (exp, log, reciprocal, ...): eight bits lose much of them. `every_operator` takes these
    too, and operators that only move elements of a float input. Grouped transposed convolutions
    and tables of embeddings have weights of one scale unless `config` is given.
    """
    registry.load()
    weighted = default_config() if config is None else config
    unweighted = default_config(per_channel=False) if config is None else config
    annotated = [
        spec
        for spec in registry.specs()
        if spec.annotation is not None and (spec.annotation.unasked or every_operator)
    ]
    core = _core(weighted, unweighted, annotated)
    known = {target for quantizer in core for target in (quantizer.op, *quantizer.targets)}
    own = [
        quantizer
        for spec in annotated
        for quantizer in _of_spec(
            spec, known, _config_of(spec, weighted, unweighted), every_operator
        )
    ]
    return FusedQuantQuantizer([*core, *own])
