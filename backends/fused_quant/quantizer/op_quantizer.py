# SPDX-License-Identifier: BSD-3-Clause
"""Quantizers of one ATen operator, composed by `FusedQuantQuantizer`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node
from torchao.quantization.pt2e.quantizer.quantizer import (
    FixedQParamsQuantizationSpec,
    QuantizationSpec,
    QuantizationSpecBase,
    SharedQuantizationSpec,
)
from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

from fused_quant import graph
from fused_quant.ops import activation
from fused_quant.ops.masking import is_mask_taken_in, masked
from fused_quant.ops.padding import is_taken_in
from fused_quant.ops.spec import FixedOutput
from fused_quant.passes.normalize_edges import value_of
from fused_quant.qparams import BYTE_OFFSET
from fused_quant.quantizer.annotations import (
    claim,
    claim_float,
    fused_name,
    is_annotated,
    is_owned,
    output_spec,
    short_name,
)

NodeFilter = Callable[[Node], bool]
_BYTES = {torch.int8: 0, torch.uint8: BYTE_OFFSET}  # dtype -> its codes less those of int8


def arg1_is_scalar(node: Node) -> bool:
    """Node filter: the second argument is a Python number."""
    return len(node.args) > 1 and isinstance(node.args[1], (int, float))


def arg1_is_tensor(node: Node) -> bool:
    """Node filter: the second argument is a tensor."""
    return len(node.args) > 1 and isinstance(node.args[1], Node)


def _anything(node: Node) -> bool:
    return True


@dataclasses.dataclass(frozen=True)
class OpQuantizer:
    """Annotates one ATen operator; `FusedQuantQuantizer.fuse` folds what it annotated.

    op: the operator it stands for. targets: every spelling matched (in-place, training IR); `op`
    itself is always one. config: a `QuantizationConfig`, or any object with its fields; a field may
    be a function of the node that returns a spec. Nothing is changed in it but the axis of
    per-channel weights of a transposed convolution. activations, weights, others: names of ATen
    arguments, tensors or lists of tensors; those in `others` stay in float unless config.bias says
    otherwise. node_filter: further condition. shares_input: the output has the first activation's
    parameters. moves_data: with it, the operator is only annotated behind a quantized producer,
    unless `starts` is set. reads_codes: only the input is quantized, the result holds no codes.
    fuses_activation: a clamping activation behind the operator is quantized together with it.
    fixed_output: 8-bit parameters of an output whose range is known whatever the data; int16 codes
    have the scale 2^-15.
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
    fixed_output: FixedOutput | None = None
    moves_data: bool = False
    starts: bool = False
    reads_codes: bool = False

    @property
    def name(self) -> str:
        """The operator's name, the `quantization_tag` where no fused operator is defined."""
        return short_name(self.op)

    def matches(self, node: Node) -> bool:
        """True if this quantizer is for the node."""
        op = graph.op_of(node)
        if op is None or (op != self.op and op not in self.targets):
            return False
        return self.node_filter is None or self.node_filter(node)

    def annotate(self, node: Node, admits: NodeFilter = _anything) -> None:
        """Claim a matching node, and the neighbours fused with it if `admits` is true of them.

        Leaves the node alone when an operand is not a float tensor (or is float64), when nobody
        reads the result, or when a sharing annotation would have nothing to share.
        """
        bound = graph.bind(node)
        activations, weights, others = (
            _tensors(bound, names) for names in (self.activations, self.weights, self.others)
        )
        observed = (*activations, *weights)
        if self.reads_codes:
            if observed and all(map(_is_observable, observed)):
                spec = _resolved(self.config.input_activation, node)
                claim(node, self.name, dict.fromkeys(observed, spec), None)
            return
        values = _values_of(node) if self.moves_data else _one(value_of(node))
        if not observed or not values or not all(map(_is_observable, (*observed, *values))):
            return
        if any(value is not node and is_annotated(value) for value in values):
            return
        tag = fused_name(node, self.name)
        if self.shares_input:
            self._annotate_sharing(node, values, activations[0], tag)
            return
        (value,) = values
        inputs: dict[Node, QuantizationSpecBase | None] = {}
        spec = _resolved(self.config.input_activation, node)
        for source in activations:
            taken_in = _taken_in(source)
            if taken_in is not None and admits(source):
                # Quantized in front of what the fused operator takes in: two observers around it
                # would give two grids, and minus infinity is on none.
                claim(source, tag, {taken_in: _fixed_grid(taken_in) or spec}, None)
            else:
                inputs[source] = _fixed_grid(source) or spec
        inputs.update(dict.fromkeys(weights, _weight_spec(self.config, node)))
        if self.config.bias is not None:
            inputs.update(dict.fromkeys(others, _resolved(self.config.bias, node)))
        chain = self._chain(node, value, admits)
        for member in chain:
            output = self._output_spec(node) if member is chain[-1] else None
            claim(member, tag, inputs if member is node else {}, output)

    def _chain(self, node: Node, value: Node, admits: NodeFilter) -> list[Node]:
        """The node and what is quantized together with it; the last one gives the result."""
        chain = [node] if value is node else [node, value]
        norm = _own_batch_norm(value) if self.weights else None
        if norm is not None:
            chain.append(norm)
        follower = _fusable_activation(chain[-1]) if self.fuses_activation else None
        if follower is not None and admits(follower):
            chain.append(follower)
        return chain

    def _output_spec(self, node: Node) -> QuantizationSpecBase | None:
        spec = _resolved(self.config.output_activation, node)
        fixed = self.fixed_output
        if fixed is None or not isinstance(spec, QuantizationSpec):
            return spec
        if spec.dtype == torch.int16:
            return FixedQParamsQuantizationSpec(
                spec.dtype, 2.0**-15, 0, -32768, 32767, torch.per_tensor_symmetric
            )
        if spec.dtype not in _BYTES:
            return spec
        offset = _BYTES[spec.dtype]
        return FixedQParamsQuantizationSpec(
            spec.dtype,
            fixed.scale,
            fixed.zero_point + offset,
            fixed.quant_min + offset,
            fixed.quant_max + offset,
            torch.per_tensor_affine,
        )

    def _annotate_sharing(self, node: Node, values: list[Node], source: Node, tag: str) -> None:
        """The output shares the parameters of the edge into the node, which is in front of it."""
        spec = output_spec(source)
        if spec is None and (self.starts or not self.moves_data):
            spec = _resolved(self.config.input_activation, node)
        if spec is None:
            return
        shared = SharedQuantizationSpec((source, node))
        claim(node, tag, {source: spec}, shared if values == [node] else None)
        for value in values:
            if value is not node:
                claim(value, tag, {}, shared)


def _one(value: Node | None) -> list[Node]:
    return [] if value is None else [value]


def _values_of(node: Node) -> list[Node]:
    """The nodes of a data movement's results: itself, or the pieces of a split."""
    if not isinstance(node.meta.get("val"), (list, tuple)):
        return [node]
    users = list(node.users)
    return users if all(graph.op_of(user) is graph.GETITEM for user in users) else []


def _is_observable(node: Node) -> bool:
    """True for a tensor of a float type that quantize takes: float64 is none."""
    return graph.is_float_tensor(node) and graph.val_of(node).dtype != torch.float64


def _tensors(bound: Mapping[str, Any], names: Iterable[str]) -> list[Node]:
    """The nodes among the named arguments, lists of tensors flattened."""
    found: list[Node] = []
    for name in names:
        value = bound.get(name)
        members = value if isinstance(value, (list, tuple)) else [value]
        found += [member for member in members if isinstance(member, Node)]
    return found


def _resolved(spec: Any, node: Node) -> QuantizationSpecBase | None:
    """A field of a config: a spec, or a function of the node that returns one."""
    if spec is None or isinstance(spec, QuantizationSpecBase) or not callable(spec):
        return spec
    return spec(node)


def _fixed_grid(source: Node) -> QuantizationSpecBase | None:
    """The grid of a producer whose output has fixed parameters: read as it is, not observed again.

    A second observer on the same values would choose a grid of its own, one requantize away.
    """
    spec = output_spec(source)
    return spec if isinstance(spec, FixedQParamsQuantizationSpec) and is_owned(source) else None


def _taken_in(node: Node) -> Node | None:
    """What is quantized instead of a zero padding or a masking that the only user takes in.

    None for a node of another kind, or one that somebody has claimed.
    """
    if is_annotated(node):
        return None
    if is_taken_in(node):
        return node.all_input_nodes[0]
    found = masked(node) if is_mask_taken_in(node) else None
    return None if found is None else found.scores


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
    spec = _resolved(config.weight, node)
    if isinstance(spec, QuantizationSpec) and spec.ch_axis is not None and _is_transposed(node):
        return _along_axis_1(spec)
    return spec


def _along_axis_1(spec: QuantizationSpec) -> QuantizationSpec:
    """The spec on axis 1. torchao hands the axis to observers of channels only, by their name.

    A fake quantization would keep its observer's axis, which is 0.
    """
    maker: Any = spec.observer_or_fake_quant_ctr
    arguments: dict[str, Any] = {}
    made = maker
    while hasattr(made, "p"):  # of with_args
        arguments = {**made.p.keywords, **arguments}
        made = made.p.func
    if "PerChannel" not in getattr(made, "__name__", "PerChannel"):
        maker = made.with_args(**arguments, ch_axis=1)
    return dataclasses.replace(spec, ch_axis=1, observer_or_fake_quant_ctr=maker)


@dataclasses.dataclass(frozen=True)
class NoopQuantizer:
    """Keeps operators in float: claims their nodes with an empty annotation."""

    targets: tuple[Any, ...]
    node_filter: NodeFilter | None = None

    def matches(self, node: Node) -> bool:
        """True if this quantizer is for the node."""
        return graph.op_of(node) in self.targets and (
            self.node_filter is None or self.node_filter(node)
        )

    def annotate(self, node: Node) -> None:
        """Claim the node without quantizing anything."""
        claim_float(node)


AnyOpQuantizer = OpQuantizer | NoopQuantizer
OpQuantizers = Sequence[AnyOpQuantizer]
