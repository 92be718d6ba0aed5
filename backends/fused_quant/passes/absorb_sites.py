# SPDX-License-Identifier: BSD-3-Clause
"""What absorption asks of a graph: who reads codes how, and may a node's block change."""

from __future__ import annotations

import dataclasses

import torch
from torch.fx import GraphModule, Node

from fused_quant import dialect, graph
from fused_quant.ops import movement
from fused_quant.ops.boundary import params_of
from fused_quant.ops.requantize import REQUANTIZE
from fused_quant.ops.spec import Role, Site
from fused_quant.passes.blocks import fused_spec, input_params, set_block
from fused_quant.qparams import QParams

_LARGEST = 2.0**31 - 1


@dataclasses.dataclass(frozen=True)
class Rewriting:
    """Codes read as D and written as B: a requantize, or dequantize -> moves -> quantize.

    first reads the codes, last gives the new ones; moves are between them.
    """

    first: Node
    last: Node
    moves: tuple[Node, ...]
    d: QParams
    b: QParams


@dataclasses.dataclass(frozen=True)
class Reading:
    """Codes read with a block: by an operand of a fused operator, or by a dequantize."""

    node: Node
    operand: str | None
    block: QParams


def behind_moves(node: Node) -> tuple[Node, tuple[Node, ...]]:
    """The last of the moves that alone read a node one after the other, and all of them."""
    moves: list[Node] = []
    while len(node.users) == 1:
        (user,) = node.users
        if not movement.moves(user):
            break
        moves.append(user)
        node = user
    return node, tuple(moves)


def rewritings_of(gm: GraphModule, user: Node) -> list[Rewriting]:
    """The rewritings that a reader of codes begins; empty if it begins none."""
    if fused_spec(user) is REQUANTIZE:
        blocks = dialect.blocks_of(gm, user)
        d, b = blocks["inp"], blocks["out"]
        return [] if d is None or b is None else [Rewriting(user, user, (), d, b)]
    if graph.op_of(user) != graph.DEQUANTIZE:
        return []
    found = []
    for follower in user.users:
        single = graph.op_of(follower) == graph.QUANTIZE
        last, moves = (user, ()) if single else _moved(follower)
        quantizes = [follower] if single else list(last.users)
        if len(quantizes) == 1 and graph.op_of(quantizes[0]) == graph.QUANTIZE:
            b = params_of(quantizes[0])
            found.append(Rewriting(user, quantizes[0], moves, input_params(user), b))
    return found


def _moved(node: Node) -> tuple[Node, tuple[Node, ...]]:
    if not movement.moves(node):
        return node, ()
    last, moves = behind_moves(node)
    return last, (node, *moves)


def readings_of(gm: GraphModule, codes: Node, user: Node) -> list[Reading] | None:
    """How a user reads codes with blocks; None if it does anything else with them."""
    if graph.op_of(user) == graph.DEQUANTIZE:
        return [Reading(user, None, input_params(user))]
    spec = fused_spec(user)
    if spec is None:
        return None
    bound = graph.bind(user)
    blocks = dialect.blocks_of(gm, user)
    found = []
    for name, value in dialect.operands_of(spec, bound).items():
        block = blocks[name]
        if value is codes:
            if block is None or role_of(user, name) is not Role.ACTIVATION:
                return None
            found.append(Reading(user, name, block))
    _, attributes = dialect.parse_arguments(spec, bound)
    return None if codes in attributes.values() else found


def role_of(node: Node, name: str) -> Role:
    """The role of an operand of a fused node."""
    spec = fused_spec(node)
    assert spec is not None
    assert spec.fusion is not None
    return next(o.role for o in spec.fusion.operands if name in o.members([name]))


def _is_integer(site: Site) -> bool:
    assert site.spec.fusion is not None
    if not dialect.is_integer_instance(site):
        return False
    return site.spec.fusion.covers(dialect.rebased(site)) is None


def may_become(gm: GraphModule, node: Node, changed: dict[str, QParams]) -> bool:
    """False if other blocks would take a node out of the integer contract (or its shape is open).

    changed: blocks by operand name, or `out`.
    """
    try:
        site = dialect.site_of(gm, node)
    except ValueError:
        return False
    before = _is_integer(site)
    if not before:
        return True
    constants = dict(site.constants)
    blocks = {**site.qparams, **{k: v for k, v in changed.items() if k != "out"}}
    rescaled = _rescaled_bias(site, blocks)
    if rescaled is not None:
        name, codes, params = rescaled
        if float(codes.abs().max()) > _LARGEST:
            return False
        constants[name], blocks[name] = codes.to(torch.int32), params
    out = changed.get("out", site.out)
    return _is_integer(dataclasses.replace(site, qparams=blocks, constants=constants, out=out))


def apply(gm: GraphModule, node: Node, changed: dict[str, QParams]) -> None:
    """Write other blocks on a fused node; an int32 bias follows its input's scale."""
    site = dialect.site_of(gm, node)
    blocks = {**site.qparams, **{k: v for k, v in changed.items() if k != "out"}}
    rescaled = _rescaled_bias(site, blocks)
    if rescaled is not None:
        name, codes, params = rescaled
        constant = graph.add_constant(gm, node, codes.to(torch.int32), "fused_quant_bias")
        schema = [argument.name for argument in graph.op_of(node)._schema.arguments]
        arguments = list(graph.bind(node).values())
        arguments[schema.index(name)] = constant
        node.args, node.kwargs = tuple(arguments), {}
        changed = {**changed, name: params}
    for name, params in changed.items():
        set_block(gm, node, name, params)


def _rescaled_bias(
    site: Site, blocks: dict[str, QParams | None]
) -> tuple[str, torch.Tensor, QParams] | None:
    """Bias codes (float64, whole) and scale for another input scale; None: nothing to do.

    Rounded to nearest, ties to even: at most half a step of the accumulator.
    """
    fusion = site.spec.fusion
    assert fusion is not None
    names = [o.name for o in fusion.operands if o.role is Role.BIAS and o.name in site.shapes]
    old, new = site.qparams.get("inp"), blocks.get("inp")
    if not names or old is None or new is None or old.scale_value == new.scale_value:
        return None
    (name,) = names
    params = site.qparams[name]
    if params is None or name not in site.constants:
        return None
    ratio = new.scale_value / old.scale_value
    codes = torch.round(site.constants[name].double() / ratio)
    scale = (params.scale.double() * ratio).to(torch.float32)
    return name, codes, dataclasses.replace(params, scale=scale)
