# SPDX-License-Identifier: BSD-3-Clause
"""`FusedQuantQuantizer`: a PT2E quantizer made of operator quantizers, that also fuses."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer import Quantizer

from fused_quant.fuse import fuse
from fused_quant.ops import registry
from fused_quant.quantizer.op_quantizer import OWNED, NoopQuantizer, OpQuantizers, is_annotated


class FusedQuantQuantizer(Quantizer):
    """Composes operator quantizers; the first that matches a node claims it.

    Nodes that any quantizer has annotated are skipped, and its own are marked, so it works in
    either order with other PT2E quantizers, alone or inside `ComposableQuantizer`.
    """

    def __init__(self, quantizers: OpQuantizers) -> None:
        super().__init__()
        self.quantizers = list(quantizers)

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotate every node that a quantizer of the list matches and nobody has claimed."""
        registry.load()
        for node in model.graph.nodes:
            if node.op != "call_function" or is_annotated(node):
                continue
            for quantizer in self.quantizers:
                if quantizer.matches(node):
                    quantizer.annotate(node)
                    break
        return model

    def validate(self, model: GraphModule) -> None:
        """Nothing to check: annotations are made from the caller's own configs."""

    def fuse(self, model: GraphModule) -> GraphModule:
        """Fold what this quantizer annotated into `fused_quant` operators; others' nodes stay."""
        return fuse(model, _is_owned)

    def preserved_ops(self) -> list[Any]:
        """Operators to keep out of decomposition so that the quantizers see them."""
        ops: dict[Any, None] = {}
        for quantizer in self.quantizers:
            if isinstance(quantizer, NoopQuantizer):
                ops.update(dict.fromkeys(quantizer.targets))
            else:
                ops.update(dict.fromkeys((quantizer.op, *quantizer.targets)))
        return list(ops)


def _is_owned(node: Node) -> bool:
    return bool(node.meta.get(OWNED, False))
