# SPDX-License-Identifier: BSD-3-Clause
"""Operator quantizers that every backend can share: core ATen operators, the caller's configs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node
from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

from fused_quant import graph
from fused_quant.ops import activation
from fused_quant.quantizer.op_quantizer import OpQuantizer, arg1_is_scalar, arg1_is_tensor

_aten = torch.ops.aten
_CONVOLUTIONS = (
    _aten.conv1d.default,
    _aten.conv1d.padding,
    _aten.conv2d.default,
    _aten.conv2d.padding,
    _aten.conv3d.default,
    _aten.conv3d.padding,
)
_TRANSPOSED = (
    _aten.conv_transpose1d.default,
    _aten.conv_transpose2d.input,
    _aten.conv_transpose3d.input,
)


def _is_grouped_transposed(node: Node) -> bool:
    bound = graph.bind(node)
    transposed = bound.get("transposed", graph.op_of(node) in _TRANSPOSED)
    return bool(transposed) and bound["groups"] > 1


def _is_other_convolution(node: Node) -> bool:
    return not _is_grouped_transposed(node)


def _is_functional_max_pool(node: Node) -> bool:
    """Nobody reads the indices."""
    if graph.op_of(node) == _aten.max_pool2d.default:
        return True
    return all(user.args[1] == 0 for user in node.users if graph.op_of(user) is graph.GETITEM)


def _arithmetic(config: QuantizationConfig) -> Iterable[OpQuantizer]:
    for name in ("add", "sub", "mul"):
        tensor = getattr(_aten, name).Tensor
        spellings = (tensor, getattr(_aten, f"{name}_").Tensor)
        scalars = (getattr(_aten, name).Scalar, getattr(_aten, f"{name}_").Scalar)
        yield OpQuantizer(
            tensor, config, ("self", "other"), targets=spellings, node_filter=arg1_is_tensor
        )
        yield OpQuantizer(
            getattr(_aten, name).Scalar,
            config,
            ("self",),
            targets=(*spellings, *scalars),
            node_filter=arg1_is_scalar,
        )


def _convolutions(
    config: QuantizationConfig, weighted_config: QuantizationConfig
) -> Iterable[OpQuantizer]:
    spellings = (*_CONVOLUTIONS, *_TRANSPOSED)
    for chosen, node_filter in (
        (config, _is_grouped_transposed),
        (weighted_config, _is_other_convolution),
    ):
        yield OpQuantizer(
            _aten.convolution.default,
            chosen,
            ("input",),
            ("weight",),
            ("bias",),
            targets=spellings,
            node_filter=node_filter,
        )


def get_core_aten_quantizers(
    config: QuantizationConfig, weighted_config: QuantizationConfig
) -> list[OpQuantizer]:
    """Quantizers of the core ATen operators.

    They are add, sub, mul (each also with a scalar), bmm, relu, max_pool2d_with_indices,
    avg_pool2d, convolution, sigmoid, tanh, hardtanh, gelu and native_layer_norm.

    `weighted_config` applies to convolution, `config` to everything else; *grouped* transposed
    convolution uses `config`.
    """

    def unary(op: Any, *targets: Any, name: str = "self") -> OpQuantizer:
        return OpQuantizer(op, config, (name,), targets=targets)

    return [
        *_arithmetic(config),
        OpQuantizer(_aten.bmm.default, config, ("self", "mat2")),
        unary(_aten.relu.default, *activation.RELU),
        OpQuantizer(
            _aten.max_pool2d_with_indices.default,
            config,
            ("self",),
            targets=(_aten.max_pool2d.default,),
            node_filter=_is_functional_max_pool,
            shares_input=True,
        ),
        unary(_aten.avg_pool2d.default),
        *_convolutions(config, weighted_config),
        unary(_aten.sigmoid.default, _aten.sigmoid_.default),
        unary(_aten.tanh.default, _aten.tanh_.default),
        unary(_aten.hardtanh.default, *activation.HARDTANH, *activation.RELU6),
        unary(_aten.gelu.default, _aten.gelu_.default),
        OpQuantizer(
            _aten.native_layer_norm.default,
            config,
            ("input",),
            targets=(_aten.layer_norm.default,),
        ),
    ]
