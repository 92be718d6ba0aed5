# SPDX-License-Identifier: BSD-3-Clause
"""Quantizers of one ATen operator, composed by `FusedQuantQuantizer`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node
from torchao.quantization.pt2e.quantizer.quantizer import (
    Q_ANNOTATION_KEY,
    QuantizationAnnotation,
    QuantizationSpec,
    QuantizationSpecBase,
    SharedQuantizationSpec,
)
from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

from fused_quant import graph
from fused_quant.ops import activation
from fused_quant.ops.padding import zero_padding

OWNED = "fused_quant_owned"
TAG = "quantization_tag"
NodeFilter = Callable[[Node], bool]


def is_annotated(node: Node) -> bool:
    """True if any PT2E quantizer has claimed the node."""
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    return annotation is not None and annotation._annotated


def arg1_is_scalar(node: Node) -> bool:
    """Node filter: the second argument is a Python number."""
    return len(node.args) > 1 and isinstance(node.args[1], (int, float))


def arg1_is_tensor(node: Node) -> bool:
    """Node filter: the second argument is a tensor."""
    return len(node.args) > 1 and isinstance(node.args[1], Node)


def _claim(
    node: Node,
    tag: str,
    inputs: dict[Node, QuantizationSpecBase | None],
    output: QuantizationSpecBase | None,
) -> None:
    node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(
        input_qspec_map=inputs, output_qspec=output, _annotated=True
    )
    node.meta[OWNED] = True
    node.meta[TAG] = tag


@dataclasses.dataclass(frozen=True)
class OpQuantizer:
    """Annotates one ATen operator.

    op: the operator it stands for. targets: every spelling matched (in-place, training IR); `op`
    itself is always one. config: the caller's parameters; nothing is changed in it but the axis of
    per-channel weights of a transposed convolution. activations, weights, others: names of ATen
    arguments; those in `others` stay in float unless config.bias says otherwise.
    node_filter: further condition. shares_input: the output has the first activation's parameters,
    and the operator is only annotated behind a quantized producer. fuses_activation: a clamping
    activation behind the operator is quantized together with it.
    """

    op: Any
    config: QuantizationConfig
    activations: tuple[str, ...] = ("input",)
    weights: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    targets: tuple[Any, ...] = ()
    node_filter: NodeFilter | None = None
    shares_input: bool = False
    fuses_activation: bool = True

    @property
    def name(self) -> str:
        """The operator's name, used as `quantization_tag`."""
        return str(self.op._schema.name).split("::")[-1]

    def matches(self, node: Node) -> bool:
        """True if this quantizer is for the node."""
        op = graph.op_of(node)
        if op is None or (op != self.op and op not in self.targets):
            return False
        return self.node_filter is None or self.node_filter(node)

    def annotate(self, node: Node) -> None:
        """Claim a matching node, and the activation fused with it.

        Leaves the node alone when an operand is not a float tensor or a sharing annotation would
        have nothing to share.
        """
        bound = graph.bind(node)
        sources = [bound.get(name) for name in self.activations]
        tensors = [source for source in sources if isinstance(source, Node)]
        if not tensors or not all(graph.is_float_tensor(n) for n in (*tensors, node.args[0])):  # type: ignore[arg-type]
            return
        if self.shares_input:
            self._annotate_sharing(node, tensors[0])
            return
        inputs: dict[Node, QuantizationSpecBase | None] = {}
        for source in tensors:
            if self.weights and _is_own_padding(source):
                # Quantized in front of the padding, which the fused operator takes in: two
                # observers around it would give two grids.
                _claim(
                    source,
                    self.name,
                    {source.all_input_nodes[0]: self.config.input_activation},
                    None,
                )
            else:
                inputs[source] = self.config.input_activation
        for name in self.weights:
            if isinstance(bound.get(name), Node):
                inputs[bound[name]] = _weight_spec(self.config, node)
        for name in self.others:
            if isinstance(bound.get(name), Node) and self.config.bias is not None:
                inputs[bound[name]] = self.config.bias
        chain = [node]
        norm = _own_batch_norm(node) if self.weights else None
        if norm is not None:
            chain.append(norm)
        follower = _fusable_activation(chain[-1]) if self.fuses_activation else None
        if follower is not None:
            chain.append(follower)
        for member in chain:
            output = self.config.output_activation if member is chain[-1] else None
            _claim(member, self.name, inputs if member is node else {}, output)

    def _annotate_sharing(self, node: Node, source: Node) -> None:
        produced = source.meta.get(Q_ANNOTATION_KEY)
        if produced is None or produced.output_qspec is None:
            return
        shared = SharedQuantizationSpec((source, node))
        _claim(node, self.name, {source: produced.output_qspec}, shared)


def _is_own_padding(node: Node) -> bool:
    """A zero padding with one user that nobody has claimed."""
    return zero_padding(node) is not None and len(node.users) == 1 and not is_annotated(node)


def _own_batch_norm(node: Node) -> Node | None:
    """The batch normalization that is the only user of a node.

    Only a graph to be trained has one; conversion folds it into the weighted operator.
    """
    users = list(node.users)
    if len(users) != 1 or graph.op_of(users[0]) != torch.ops.aten.batch_norm.default:
        return None
    return None if is_annotated(users[0]) or users[0].args[0] is not node else users[0]


def _fusable_activation(node: Node) -> Node | None:
    """The clamping activation that is the only user of a node and not claimed yet."""
    users = list(node.users)
    if len(users) != 1 or activation.real_range(users[0]) is None or is_annotated(users[0]):
        return None
    return users[0]


def _is_transposed(node: Node) -> bool:
    op = graph.op_of(node)
    if op == torch.ops.aten.convolution.default:
        return bool(graph.bind(node)["transposed"])
    return "conv_transpose" in str(op)


def _weight_spec(config: QuantizationConfig, node: Node) -> QuantizationSpecBase | None:
    """The weight's spec; per-channel weights of a transposed convolution have axis 1."""
    spec = config.weight
    if isinstance(spec, QuantizationSpec) and spec.ch_axis is not None and _is_transposed(node):
        return dataclasses.replace(spec, ch_axis=1)
    return spec


@dataclasses.dataclass(frozen=True)
class NoopQuantizer:
    """Keeps an operator in float: claims its nodes with an empty annotation."""

    targets: tuple[Any, ...]
    node_filter: NodeFilter | None = None

    def matches(self, node: Node) -> bool:
        """True if this quantizer is for the node."""
        return graph.op_of(node) in self.targets and (
            self.node_filter is None or self.node_filter(node)
        )

    def annotate(self, node: Node) -> None:
        """Claim the node without quantizing anything."""
        node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(_annotated=True)


AnyOpQuantizer = OpQuantizer | NoopQuantizer
OpQuantizers = Sequence[AnyOpQuantizer]
