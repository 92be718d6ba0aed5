# SPDX-License-Identifier: BSD-3-Clause
"""Memory plan: placements checked against brute force, the persistent bound against the runtime."""

from __future__ import annotations

import copy
import itertools
import pathlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fused_quant import memory_plan
from fused_quant import schema_generated as schema
from fused_quant.lowered import LoweredProgram, LoweredTensor, Storage
from tests.python.payload_samples import SAMPLES

ROOT = pathlib.Path(__file__).parents[2]


@st.composite
def programs(draw: st.DrawFn, max_ops: int = 12) -> LoweredProgram:
    """Random programs: each operator reads any of what was written before, some of it by views."""
    program = LoweredProgram("generic")
    program.inputs.append(program.add_tensor(LoweredTensor("x", "s8", (9,), Storage.INPUT)))
    readable = [0]
    steps = draw(st.integers(1, max_ops))
    for step in range(steps):
        inputs = draw(st.lists(st.sampled_from([*readable, -1]), min_size=1, max_size=3))
        outputs = []
        for position in range(draw(st.integers(1, 2))):
            shape = (draw(st.integers(1, 100)),)
            dtype = draw(st.sampled_from(["s8", "s16", "s32"]))
            tensor = LoweredTensor(f"t{step}_{position}", dtype, shape, Storage.ARENA)
            if step == steps - 1 and position == 0:
                tensor.storage, tensor.location = Storage.OUTPUT, 0
                program.outputs.append(len(program.tensors))
            outputs.append(program.add_tensor(tensor))
        program.add_op("copy", inputs, outputs, schema.LayoutParamsT())
        readable += outputs
        if program.tensors[outputs[-1]].storage is Storage.ARENA and draw(st.booleans()):
            base = program.tensors[outputs[-1]]
            view = LoweredTensor("view", base.dtype, (1, *base.shape), Storage.ARENA)
            view.alias = outputs[-1]
            readable.append(program.add_tensor(view))
    return program


def live_at(program: LoweredProgram, step: int) -> list[int]:
    """Arena tensors that hold a value during a step, straight from the definition."""
    live = []
    for index, tensor in enumerate(program.tensors):
        if tensor.storage is not Storage.ARENA or tensor.alias >= 0:
            continue
        names = {index} | {i for i, other in enumerate(program.tensors) if other.alias == index}
        uses = [s for s, op in enumerate(program.ops) if names & {*op.inputs, *op.outputs}]
        if min(uses) <= step <= max(uses):
            live.append(index)
    return live


def check_placement(program: LoweredProgram) -> None:
    arena = [t for t in program.tensors if t.storage is Storage.ARENA and t.alias < 0]
    for tensor in program.tensors:
        assert tensor.alias < 0 or tensor.location == program.tensors[tensor.alias].location
    end = 0
    for tensor in arena:
        assert tensor.location >= 0
        assert tensor.location % 16 == 0
        end = max(end, tensor.location + tensor.nbytes)
    assert program.arena_bytes == -(-end // 16) * 16
    assert program.arena_bytes <= sum(-(-t.nbytes // 16) * 16 for t in arena)
    for step in range(len(program.ops)):
        for first, second in itertools.combinations(live_at(program, step), 2):
            a, b = program.tensors[first], program.tensors[second]
            assert a.location + a.nbytes <= b.location or b.location + b.nbytes <= a.location


@given(programs())
@settings(deadline=None)
def test_live_tensors_never_overlap(program: LoweredProgram) -> None:
    memory_plan.plan_memory(program)
    check_placement(program)


@given(programs())
@settings(deadline=None, max_examples=50)
def test_report_is_the_true_lower_bound(program: LoweredProgram) -> None:
    memory_plan.plan_memory(program)
    report = memory_plan.report(program)
    peak = max(
        sum(-(-program.tensors[i].nbytes // 16) * 16 for i in live_at(program, step))
        for step in range(len(program.ops))
    )
    assert report.lower_bound == peak
    assert peak <= report.arena_bytes == program.arena_bytes <= report.unshared_bytes
    assert report.overhead == (report.arena_bytes / peak - 1 if peak else 0)


@given(programs())
@settings(deadline=None, max_examples=50)
def test_the_plan_depends_on_the_program_alone(program: LoweredProgram) -> None:
    twin = copy.deepcopy(program)
    for tensor in twin.tensors:
        tensor.name, tensor.location = f"other {tensor.name}", 4 * tensor.location + 7
    memory_plan.plan_memory(program)
    memory_plan.plan_memory(twin)
    arena = [t.location for t in program.tensors if t.storage is Storage.ARENA]
    assert [t.location for t in twin.tensors if t.storage is Storage.ARENA] == arena
    memory_plan.plan_memory(program)
    assert [t.location for t in program.tensors if t.storage is Storage.ARENA] == arena


def smallest_arena(blocks: list[memory_plan.Block]) -> int:
    """Optimum by trying every order with lowest-fit, which reaches some optimal placement."""
    best = sum(block.size for block in blocks)
    for order in itertools.permutations(blocks):
        placed: list[tuple[int, memory_plan.Block]] = []
        for block in order:
            rivals = [
                (o, o + b.size)
                for o, b in placed
                if b.first <= block.last and block.first <= b.last
            ]
            offset = min(
                candidate
                for candidate in [0, *(high for _, high in rivals)]
                if all(candidate + block.size <= low or high <= candidate for low, high in rivals)
            )
            placed.append((offset, block))
        best = min(best, max(o + b.size for o, b in placed))
    return best


BLOCKS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=6
).map(
    lambda rows: [
        memory_plan.Block(i, 16 * size, first, first + length)
        for i, (size, first, length) in enumerate(rows)
    ]
)


@given(BLOCKS)
@settings(deadline=None, max_examples=150)
def test_small_programs_are_placed_optimally(blocks: list[memory_plan.Block]) -> None:
    offsets = memory_plan.place(blocks)
    assert max(o + b.size for o, b in zip(offsets, blocks, strict=True)) == smallest_arena(blocks)


# Found by random search: the best greedy ordering needs 112 bytes, the optimum is 96.
HARD = [(48, 4, 6), (32, 1, 4), (32, 1, 3), (48, 5, 6), (32, 1, 3)]


def test_exact_search_beats_greedy() -> None:
    blocks = [memory_plan.Block(i, *row) for i, row in enumerate(HARD)]

    def extent(offsets: list[int]) -> int:
        return max(o + b.size for o, b in zip(offsets, blocks, strict=True))

    assert extent(memory_plan._greedy(blocks)) > memory_plan.lower_bound(blocks)
    assert extent(memory_plan.place(blocks)) == memory_plan.lower_bound(blocks)


def test_long_skip_is_not_overwritten() -> None:
    """A residual block: the skip lives across the whole branch and is still there at the join."""
    program = LoweredProgram("generic")
    program.inputs.append(program.add_tensor(LoweredTensor("x", "s8", (64,), Storage.INPUT)))
    skip = program.add_tensor(LoweredTensor("skip", "s8", (64,), Storage.ARENA))
    program.add_op("copy", [0], [skip], schema.LayoutParamsT())
    branch = skip
    for step in range(5):
        new = program.add_tensor(LoweredTensor(f"b{step}", "s8", (64,), Storage.ARENA))
        program.add_op("copy", [branch], [new], schema.LayoutParamsT())
        branch = new
    join = program.add_tensor(LoweredTensor("join", "s8", (64,), Storage.OUTPUT))
    program.outputs.append(join)
    program.add_op("add", [branch, skip], [join], schema.ElementwiseParamsT())
    memory_plan.plan_memory(program)
    check_placement(program)
    assert program.arena_bytes == 3 * 64  # the skip and two of the branch


def test_large_programs_stay_near_the_bound() -> None:
    """Beyond the exact search: a chain with skips of every length, 120 tensors."""
    blocks = [
        memory_plan.Block(i, 16 * (1 + i * 29 % 97), i, i + (1 if i % 4 else 1 + i * 7 % 11))
        for i in range(120)
    ]
    offsets = memory_plan.place(blocks)
    for (i, a), (j, b) in itertools.combinations(enumerate(blocks), 2):
        if a.first <= b.last and b.first <= a.last:
            assert offsets[i] + a.size <= offsets[j] or offsets[j] + b.size <= offsets[i]
    extent = max(o + b.size for o, b in zip(offsets, blocks, strict=True))
    assert extent <= 1.10 * memory_plan.lower_bound(blocks)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda p: p.ops.reverse(), "earlier operator wrote"),
        (lambda p: p.ops.append(p.ops[0]), "nothing wrote before"),
        (lambda p: p.ops.pop(0), "earlier operator wrote"),
        (lambda p: p.ops.clear(), "no writer"),
        (lambda p: setattr(p.ops[0], "inputs", (99,)), "tensor index or -1"),
        (lambda p: setattr(p.ops[0], "outputs", (-1,)), "tensor index"),
    ],
    ids=["order", "twice", "unwritten", "no ops", "input index", "output index"],
)
def test_malformed_programs_are_refused(break_it: object, message: str) -> None:
    program = SAMPLES["requantize"]()
    assert callable(break_it)
    break_it(program)
    with pytest.raises(ValueError, match=message):
        memory_plan.plan_memory(program)


def test_four_gigabytes_are_refused() -> None:
    program = LoweredProgram("generic")
    program.inputs.append(program.add_tensor(LoweredTensor("x", "s8", (1,), Storage.INPUT)))
    for i in range(3):
        program.add_tensor(LoweredTensor(f"t{i}", "s8", (2**31 - 1,), Storage.ARENA))
    program.add_op("copy", [0], [1, 2, 3], schema.LayoutParamsT())
    with pytest.raises(ValueError, match="6442450944 bytes"):
        memory_plan.plan_memory(program)


def test_persistent_formula() -> None:
    program = SAMPLES["linear_without_bias"]()  # 4 tensors, 2 operators, 4 + 2 operands
    assert program.persistent_bytes == -(-(128 + 4 * 40 + 2 * (64 + 256) + 6 * 8) // 16) * 16


def test_constants_agree_with_the_runtime() -> None:
    header = (ROOT / "runtime" / "plan.h").read_text()
    found = dict(re.findall(r"constexpr size_t k(\w+)Bytes = (\d+);", header))
    assert {name: int(value) for name, value in found.items()} == {
        "PlanHeader": memory_plan.PLAN_HEADER_BYTES,
        "Tensor": memory_plan.TENSOR_BYTES,
        "Step": memory_plan.STEP_BYTES,
        "Operand": memory_plan.OPERAND_BYTES,
        "Params": memory_plan.PARAMS_BYTES,
    }


def test_format_plan() -> None:
    text = memory_plan.format_plan(SAMPLES["add"]())
    lines = text.splitlines()
    assert lines[0].split() == ["tensor", "name", "type", "bytes", "steps", "arena"]
    assert lines[2].split() == ["1", "copy_1", "s8", "1x4x5x3", "60", "0..2", "0..64"]
    assert lines[-1].startswith("arena 192 bytes (lower bound 192, +0.0%; without sharing 192)")
