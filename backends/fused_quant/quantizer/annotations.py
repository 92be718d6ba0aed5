# SPDX-License-Identifier: BSD-3-Clause
"""How a node is claimed: its annotation, its owner and its tag."""

from __future__ import annotations

from typing import Any

from torch.fx import Node
from torchao.quantization.pt2e.quantizer.quantizer import (
    Q_ANNOTATION_KEY,
    QuantizationAnnotation,
    QuantizationSpecBase,
)

from fused_quant import graph
from fused_quant.ops import registry
from fused_quant.ops.spec import Call

OWNED = "fused_quant_owned"
TAG = "quantization_tag"
# How Arm's and Cortex-M's quantizers tell claimed nodes: they do not look at annotations.
_ARM_CLAIMED = "quantizer_matched"


def is_annotated(node: Node) -> bool:
    """True if any PT2E quantizer has claimed the node."""
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    return annotation is not None and annotation._annotated


def is_owned(node: Node) -> bool:
    """True if one of our quantizers has claimed the node, to be fused."""
    return bool(node.meta.get(OWNED, False))


def output_spec(node: Node) -> QuantizationSpecBase | None:
    """How the result of a node is quantized, if anyone has said so."""
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    return None if annotation is None else annotation.output_qspec


def claim(
    node: Node,
    tag: str,
    inputs: dict[Node, QuantizationSpecBase | None],
    output: QuantizationSpecBase | None,
) -> None:
    """Claim a node for fusing; torchao copies the tag to the quantize and dequantize around it."""
    _annotate(node, QuantizationAnnotation(inputs, output, _annotated=True))
    node.meta[OWNED] = True
    node.meta[TAG] = tag


def claim_float(node: Node) -> None:
    """Claim a node so that nobody quantizes it."""
    _annotate(node, QuantizationAnnotation(_annotated=True))


def _annotate(node: Node, annotation: QuantizationAnnotation) -> None:
    # The x86 inductor quantizer reads this field of every annotated pool, whoever annotated it.
    annotation._is_output_of_quantized_pattern = False
    node.meta[Q_ANNOTATION_KEY] = annotation
    node.meta[_ARM_CLAIMED] = True


def fused_name(node: Node, otherwise: str) -> str:
    """The fused operator that the node becomes; `otherwise` where none is defined."""
    for spec, parse in registry.anchors_of(graph.op_of(node)):
        if spec.fusion is not None and spec.fusion.steps:
            continue  # whether the node begins a chain shows after conversion
        try:
            if isinstance(parse(node), Call):
                return spec.name
        except ValueError:
            continue
    return otherwise


def short_name(op: Any) -> str:
    """`conv2d` of `aten.conv2d.default`."""
    return str(op._schema.name).split("::")[-1]
