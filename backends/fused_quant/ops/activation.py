# SPDX-License-Identifier: BSD-3-Clause
"""The clamping activations: their ATen spellings and the real range each one keeps."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from fused_quant import graph

_aten = torch.ops.aten

RELU = (_aten.relu.default, _aten.relu_.default)
RELU6 = (_aten.relu6.default, _aten.relu6_.default)
HARDTANH = (_aten.hardtanh.default, _aten.hardtanh_.default)
CLAMP = (_aten.clamp.default, _aten.clamp_.default)
ALL = RELU + RELU6 + HARDTANH + CLAMP

Range = tuple[float | None, float | None]


def real_range(node: Any) -> Range | None:
    """(min, max) in real values of a clamping activation, None = open; None for other nodes."""
    op = graph.op_of(node)
    if op in RELU:
        return (0.0, None)
    if op in RELU6:
        return (0.0, 6.0)
    if op in HARDTANH:
        bound = graph.bind(node)
        return (float(bound["min_val"]), float(bound["max_val"]))
    if op in CLAMP:
        bound = graph.bind(node)
        low, high = bound["min"], bound["max"]
        if any(isinstance(value, Node) for value in (low, high)):
            return None
        return (
            None if low is None else float(low),
            None if high is None else float(high),
        )
    return None
