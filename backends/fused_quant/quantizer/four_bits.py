# SPDX-License-Identifier: BSD-3-Clause
"""Weights of 4 bits, with a scale per output channel or per group of input channels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node
from torchao.quantization.granularity import PerBlock
from torchao.quantization.pt2e import MappingType
from torchao.quantization.pt2e._affine_quantization import AffineQuantizedMinMaxObserver
from torchao.quantization.pt2e.quantizer.quantizer import QuantizationSpec

from fused_quant import graph
from fused_quant.ops.narrow import HIGH, LOW

_EPS = 2.0**-24  # as in default.py
_aten = torch.ops.aten
_TARGETS = (
    _aten.linear.default,
    _aten.conv1d.default,
    _aten.conv1d.padding,
    _aten.conv2d.default,
    _aten.conv2d.padding,
    _aten.convolution.default,
)


def _weight_shape(node: Node) -> tuple[int, ...] | None:
    """The shape of a weight that can be packed; None for other operators."""
    if graph.op_of(node) not in _TARGETS:
        return None
    bound = graph.bind(node)
    shape = graph.shape_of(bound["weight"])
    return None if bound.get("transposed", False) or len(shape) > 4 else shape


def _in_groups(spec: QuantizationSpec, shape: tuple[int, ...], size: int) -> QuantizationSpec:
    """The spec of symmetric codes with a scale for each `size` input channels of an output channel.

    The scale is the smallest that clips nothing at either end of [-8, 7].
    """
    observer: Any = AffineQuantizedMinMaxObserver.with_args(
        mapping_type=MappingType.SYMMETRIC_NO_CLIPPING_ERR,
        target_dtype=torch.int8,
        granularity=PerBlock((1, size, *shape[2:])),
        eps=_EPS,
        scale_dtype=torch.float32,
        zero_point_dtype=torch.int64,
    )
    return dataclasses.replace(
        spec, qscheme=None, ch_axis=None, observer_or_fake_quant_ctr=observer
    )


def four_bits(
    plain: QuantizationSpec, group_size: int | None
) -> Callable[[Node], QuantizationSpec]:
    """The spec of a node's weight: `plain` in [-8, 7], or in groups, where it can be packed.

    Groups take as many input channels each, and all taps of a kernel. A weight whose input channels
    they do not divide into two or more has the scales of `plain`; so has a weight of an operator
    that has no packed one, which also keeps the range of `plain`.
    """
    narrow = dataclasses.replace(plain, quant_min=LOW, quant_max=HIGH)

    def weight(node: Node) -> QuantizationSpec:
        shape = _weight_shape(node)
        if shape is None:
            return plain
        if group_size is None or shape[1] % group_size or shape[1] == group_size:
            return narrow
        return _in_groups(narrow, shape, group_size)

    return weight
