# SPDX-License-Identifier: BSD-3-Clause
"""`FusedQuantQuantizer`: a PT2E quantizer made of operator quantizers, that also fuses."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer import Quantizer
from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

from fused_quant.fuse import fuse
from fused_quant.ops import registry
from fused_quant.passes.fold_batch_norm import FoldBatchNorm
from fused_quant.quantizer import settings
from fused_quant.quantizer.annotations import claim_float, is_annotated, is_owned
from fused_quant.quantizer.constants import cut_parameters, keep_made_tensors
from fused_quant.quantizer.op_quantizer import (
    AnyOpQuantizer,
    NodeFilter,
    NoopQuantizer,
    OpQuantizer,
    OpQuantizers,
)
from fused_quant.quantizer.paddings import number_paddings
from fused_quant.quantizer.settings import Applied, Choice, Settings
from fused_quant.quantizer.taking_apart import take_apart


class FusedQuantQuantizer(Quantizer):
    """Composes operator quantizers; the first that matches a node claims it.

    Nodes that any quantizer has annotated are skipped, and its own are marked, so it works in
    either order with other PT2E quantizers, alone or inside `ComposableQuantizer`.

    Every operator quantizer brings its configuration. `set_module_name`, `set_module_type`,
    `set_operator_type` and `set_global` replace it for the nodes they name, in this order of
    precedence, and can be chained. None as a configuration keeps the nodes in float; for
    `set_global` it leaves all other nodes to other quantizers.

    node_filter: only nodes it is true of are looked at.
    """

    def __init__(self, quantizers: OpQuantizers, node_filter: NodeFilter | None = None) -> None:
        super().__init__()
        self.quantizers = list(quantizers)
        self.node_filter = node_filter
        self._settings = Settings()

    def set_global(self, config: QuantizationConfig | None) -> FusedQuantQuantizer:
        """Use `config` wherever nothing more specific is set. ValueError if it is no config."""
        settings.check_config("set_global", config)
        self._settings.everywhere = Choice.LEFT if config is None else config
        return self

    def set_module_name(self, name: str, config: QuantizationConfig | None) -> FusedQuantQuantizer:
        """Use `config` in the submodule `name` ("blocks.0") and everything below it.

        Of nested names the innermost counts. `annotate` raises ValueError for a name that no
        operator of the graph comes from.
        """
        settings.check_module_name(name)
        settings.check_config("set_module_name", config)
        self._settings.names[name] = config
        return self

    def set_module_type(self, kind: type, config: QuantizationConfig | None) -> FusedQuantQuantizer:
        """Use `config` in submodules of exactly the class `kind` and everything below them."""
        settings.check_module_type(kind)
        settings.check_config("set_module_type", config)
        self._settings.types[settings.qualified_type(kind)] = config
        return self

    def set_operator_type(
        self, operator: Any, config: QuantizationConfig | None
    ) -> FusedQuantQuantizer:
        """Use `config` for an ATen operator: one overload, or a packet for all of its overloads.

        The operator an `OpQuantizer` stands for means all of that quantizer's spellings.
        ValueError if no quantizer is for the operator.
        """
        settings.check_operator(operator, self.preserved_ops)
        settings.check_config("set_operator_type", config)
        self._settings.operators[operator] = config
        return self

    def set_filter_function(self, node_filter: NodeFilter | None) -> FusedQuantQuantizer:
        """Look only at nodes that `node_filter` is true of; None looks at all of them."""
        self.node_filter = node_filter
        return self

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Number paddings, fold batch normalization, take attention, LSTM and GRU apart.

        torchao folds batch normalization into convolutions of up to two dimensions with padding in
        numbers. Tensors filled with a number become constants, as do pieces of parameters.
        """
        number_paddings(model)
        FoldBatchNorm()(model)
        take_apart(model)
        keep_made_tensors(model)
        cut_parameters(model)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotate every node that a quantizer of the list matches and nobody has claimed."""
        registry.load()
        self._settings.check_names(model)
        for node in model.graph.nodes:
            if not self._is_open(node):
                continue
            quantizer, applied = self._rule(node)
            if quantizer is None or applied is Choice.LEFT:
                continue
            if applied is Choice.FLOAT:
                claim_float(node)
            elif isinstance(quantizer, NoopQuantizer):
                quantizer.annotate(node)
            else:
                self._annotate(node, _configured(quantizer, applied))
        return model

    def _is_open(self, node: Node) -> bool:
        if node.op != "call_function" or is_annotated(node):
            return False
        return self.node_filter is None or self.node_filter(node)

    def _rule(self, node: Node) -> tuple[AnyOpQuantizer | None, Applied]:
        """The first quantizer that matches a node, and what applies to it."""
        quantizer = next((q for q in self.quantizers if q.matches(node)), None)
        if isinstance(quantizer, NoopQuantizer):
            return quantizer, Choice.OWN
        op = None if quantizer is None else quantizer.op
        return quantizer, self._settings.of(node, op)

    def _annotate(self, node: Node, quantizer: OpQuantizer) -> None:
        def admits(neighbour: Node) -> bool:
            """Fused with the node only if the user wants the same result of it on its own."""
            if not self._is_open(neighbour):
                return False
            its_own, applied = self._rule(neighbour)
            if applied in (Choice.LEFT, Choice.FLOAT) or isinstance(its_own, NoopQuantizer):
                return False
            configured = quantizer if its_own is None else its_own
            return _same_output(_configured(configured, applied), quantizer)

        quantizer.annotate(node, admits)

    def validate(self, model: GraphModule) -> None:
        """Nothing to check: annotations are made from the caller's own configs."""

    def fuse(self, model: GraphModule) -> GraphModule:
        """Fold what this quantizer annotated into `fused_quant` operators; others' nodes stay."""
        return fuse(model, is_owned)

    def preserved_ops(self) -> list[Any]:
        """Operators to keep out of decomposition so that the quantizers see them."""
        ops: dict[Any, None] = {}
        for quantizer in self.quantizers:
            if isinstance(quantizer, NoopQuantizer):
                ops.update(dict.fromkeys(quantizer.targets))
            else:
                ops.update(dict.fromkeys((quantizer.op, *quantizer.targets)))
        return list(ops)


def _configured(quantizer: OpQuantizer, applied: Applied) -> OpQuantizer:
    if isinstance(applied, Choice):
        return quantizer
    return dataclasses.replace(quantizer, config=applied)


def _same_output(one: OpQuantizer, other: OpQuantizer) -> bool:
    """True for equal output specs; observer constructors are compared by what they say they are."""
    specs = (one.config.output_activation, other.config.output_activation)
    return specs[0] == specs[1] or repr(specs[0]) == repr(specs[1])
