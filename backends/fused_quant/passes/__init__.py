# SPDX-License-Identifier: BSD-3-Clause
"""Graph rewrites, one per module.

The public ones are classes that take a GraphModule or an ExportedProgram (docs/passes.md); the
others are functions of a GraphModule and keep its meaning.
"""

from fused_quant.passes.absorb import QuantAbsorption
from fused_quant.passes.checks import AssertNoFusedQuantOps
from fused_quant.passes.decompose import DecomposeFusedQuant, decompose_unclaimed
from fused_quant.passes.fold_batch_norm import FoldBatchNorm
from fused_quant.passes.requantize import ReplaceDequantQuantWithRequantize

__all__ = [
    "AssertNoFusedQuantOps",
    "DecomposeFusedQuant",
    "FoldBatchNorm",
    "QuantAbsorption",
    "ReplaceDequantQuantWithRequantize",
    "decompose_unclaimed",
]
