# SPDX-License-Identifier: BSD-3-Clause
"""uint8 codes as int8 codes: code and zero point both less by 128 name the same real number.

`rebase` rewrites a fused graph so that the delegate only computes on int8. Where uint8 codes come
from or go to something that is not part of it (a program input, an operator that stays outside), a
requantize of scale 1 changes the bytes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops import registry
from fused_quant.ops.requantize import REQUANTIZE
from fused_quant.ops.spec import Fusion
from fused_quant.passes.blocks import block_arguments, fusion_target
from fused_quant.qparams import BLOCK_FIELDS, BYTE_OFFSET, QParams, to_signed

_UNSIGNED = QParams.per_tensor(1.0, BYTE_OFFSET, torch.uint8, 0, 255)
_SIGNED = QParams.per_tensor(1.0, 0, torch.int8, -128, 127)

_LIST_FIELDS = ("scale", "zero_point", "quant_min", "quant_max")
_BOUNDARY_ARGUMENTS = ("input", "scale", "zero_point", "quant_min", "quant_max", "dtype")


def rebase(gm: GraphModule) -> None:
    """Rewrite a fused graph in place; its inputs and outputs keep their dtypes."""
    if any(_is_byte(node) for node in gm.graph.nodes):
        _Rebase(gm).run()
        gm.graph.eliminate_dead_code()
        gm.recompile()


def _is_byte(node: Node) -> bool:
    val = node.meta.get("val")
    first = val[0] if isinstance(val, (tuple, list)) and val else val
    return isinstance(first, torch.Tensor) and first.dtype == torch.uint8


class _Rebase:
    """One rewrite. `signed` holds nodes that gave uint8 codes and give int8 codes now."""

    def __init__(self, gm: GraphModule) -> None:
        self.gm = gm
        self.signed: set[Node] = set()
        self.converted: dict[tuple[Node, bool], Node] = {}

    def run(self) -> None:
        for node in list(self.gm.graph.nodes):
            spec = registry.spec_of(graph.op_of(node))
            if graph.op_of(node) is graph.GETITEM:
                self._getitem(node)
            elif spec is None:
                self._outsider(node)
            elif spec.fusion is not None:
                self._fused(node, spec.fusion)
            elif spec.moves_data:
                self._move(node)
            elif spec.reads_codes:
                self._read(node)
            else:
                self._boundary(node)

    def _was_byte(self, node: object) -> bool:
        return isinstance(node, Node) and (node in self.signed or _is_byte(node))

    def _getitem(self, node: Node) -> None:
        if node.args[0] in self.signed and node.args[1] == 0:
            graph.refresh_val(node)
            self.signed.add(node)

    def _outsider(self, node: Node) -> None:
        for source in node.all_input_nodes:
            if source in self.signed:
                node.replace_input_with(source, self._conversion(source, node, signed=False))

    def _move(self, node: Node) -> None:
        source = node.args[0]
        if isinstance(source, Node) and self._was_byte(source):
            node.update_arg(0, self._signed(source, node))
            graph.refresh_val(node)
            self.signed.add(node)

    def _read(self, node: Node) -> None:
        source = node.args[0]
        if isinstance(source, Node) and self._was_byte(source):
            node.update_arg(0, self._signed(source, node))

    def _boundary(self, node: Node) -> None:
        bound = graph.bind(node)
        if bound["dtype"] != torch.uint8:
            return
        if graph.op_of(node) == graph.DEQUANTIZE:
            bound["input"] = self._signed(bound["input"], node)
        else:
            self.signed.add(node)
        for field in ("zero_point", "quant_min", "quant_max"):
            bound[field] -= BYTE_OFFSET
        bound["dtype"] = torch.int8
        node.args = tuple(bound[field] for field in _BOUNDARY_ARGUMENTS)
        graph.refresh_val(node)

    def _fused(self, node: Node, fusion: Fusion) -> None:
        bound = graph.bind(node)
        if not self._has_constant_parameters(bound):
            self._outsider(node)
            return
        for operand in fusion.operands:
            if operand.many:
                self._rebase_list(node, operand.name, bound)
            elif self._was_byte(bound[operand.name]) and bound[f"{operand.name}_scale"] is not None:
                bound[operand.name] = self._signed(bound[operand.name], node)
                self._shift_block(node, operand.name, bound, bound[f"{operand.name}_dtype"])
        for name in (*(step.name for step in fusion.steps), "out"):
            if bound[f"{name}_scale"] is not None and bound[f"{name}_dtype"] == torch.uint8:
                self._shift_block(node, name, bound, torch.int8)
                if name == "out":
                    self.signed.add(node)
        node.args, node.kwargs = tuple(bound.values()), {}
        graph.refresh_val(node)

    def _has_constant_parameters(self, bound: dict[str, Any]) -> bool:
        """False for a node whose scales are computed: it stays outside, as it is."""
        fields = [v for n, v in bound.items() if n.endswith(("_scale", "_zero_point"))]
        members = [m for v in fields for m in (v if isinstance(v, (list, tuple)) else [v])]
        return all(m is None or graph.constant_of(self.gm, m) is not None for m in members)

    def _rebase_list(self, node: Node, name: str, bound: dict[str, Any]) -> None:
        members = list(bound[name])
        block = {field: list(bound[f"{name}_{field}"]) for field in _LIST_FIELDS}
        for i, source in enumerate(members):
            if not self._was_byte(source) or block["scale"][i] is None:
                continue
            members[i] = self._signed(source, node)
            one = {f"{name}_{field}": values[i] for field, values in block.items()}
            self._shift_block(node, name, one, bound[f"{name}_dtype"])
            for field in _LIST_FIELDS:
                block[field][i] = one[f"{name}_{field}"]
        bound[name] = members
        bound.update({f"{name}_{field}": values for field, values in block.items()})

    def _shift_block(
        self, node: Node, name: str, bound: dict[str, Any], dtype: torch.dtype
    ) -> None:
        block = {field: bound[f"{name}_{field}"] for field in _LIST_FIELDS}
        for field in ("scale", "zero_point"):
            block[field] = graph.constant_of(self.gm, block[field])
        params = QParams.from_block(**block, dtype=dtype, name=f"{node.name}.{name}")
        assert params is not None
        shifted = block_arguments(self.gm, node, params.shifted(-BYTE_OFFSET, dtype))
        bound.update({f"{name}_{f}": v for f, v in zip(BLOCK_FIELDS, shifted, strict=True)})

    def _signed(self, source: Node, user: Node) -> Node:
        if source in self.signed:
            return source
        value = graph.constant_of(self.gm, source)
        if value is None:
            return self._conversion(source, user, signed=True)
        constant = graph.add_constant(self.gm, user, to_signed(value), "fused_quant_codes")
        constant.meta[graph.ORIGIN] = graph.origins(source)
        return constant

    def _conversion(self, source: Node, user: Node, signed: bool) -> Node:
        key = (source, signed)
        if key not in self.converted:
            before, after = (_UNSIGNED, _SIGNED) if signed else (_SIGNED, _UNSIGNED)
            blocks = [
                *block_arguments(self.gm, user, _as_input(before)),
                *block_arguments(self.gm, user, after),
            ]
            target = fusion_target(REQUANTIZE)
            self.converted[key] = graph.call(self.gm, user, target, (source, *blocks), ())
        return self.converted[key]


def _as_input(params: QParams) -> QParams:
    return params.shifted(0, torch.float32)
