# SPDX-License-Identifier: BSD-3-Clause
"""Fused quantized operators for ExecuTorch: quantize, fuse, lower and run with one arithmetic."""

from fused_quant.explain import Explanation, explain
from fused_quant.fuse import fuse
from fused_quant.integer_io import integer_io
from fused_quant.lower import lower
from fused_quant.ops.registry import load as _load_operators
from fused_quant.partitioner import FusedQuantPartitioner
from fused_quant.preprocess import FusedQuantBackend
from fused_quant.quantizer import (
    FusedQuantQuantizer,
    NoopQuantizer,
    OpQuantizer,
    default_quantizer,
    get_core_aten_quantizers,
)
from fused_quant.runtime import load_runtime
from fused_quant.target import Target

__version__ = "0.1.0"
__all__ = [
    "Explanation",
    "FusedQuantBackend",
    "FusedQuantPartitioner",
    "FusedQuantQuantizer",
    "NoopQuantizer",
    "OpQuantizer",
    "Target",
    "default_quantizer",
    "explain",
    "fuse",
    "get_core_aten_quantizers",
    "integer_io",
    "load_runtime",
    "lower",
]

_load_operators()
