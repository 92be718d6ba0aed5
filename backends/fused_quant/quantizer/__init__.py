# SPDX-License-Identifier: BSD-3-Clause
"""Quantizers: `FusedQuantQuantizer` and the operator quantizers it is made of."""

from fused_quant.quantizer.core_aten import get_core_aten_quantizers
from fused_quant.quantizer.default import default_config, default_quantizer
from fused_quant.quantizer.op_quantizer import NoopQuantizer, OpQuantizer
from fused_quant.quantizer.quantizer import FusedQuantQuantizer

__all__ = [
    "FusedQuantQuantizer",
    "NoopQuantizer",
    "OpQuantizer",
    "default_config",
    "default_quantizer",
    "get_core_aten_quantizers",
]
