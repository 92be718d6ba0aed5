# SPDX-License-Identifier: BSD-3-Clause
"""`QuantAbsorption`: values that are written, read and written again are written once."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from torch.fx import GraphModule, Node

from fused_quant import dialect, graph
from fused_quant.passes.absorb_sites import (
    Reading,
    Rewriting,
    apply,
    behind_moves,
    may_become,
    readings_of,
    rewritings_of,
)
from fused_quant.passes.base import GraphPass
from fused_quant.passes.blocks import fused_spec
from fused_quant.passes.composite import consumer_grid, producer_grid
from fused_quant.qparams import QParams


class QuantAbsorption(GraphPass):
    """A quantization behind another one disappears into the operator in front of or behind it.

    Output side, always: a fused operator P writes codes A, which are read as D and written as B (a
    requantize, or dequantize -> quantize). P writes the composite grid
    s = s_A * s_B / s_D, z = z_B + (z_A - z_D) * s_D / s_B instead (B itself where A = D). It
    reaches through views and permutations that each have one user. Conditions: per tensor, one
    dtype and range for A and D (a fused relu's bound apart; it is kept), finite positive scales, z
    an integer within 1e-6 and in the range of B, and P stays within the integer contract if it was.
    Bound: where A does not saturate, a code differs from the unabsorbed one by at most
    1 + s_D / (2 * s_B), because it is rounded once instead of twice; so it is at least as close to
    the float result. Not bit-exact with the quantize/dequantize graph.

    absorb_into_inputs: what no producer absorbs, consumers do: they read the codes in front of the
    rewriting on s = s_D * s_C / s_B, z = z_D + (z_C - z_B) * s_B / s_D, C being the block they
    read with. All readers must be able to. Opt-in, because it is better on average but not for
    every value: B may have been the finer grid, or have saturated what C was calibrated for, and
    a bias is rounded anew to the accumulator's new step (by at most half of it).
    Bound: where B does not saturate, a value read differs from the unabsorbed one by at most
    s_C / 2.

    absorb_with_fork: codes A may have other readers besides. Opt-in, because these (float operators
    behind the dequantize, and fused operators that read with D) then see values on the grid of
    B, which can be coarser than the one they were calibrated for.
    Bound: where nothing saturates, a value they read differs by at most (s_D + s_B) / 2.

    Idempotent. What is left is for ReplaceDequantQuantWithRequantize.
    """

    def __init__(self, absorb_into_inputs: bool = False, absorb_with_fork: bool = False) -> None:
        self.absorb_into_inputs = absorb_into_inputs
        self.absorb_with_fork = absorb_with_fork

    def rewrite(self, gm: GraphModule) -> bool:
        """See the class."""
        changed = False
        while self._step(gm):
            gm.graph.eliminate_dead_code()
            changed = True
        return changed

    def _step(self, gm: GraphModule) -> bool:
        """One absorption; producers first."""
        if any(fused_spec(n) is not None and self._into_output(gm, n) for n in graph.calls(gm)):
            return True
        return self.absorb_into_inputs and any(
            _into_inputs(gm, rewriting)
            for node in graph.calls(gm)
            for rewriting in _alone(rewritings_of(gm, node))
        )

    def _into_output(self, gm: GraphModule, node: Node) -> bool:
        value, a = _value_of(node), dialect.blocks_of(gm, node)["out"]
        if value is None or a is None:
            return False
        codes, moves = behind_moves(value)
        rewritings, readings = [], []
        for user in codes.users:
            found = rewritings_of(gm, user)
            rewritings += found
            if found and (found[0].last is user or len(found) == len(user.users)):
                continue
            read = readings_of(gm, codes, user) if self.absorb_with_fork else None
            if read is None:
                return False
            readings += read
        grid = _common_grid(a, rewritings, graph.val_of(codes).dtype)
        if grid is None or not may_become(gm, node, {"out": grid}):
            return False
        d, b = rewritings[0].d, rewritings[0].b
        if not _may_read(gm, readings, d, b):
            return False
        apply(gm, node, {"out": grid})
        _refresh(gm, [node, *([] if value is node else [value]), *moves])
        for rewriting in rewritings:
            _drop(gm, rewriting, codes)
        _read_as(gm, readings, codes, b)
        return True


def _value_of(node: Node) -> Node | None:
    """The node that carries the first result; None if it is not one node."""
    if not isinstance(graph.val_of(node), (tuple, list)):
        return node
    values = [user for user in node.users if user.args[1] == 0]
    return values[0] if len(values) == 1 else None


def _alone(rewritings: Sequence[Rewriting]) -> Sequence[Rewriting]:
    """Rewritings that share nothing with a reader that stays."""
    return [r for r in rewritings if r.first is r.last or len(r.first.users) == 1]


def _common_grid(a: QParams, rewritings: Sequence[Rewriting], stored: object) -> QParams | None:
    """The composite grid if all rewritings agree on it."""
    grids = [producer_grid(a, r.d, r.b) for r in rewritings]
    if not grids or a.dtype != stored:
        return None
    first, b = grids[0], rewritings[0].b
    for grid, rewriting in zip(grids, rewritings, strict=True):
        if grid is None or first is None or not grid.equals(first) or not rewriting.b.equals(b):
            return None
    return first


def _may_read(gm: GraphModule, readings: Sequence[Reading], d: QParams, b: QParams) -> bool:
    """True if the further readers read D, and can read B instead."""
    if not all(reading.block.equals(d) for reading in readings):
        return False
    return all(
        may_become(gm, node, {name: _as_input(b, d) for name in names})
        for node, names in _operands(readings).items()
        if fused_spec(node) is not None
    )


def _operands(readings: Sequence[Reading]) -> dict[Node, list[str]]:
    operands: dict[Node, list[str]] = {}
    for reading in readings:
        names = operands.setdefault(reading.node, [])
        if reading.operand is not None:
            names.append(reading.operand)
    return operands


def _as_input(b: QParams, like: QParams) -> QParams:
    """An out block as an input block with the float dtype of another."""
    return QParams(b.scale, b.zero_point, like.dtype, b.quant_min, b.quant_max)


def _read_as(gm: GraphModule, readings: Sequence[Reading], codes: Node, b: QParams) -> None:
    for node, names in _operands(readings).items():
        like = next(r.block for r in readings if r.node is node)
        if names:
            apply(gm, node, dict.fromkeys(names, _as_input(b, like)))
        else:
            _set_dequantize(gm, node, codes, b)


def _set_dequantize(gm: GraphModule, node: Node, codes: Node, params: QParams) -> None:
    grid = (params.scale_value, params.zero_point_value, params.quant_min, params.quant_max)
    node.args = (codes, *grid, graph.val_of(codes).dtype)
    _refresh(gm, [node])


def _drop(gm: GraphModule, rewriting: Rewriting, codes: Node) -> None:
    """Take a rewriting out: moves inside it move codes, its readers read `codes`."""
    result = codes
    for move in rewriting.moves:
        move.replace_input_with(move.all_input_nodes[0], result)
        _refresh(gm, [move])
        result = move
    rewriting.last.replace_all_uses_with(result)
    gm.graph.erase_node(rewriting.last)
    if rewriting.first is not rewriting.last and not rewriting.first.users:
        gm.graph.erase_node(rewriting.first)


def _into_inputs(gm: GraphModule, rewriting: Rewriting) -> bool:
    """Let the readers behind a rewriting read the codes in front of it; False if one cannot."""
    codes = rewriting.first.args[0]
    assert isinstance(codes, Node)
    stored = graph.val_of(codes).dtype
    end, moves = behind_moves(rewriting.last)
    changes: dict[Node, dict[str, QParams]] = {}
    dequantizes: dict[Node, QParams] = {}
    if not end.users or stored != graph.val_of(rewriting.last).dtype:
        return False
    for user in end.users:
        readings = readings_of(gm, end, user)
        if readings is None:
            return False
        for reading in readings:
            grid = consumer_grid(rewriting.d, rewriting.b, reading.block)
            if grid is None:
                return False
            if reading.operand is None:
                dequantizes[user] = grid
            else:
                changes.setdefault(user, {})[reading.operand] = grid
    if not all(may_become(gm, user, changed) for user, changed in changes.items()):
        return False
    for user, changed in changes.items():
        apply(gm, user, changed)
    for user, grid in dequantizes.items():
        _set_dequantize(gm, user, end, grid)
    _drop(gm, rewriting, codes)
    _refresh(gm, moves)
    return True


def _refresh(gm: GraphModule, nodes: Sequence[Node]) -> None:
    mode = graph.fake_mode_of(gm)
    with contextlib.nullcontext() if mode is None else mode:
        for node in nodes:
            graph.refresh_val(node)
