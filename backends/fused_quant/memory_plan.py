# SPDX-License-Identifier: BSD-3-Clause
"""Ahead-of-time memory plan: the place of each intermediate tensor, and the memory a plan needs.

Step t is the t-th operator. A tensor is live from the step that writes it to the last step that
reads it, both included, so the inputs and outputs of one operator never overlap. Delegate inputs
and outputs are the caller's buffers and take no arena. Offsets and sizes are multiples of 16.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from tabulate import tabulate

from fused_quant.lowered import LoweredProgram, Storage
from fused_quant.payload_check import ALIGNMENT, check_order

# What a plan keeps in its persistent memory, at most, on any target: as in runtime/plan.h.
PLAN_HEADER_BYTES = 128
TENSOR_BYTES = 40
STEP_BYTES = 64
OPERAND_BYTES = 8
PARAMS_BYTES = 256

# The exact search is exponential: it runs on programs this small and gives up after so many nodes.
EXACT_TENSORS = 24
EXACT_NODES = 20_000

_UINT32_MAX = 2**32 - 1


@dataclasses.dataclass(frozen=True)
class Block:
    """The arena use of one tensor: `size` bytes (rounded up to 16) during steps first..last."""

    tensor: int
    size: int
    first: int
    last: int

    def overlaps(self, other: Block) -> bool:
        """Whether the two are live at the same step."""
        return self.first <= other.last and other.first <= self.last


@dataclasses.dataclass(frozen=True)
class ArenaReport:
    """How good a placement is; all figures in bytes.

    `lower_bound` is the largest sum of live bytes at any step: no placement can need less.
    `unshared_bytes` is what giving every tensor its own bytes would need.
    """

    arena_bytes: int
    lower_bound: int
    unshared_bytes: int

    @property
    def overhead(self) -> float:
        """Arena bytes above the lower bound, as a fraction of the bound."""
        return self.arena_bytes / self.lower_bound - 1.0 if self.lower_bound else 0.0


def align(size: int) -> int:
    """`size` rounded up to a multiple of 16."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def lifetimes(program: LoweredProgram) -> list[Block]:
    """The arena tensors of `program` in index order; a view prolongs the life of its owner.

    Raises ValueError for operands out of range, for a tensor that is written more than once or
    read before it is written, and for an arena tensor that is never written.
    """
    check_order(program)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, op in enumerate(program.ops):
        for operand in (*op.inputs, *op.outputs):
            if operand < 0:
                continue
            index = program.owner(operand)
            first.setdefault(index, step)
            last[index] = step
    return [
        Block(index, align(tensor.nbytes), first[index], last[index])
        for index, tensor in enumerate(program.tensors)
        if tensor.storage is Storage.ARENA and tensor.alias < 0
    ]


def lower_bound(blocks: Sequence[Block]) -> int:
    """The largest sum of live bytes at any step."""
    delta: dict[int, int] = {}
    for block in blocks:
        delta[block.first] = delta.get(block.first, 0) + block.size
        delta[block.last + 1] = delta.get(block.last + 1, 0) - block.size
    live = peak = 0
    for step in sorted(delta):
        live += delta[step]
        peak = max(peak, live)
    return peak


def _extent(blocks: Sequence[Block], offsets: Sequence[int]) -> int:
    """Bytes from the arena's start to the end of its highest block."""
    return max((o + b.size for b, o in zip(blocks, offsets, strict=True)), default=0)


def _place(blocks: Sequence[Block], order: Iterable[int], best_fit: bool) -> list[int]:
    """Place blocks in the given order, each into the lowest (or tightest) gap where it fits."""
    offsets = [0] * len(blocks)
    placed: list[int] = []
    for index in order:
        block = blocks[index]
        busy = sorted(
            (offsets[i], offsets[i] + blocks[i].size) for i in placed if block.overlaps(blocks[i])
        )
        end = 0
        chosen, slack = -1, _UINT32_MAX
        for low, high in busy:
            room = low - end - block.size
            if room >= 0 and (chosen < 0 or (best_fit and room < slack)):
                chosen, slack = end, room
            end = max(end, high)
        offsets[index] = end if chosen < 0 else chosen
        placed.append(index)
    return offsets


def _greedy(blocks: Sequence[Block]) -> list[int]:
    """The best of a few orderings; ties keep the earlier ordering, so the result is determinate."""

    def length(block: Block) -> int:
        return block.last - block.first + 1

    keys: list[Callable[[Block], tuple[int, ...]]] = [
        lambda b: (-b.size, b.first),
        lambda b: (-b.size, -length(b), b.first),
        lambda b: (-b.size * length(b), b.first),
        lambda b: (-length(b), -b.size, b.first),
        lambda b: (b.first, -b.size),
        lambda b: (-b.last, -b.size),
    ]
    best = [0] * len(blocks)
    extent = -1
    for key in keys:
        order = sorted(range(len(blocks)), key=lambda i: (*key(blocks[i]), blocks[i].tensor))
        for best_fit in (False, True):
            offsets = _place(blocks, order, best_fit)
            if extent < 0 or _extent(blocks, offsets) < extent:
                best, extent = offsets, _extent(blocks, offsets)
    return best


class _ExactSearch:
    """Branch and bound for the smallest arena, from a known placement downwards.

    Any placement can be packed downwards until each block lies on the ground or on a block live at
    the same time; listed by offset, each block of such a packing lies exactly on top of what was
    listed before it. So it is enough to try every order with non-decreasing offsets. A step's
    height can never fall below its top plus what is still to be placed there.
    """

    def __init__(self, blocks: Sequence[Block], offsets: Sequence[int]) -> None:
        self._blocks = blocks
        self.best = list(offsets)
        self._extent = _extent(blocks, offsets)
        self._goal = lower_bound(blocks)
        self._nodes = EXACT_NODES
        steps = max((b.last for b in blocks), default=-1) + 1
        self._top = [0] * steps
        self._todo = [sum(b.size for b in blocks if b.first <= t <= b.last) for t in range(steps)]
        self._offsets = [0] * len(blocks)

    def run(self) -> list[int]:
        """The best placement found; optimal unless the node limit was reached."""
        self._descend(list(range(len(self._blocks))), (0, -1))
        return self.best

    def _descend(self, remaining: list[int], previous: tuple[int, int]) -> None:
        if self._nodes <= 0 or self._extent <= self._goal:
            return
        self._nodes -= 1
        floor = previous[0]
        if any(
            (max(top, floor) + todo if todo else top) >= self._extent
            for top, todo in zip(self._top, self._todo, strict=True)
        ):
            return
        if not remaining:
            self.best, self._extent = list(self._offsets), max(self._top, default=0)
            return
        candidates = []
        for index in remaining:
            block = self._blocks[index]
            offset = max(self._top[block.first : block.last + 1])
            if (offset, index) > previous:  # equal offsets: blocks are disjoint in time
                candidates.append((offset, -block.size, index))
        for offset, _, index in sorted(candidates):
            self._step(index, offset, remaining)

    def _step(self, index: int, offset: int, remaining: list[int]) -> None:
        block = self._blocks[index]
        span = slice(block.first, block.last + 1)
        saved = self._top[span]
        self._offsets[index] = offset
        self._top[span] = [offset + block.size] * len(saved)
        self._todo[span] = [v - block.size for v in self._todo[span]]
        self._descend([i for i in remaining if i != index], (offset, index))
        self._top[span] = saved
        self._todo[span] = [v + block.size for v in self._todo[span]]


def place(blocks: Sequence[Block]) -> list[int]:
    """Offsets of `blocks` in an arena that is as small as we can find.

    Depends on nothing but the blocks in the order given.
    """
    offsets = _greedy(blocks)
    if len(blocks) <= EXACT_TENSORS and _extent(blocks, offsets) > lower_bound(blocks):
        offsets = _ExactSearch(blocks, offsets).run()
    return offsets


def persistent_bytes(program: LoweredProgram) -> int:
    """Upper bound of what a plan of `program` keeps besides the arena, on any target.

    header + tensors * kTensorBytes + ops * (kStepBytes + kParamsBytes) + operands * kOperandBytes,
    rounded up to a multiple of 16, where operands are all entries of the ops' input and output
    lists, absent ones included.
    """
    operands = sum(len(op.inputs) + len(op.outputs) for op in program.ops)
    return align(
        PLAN_HEADER_BYTES
        + len(program.tensors) * TENSOR_BYTES
        + len(program.ops) * (STEP_BYTES + PARAMS_BYTES)
        + operands * OPERAND_BYTES
    )


def plan_memory(program: LoweredProgram) -> None:
    """Set the location of every arena tensor, and the three sizes of the program.

    Raises ValueError for a malformed program (see `lifetimes`) or an arena of 4 GiB or more.
    """
    blocks = lifetimes(program)
    offsets = place(blocks)
    arena = _extent(blocks, offsets)
    if arena > _UINT32_MAX:
        raise ValueError(f"the program needs an arena of {arena} bytes, at most {_UINT32_MAX}")
    for block, offset in zip(blocks, offsets, strict=True):
        program.tensors[block.tensor].location = offset
    for tensor in program.tensors:
        if tensor.alias >= 0:
            tensor.location = program.tensors[tensor.alias].location
    program.arena_bytes = arena
    program.persistent_bytes = persistent_bytes(program)
    program.scratch_bytes = align(max((op.scratch_bytes for op in program.ops), default=0))


def report(program: LoweredProgram) -> ArenaReport:
    """How near a planned program's arena is to the lower bound."""
    blocks = lifetimes(program)
    return ArenaReport(
        program.arena_bytes, lower_bound(blocks), sum(block.size for block in blocks)
    )


def format_plan(program: LoweredProgram) -> str:
    """A table of the arena of a planned program, in order of first use, and its totals."""
    rows = []
    for block in sorted(lifetimes(program), key=lambda b: (b.first, b.tensor)):
        tensor = program.tensors[block.tensor]
        shape = "x".join(map(str, tensor.shape)) or "scalar"
        rows.append(
            (
                block.tensor,
                tensor.name,
                f"{tensor.dtype} {shape}",
                tensor.nbytes,
                f"{block.first}..{block.last}",
                f"{tensor.location}..{tensor.location + block.size}",
            )
        )
    headers = ("tensor", "name", "type", "bytes", "steps", "arena")
    table = tabulate(rows, headers=headers, disable_numparse=True)
    figures = report(program)
    summary = (
        f"arena {figures.arena_bytes} bytes (lower bound {figures.lower_bound}, "
        f"+{figures.overhead:.1%}; without sharing {figures.unshared_bytes}); "
        f"scratch {program.scratch_bytes} bytes; "
        f"persistent {program.persistent_bytes} bytes"
    )
    return f"{table}\n{summary}" if rows else summary
