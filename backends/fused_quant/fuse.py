# SPDX-License-Identifier: BSD-3-Clause
"""Fold dequantize -> operator -> quantize into one `fused_quant` operator.

The same function serves a user's converted module (`fuse`) and the graphs that the partitioner and
the delegate look at (`fuse_graph`), so what one accepts the other makes. A node is folded only if
every argument of it is understood; otherwise it stays as it is, with a recorded reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fused_quant import graph, numerics
from fused_quant.bias import quantize_bias
from fused_quant.chains import follow
from fused_quant.ops import activation, registry
from fused_quant.ops.boundary import params_of
from fused_quant.ops.spec import Call, OpSpec, Parser, Role
from fused_quant.passes.affine import block_params, is_affine
from fused_quant.passes.blocks import block_arguments, fusion_target, input_params
from fused_quant.passes.float_sums import close_float_sums
from fused_quant.passes.normalize_edges import normalize_edges, value_of
from fused_quant.passes.repair import repair
from fused_quant.passes.requantize import requantize_pairs
from fused_quant.passes.restore import restore
from fused_quant.passes.restore_linear import restore_linear
from fused_quant.passes.shield import shielded
from fused_quant.qparams import QParams
from fused_quant.reasons import Reason

Owned = Callable[[Node], bool]


@dataclasses.dataclass(frozen=True)
class _Match:
    """What one fused operator takes the place of."""

    spec: OpSpec
    call: Call
    blocks: dict[str, QParams | None]
    codes: dict[str, Node | None]
    out: QParams | None
    replaced: tuple[Node, ...]
    results: tuple[Node, ...]  # the quantizes behind it; the value itself if it stays in float


def fuse(gm: GraphModule, owned: Owned | None = None) -> GraphModule:
    """Fold every `dequantize -> op -> quantize` of a converted module; idempotent.

    gm: the result of convert_pt2e, changed in place and returned. owned: a filter on ATen nodes;
    nodes it refuses stay float, and those of them that a quantizer has annotated are left alone
    together with the quantize and dequantize around them.
    """
    fuse_graph(gm, owned)
    for node in gm.graph.nodes:
        node.meta.pop(graph.ORIGIN, None)
    graph.drop_unread_constants(gm)
    return gm


def fuse_graph(gm: GraphModule, owned: Owned | None = None) -> dict[str, Reason]:
    """Fold in place, keeping origins; returns the reason for each candidate that was not folded."""
    registry.load()
    reasons: dict[str, Reason] = {}
    with shielded(gm, owned):
        repair(gm)
        _fold_outside(gm, owned)
        restore_linear(gm)
        restore(gm, owned)
        normalize_edges(gm)
        for node in graph.calls(gm):
            if owned is not None and not owned(node):
                continue
            found = _match(gm, node)
            if isinstance(found, _Match):
                _fold(gm, node, found)
            elif found is not None:
                reasons[node.name] = found
        for node in close_float_sums(gm, owned):
            found = _match(gm, node)
            if isinstance(found, _Match):
                _fold(gm, node, found)
        requantize_pairs(gm)
    gm.graph.eliminate_dead_code()
    gm.graph.lint()
    gm.recompile()
    return reasons


def _fold_outside(gm: GraphModule, owned: Owned | None) -> None:
    """Fold patterns from outside of the package whose operators the rewrites would rename."""
    for node in graph.calls(gm):
        candidates = registry.anchors_of(graph.op_of(node))
        outside = [(spec, parse) for spec, parse in candidates if not spec.is_own]
        if outside and not node._erased and (owned is None or owned(node)):
            found = _match(gm, node, outside)
            if isinstance(found, _Match):
                _fold(gm, node, found)


def _match(
    gm: GraphModule, node: Node, candidates: Sequence[tuple[OpSpec, Parser]] | None = None
) -> _Match | Reason | None:
    """The fused operator a node becomes; None if the node is no candidate at all."""
    last: Reason | None = None
    for spec, parse in candidates or registry.anchors_of(graph.op_of(node)):
        try:
            call = parse(node)
            if isinstance(call, Reason):
                last = call if last is None or last.code == "overload" else last
                continue
            found = _match_edges(gm, node, spec, call)
        except ValueError as error:
            return Reason("shape", str(error))
        if isinstance(found, _Match) or spec.is_own:
            return found
        last = found
    return last


def _match_edges(gm: GraphModule, node: Node, spec: OpSpec, call: Call) -> _Match | Reason:
    fusion = spec.fusion
    assert fusion is not None
    value = value_of(node)
    if value is None:
        return Reason("indices", "a result other than the values is used", "", "values only")
    tail = [node] if value is node else [node, value]
    chain = follow(fusion.steps, value)
    if isinstance(chain, Reason):
        return chain
    value, tail = chain.value, [*tail, *chain.nodes]
    call = dataclasses.replace(call, attributes={**call.attributes, **chain.attributes})
    clamp: activation.Range | None = None
    users = list(value.users)
    if fusion.clamps and len(users) == 1:
        clamp = activation.real_range(users[0])
        if clamp is not None:
            tail.append(users[0])
            users = list(users[0].users)
    if not users or any(graph.op_of(user) != graph.QUANTIZE for user in users):
        if fusion.real_result and value.users:
            edges = _edges(gm, spec, call)
            if isinstance(edges, Reason):
                return edges
            return _Match(spec, call, edges[1], edges[0], None, (*call.absorbed, node), (node,))
        return Reason("float_output", "the result is used in float", "", "quantize only")
    params = [params_of(user) for user in users]
    if not all(map(params[0].equals, params)):
        return Reason("outputs", "differently quantized results", "", "one quantization")
    if clamp is not None and not numerics.is_float32_scale(params[0].scale_value):
        got = repr(params[0].scale_value)
        return Reason("scale", "scale of the output", got, "representable in float32")
    out = _clamped(params[0], clamp)
    edges = _edges(gm, spec, call)
    if isinstance(edges, Reason):
        return edges
    codes, blocks = edges
    replaced = (*call.absorbed, *tail)
    return _Match(spec, call, {**blocks, **chain.blocks}, codes, out, replaced, tuple(users))


def _clamped(out: QParams, clamp: activation.Range | None) -> QParams:
    """Output parameters whose quant_min and quant_max carry a fused activation."""
    if clamp is None:
        return out
    low, high = numerics.activation_bounds(
        out.quant_min, out.quant_max, out.scale_value, out.zero_point_value, *clamp
    )
    return dataclasses.replace(out, quant_min=low, quant_max=high)


Edges = tuple[dict[str, Node | None], dict[str, QParams | None]]


def _edges(gm: GraphModule, spec: OpSpec, call: Call) -> Edges | Reason:
    """Codes and parameters of every operand; a float bias is quantized here."""
    assert spec.fusion is not None
    codes: dict[str, Node | None] = {}
    blocks: dict[str, QParams | None] = {}
    axis = spec.fusion.channel_axis(call.attributes)
    roles = {m: o.role for o in spec.fusion.operands for m in o.members(call.operands)}
    for name, role in roles.items():
        node = call.operands.get(name)
        if node is not None and role is Role.BIAS and not _is_dequantize(node):
            found = quantize_bias(gm, node, codes.get("weight"), blocks, axis)
            if isinstance(found, Reason):
                return found
            if found.weight is not None:
                codes["weight"], blocks["weight"] = found.weight
            codes[name], blocks[name] = found.codes, found.params
            continue
        edge = _edge(gm, node)
        if isinstance(edge, Reason):
            return edge
        codes[name], blocks[name] = edge
    return codes, blocks


def _is_dequantize(node: Node) -> bool:
    per_element = (graph.DEQUANTIZE, graph.DEQUANTIZE_CHANNEL)
    return graph.op_of(node) in per_element or is_affine(node, quantize=False)


def _edge(gm: GraphModule, node: Node | None) -> tuple[Node | None, QParams | None] | Reason:
    """The codes and parameters of one operand that is dequantized, or absent."""
    if node is None:
        return (None, None)
    if not _is_dequantize(node):
        return Reason("float_input", f"operand {node.name} is float", str(node.target), "quantized")
    if graph.op_of(node) == graph.DEQUANTIZE:
        return (node.args[0], input_params(node))  # type: ignore[return-value]
    in_blocks = is_affine(node, quantize=False)
    params = block_params(gm, node) if in_blocks else _channel_params(gm, node)
    if params is None:
        return Reason("constant", f"scale of {node.name}", "computed", "a constant")
    return (node.args[0], params)  # type: ignore[return-value]


def _channel_params(gm: GraphModule, node: Node) -> QParams | None:
    bound = graph.bind(node)
    scale = graph.constant_of(gm, bound["scales"])
    zero_point = graph.constant_of(gm, bound["zero_points"])
    if scale is None or (zero_point is None and bound["zero_points"] is not None):
        return None
    rank = graph.rank_of(node)
    shape = [1] * rank
    shape[bound["axis"] % rank] = scale.numel()
    zeros = torch.zeros_like(scale, dtype=torch.int64) if zero_point is None else zero_point
    return QParams(
        scale.reshape(shape).contiguous(),
        zeros.to(torch.int64).reshape(shape).contiguous(),
        graph.val_of(node).dtype,
        bound["quant_min"],
        bound["quant_max"],
    )


def _fold(gm: GraphModule, node: Node, match: _Match) -> None:
    fusion = match.spec.fusion
    assert fusion is not None
    first = min(match.results)  # in the order of the graph: in front of all that read them
    arguments: list[Any] = []
    blocks: list[Any] = []
    for operand in fusion.operands:
        members = operand.members(match.codes)
        codes = [match.codes[name] for name in members]
        fields = [block_arguments(gm, first, match.blocks[name]) for name in members]
        if operand.many:
            arguments.append(codes)
            scales, zero_points, dtypes, *bounds = map(list, zip(*fields, strict=True))
            blocks += [scales, zero_points, dtypes[0], *bounds]
        else:
            arguments += codes
            blocks += fields[0]
    for step in fusion.steps:
        blocks += block_arguments(gm, first, match.blocks[step.name])
    arguments += blocks
    arguments += block_arguments(gm, first, match.out)
    arguments += _attribute_values(match)
    like = _sources(match)
    target = fusion_target(match.spec)
    fused = graph.call(gm, first, target, tuple(arguments), like)
    result = fused
    if fusion.results > 1:
        result = graph.call(gm, first, graph.GETITEM, (fused, 0), like)
    for value in match.results:
        value.replace_all_uses_with(result)
        if value not in match.replaced:
            gm.graph.erase_node(value)
    for dead in reversed(match.replaced):  # in-place spellings count as impure: not left to DCE
        if not dead.users:
            gm.graph.erase_node(dead)


def _sources(match: _Match) -> tuple[Node, ...]:
    """Every node that disappears into the fused operator, for origins and metadata."""
    dequantizes = [
        node for node in match.call.operands.values() if node is not None and _is_dequantize(node)
    ]
    constants = [n for n in match.codes.values() if n is not None and n.op == "get_attr"]
    return (*constants, *dequantizes, *match.results, *match.replaced)


def _attribute_values(match: _Match) -> list[Any]:
    """Attribute values in schema order."""
    schema = fusion_target(match.spec)._schema
    names = [a.name for a in schema.arguments][-len(match.call.attributes) :]
    return [match.call.attributes[name] for name in names] if match.call.attributes else []
