# SPDX-License-Identifier: BSD-3-Clause
"""Neighbouring functions of one int8 code as one table: T[q + 128] = T2[T1[q + 128] + 128].

A table and a requantize (also a clamp, or a product with a number) are each an exact function from
256 codes to codes, saturation included, so looking one up in the other changes no bit. Steps are
folded where nothing else reads what lies between them; views between them do not matter.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fused_quant import numerics, numerics_lut, schema_generated
from fused_quant.lowered import LoweredOp, LoweredProgram, Storage

Table = npt.NDArray[np.int8]


def fold_tables(program: LoweredProgram) -> None:
    """Rewrite in place, before tensors are placed."""
    readers = _readers(program)
    steps: dict[int, LoweredOp] = {}  # by the tensor a step writes
    folded = False
    for op in program.ops:
        before = steps.get(program.owner(op.inputs[0])) if op.inputs else None
        if before is not None and _is_private(program, readers, before.outputs[0]):
            merged = _merge(program, before, op)
            if merged is not None:
                del steps[before.outputs[0]]
                op, folded = merged, True
        steps[op.outputs[0]] = op
    if folded:
        program.ops = list(steps.values())
        _drop_unused(program)


def _readers(program: LoweredProgram) -> collections.Counter[int]:
    """How many operands read the bytes of each tensor."""
    operands = (index for op in program.ops for index in op.inputs if index >= 0)
    return collections.Counter(map(program.owner, operands))


def _is_private(program: LoweredProgram, readers: collections.Counter[int], tensor: int) -> bool:
    return program.tensors[tensor].storage is Storage.ARENA and readers[tensor] == 1


def _merge(program: LoweredProgram, first: LoweredOp, second: LoweredOp) -> LoweredOp | None:
    """One step for two, if both are functions of one code."""
    inner, outer = table_of(program, first), table_of(program, second)
    if inner is None or outer is None:
        return None
    name = f"{first.name} + {second.name}"
    entries = program.add_constant(f"{name}.table", outer[inner.astype(np.int16) + 128], "s8")
    params = schema_generated.ElementwiseParamsT()
    return LoweredOp("lut", (first.inputs[0], entries), second.outputs, params, name)


def table_of(program: LoweredProgram, op: LoweredOp) -> Table | None:
    """The 256 results of a step that maps int8 codes to int8 codes, else None."""
    if op.opcode not in ("lut", "requantize"):
        return None
    if any(program.tensors[index].dtype != "s8" for index in (op.inputs[0], *op.outputs)):
        return None
    if op.opcode == "lut":
        return program.tensors[op.inputs[1]].data
    return _rescaled(op.params)


def _rescaled(params: Any) -> Table:
    """The results of a requantize step; a negated one turns the rounded product over."""
    multiplier = numerics.Multiplier(params.multiplier[0], params.shift[0])
    centred = numerics_lut.CODES - params.inputZeroPoint[0]
    steps = numerics.rescale(centred, multiplier)
    steps = -steps if params.negate and params.negate[0] else steps
    codes = (steps + params.outputZeroPoint).clamp(params.clampMin, params.clampMax)
    return codes.to(torch.int8).numpy()


def _used(program: LoweredProgram) -> Iterator[int]:
    yield from program.inputs
    yield from program.outputs
    for op in program.ops:
        for index in (*op.inputs, *op.outputs):
            if index >= 0:
                yield from (index, program.owner(index))


def _drop_unused(program: LoweredProgram) -> None:
    """Forget tensors that no step and no boundary names; the others keep their order."""
    kept = sorted(set(_used(program)))
    numbers = {old: new for new, old in enumerate(kept)} | {-1: -1}

    def renumbered(indices: Sequence[int]) -> tuple[int, ...]:
        return tuple(numbers[index] for index in indices)

    program.tensors = [program.tensors[old] for old in kept]
    for tensor in program.tensors:
        tensor.alias = numbers[tensor.alias]
    program.ops = [
        dataclasses.replace(op, inputs=renumbered(op.inputs), outputs=renumbered(op.outputs))
        for op in program.ops
    ]
    program.inputs, program.outputs = (
        list(renumbered(indices)) for indices in (program.inputs, program.outputs)
    )
