# SPDX-License-Identifier: BSD-3-Clause
"""Show what a delegate will run: `python -m fused_quant.inspect model.pte [--json]`.

Reads the fused_quant delegates of an ExecuTorch program, or one raw payload. Exits with 1 and a
message if there is nothing to show or it is malformed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import re
import sys
from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from fused_quant import memory_plan
from fused_quant.delegates import SHARED_PREFIX, Boundary, DelegatePayload, extract_delegates
from fused_quant.lowered import LoweredOp, LoweredProgram, LoweredTensor, Storage
from fused_quant.payload import (
    IDENTIFIER,
    PayloadHeader,
    deserialize,
    read_header,
)

# Params that have a column of their own in the table; the others are listed under the operator.
_COLUMN_FIELDS = frozenset(
    (
        "input_zero_point",
        "output_zero_point",
        "zero_point",
        "scale",
        "inverse_scale",
        "multiplier",
        "shift",
        "output_multiplier",
        "output_shift",
        "clamp_min",
        "clamp_max",
    )
)
# Fields that belong together, and the values that need no mention.
_GROUPS = (
    ("kernel", ("kernel_h", "kernel_w"), (1, 1)),
    ("stride", ("stride_h", "stride_w"), (1, 1)),
    ("dilation", ("dilation_h", "dilation_w"), (1, 1)),
    ("pad", ("pad_top", "pad_left", "pad_bottom", "pad_right"), (0, 0, 0, 0)),
)


@dataclasses.dataclass(frozen=True)
class Inspection:
    """A payload's program with what its header says and where it was found.

    boundary: how the codes of the method's inputs and outputs are quantized, if the file says so.
    """

    method: str | None
    delegate: int | None
    header: PayloadHeader
    program: LoweredProgram
    boundary: Boundary = dataclasses.field(default_factory=dict)


def _snake(name: str) -> str:
    return re.sub("([A-Z])", lambda match: "_" + match.group(1).lower(), name)


def params_of(op: LoweredOp) -> dict[str, Any]:
    """The operator's parameters by their names in the schema."""
    return {_snake(name): value for name, value in vars(op.params).items()}


def inspect_payload(
    data: bytes, method: str | None = None, delegate: int | None = None
) -> Inspection:
    """Read one payload. Raises ValueError if it is malformed."""
    return Inspection(method, delegate, read_header(data), deserialize(data))


def inspect_file(data: bytes) -> list[Inspection]:
    """Read every fused_quant delegate of an ExecuTorch program, or a raw payload.

    Raises ValueError if `data` is neither, is malformed, or holds no fused_quant delegate.
    """
    if data[4:8] == IDENTIFIER:
        return [inspect_payload(data)]
    delegates: list[DelegatePayload] = extract_delegates(data)
    if not delegates:
        raise ValueError("no method of this program has a fused_quant delegate")
    return [
        dataclasses.replace(inspect_payload(d.data, d.method, d.delegate), boundary=d.boundary)
        for d in delegates
    ]


def _tensor_json(tensor: LoweredTensor) -> dict[str, Any]:
    result: dict[str, Any] = {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "dim_order": list(tensor.dim_order) or list(range(len(tensor.shape))),
        "storage": tensor.storage.value,
        "location": tensor.location,
        "key": tensor.key or None,
        "view_of": None if tensor.alias < 0 else tensor.alias,
        "bytes": tensor.nbytes,
    }
    if tensor.qparams is not None:
        result["quantization"] = dataclasses.asdict(tensor.qparams)
    return result


def _constant_bytes(program: LoweredProgram, op: LoweredOp) -> int:
    return sum(
        program.tensors[index].nbytes
        for index in op.inputs
        if index >= 0 and program.tensors[index].storage is Storage.CONSTANT
    )


def totals(inspection: Inspection) -> dict[str, int]:
    """Sizes and work of one run. A constant used by several operators counts once.

    `constant_bytes` are inside the payload, `shared_bytes` outside, where other payloads use them.
    """
    program = inspection.program
    return {
        "payload_bytes": inspection.header.payload_bytes,
        "constant_bytes": inspection.header.constant_bytes,
        "shared_bytes": inspection.header.shared_bytes,
        "arena_bytes": program.arena_bytes,
        "arena_lower_bound": memory_plan.report(program).lower_bound,
        "scratch_bytes": program.scratch_bytes,
        "persistent_bytes": program.persistent_bytes,
        "macs": sum(op.macs for op in program.ops),
    }


def to_json(inspection: Inspection) -> dict[str, Any]:
    """Everything in the payload but the constants' values."""
    program = inspection.program
    return {
        "method": inspection.method,
        "delegate": inspection.delegate,
        "format_version": inspection.header.format_version,
        "producer": inspection.header.producer,
        "target": inspection.header.target,
        "boundary": inspection.boundary,
        "totals": totals(inspection),
        "inputs": program.inputs,
        "outputs": program.outputs,
        "tensors": [_tensor_json(tensor) for tensor in program.tensors],
        "ops": [
            {
                "op": op.opcode,
                "name": op.name,
                "inputs": list(op.inputs),
                "outputs": list(op.outputs),
                "params": params_of(op),
                "constant_bytes": _constant_bytes(program, op),
                "macs": op.macs,
            }
            for op in program.ops
        ],
    }


def _number(value: float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _summary(values: Sequence[float]) -> str:
    """One value, or `min..max (count)`; a single number if all are the same."""
    if not values:
        return ""
    low, high = min(values), max(values)
    text = _number(low) if low == high else f"{_number(low)}..{_number(high)}"
    return text if len(values) == 1 else f"{text} ({len(values)})"


def _place(tensor: LoweredTensor) -> str:
    if tensor.key:
        return f"shared {_short(tensor.key)}"
    mark = {"arena": "arena +", "constant": "const #"}.get(tensor.storage.value)
    return f"{mark or tensor.storage.value + ' '}{tensor.location}"


def _short(key: str) -> str:
    """The beginning of a shared constant's digest: enough to tell keys apart by eye."""
    return key.removeprefix(SHARED_PREFIX)[:8]


def _shared_lines(program: LoweredProgram) -> list[str]:
    """What the payload does not hold itself."""
    sizes = {tensor.key: tensor.nbytes for tensor in program.tensors if tensor.key}
    return [f"shared {_short(key)}: {size:,} bytes, key {key}" for key, size in sizes.items()]


def _boundary_lines(boundary: Boundary) -> list[str]:
    """The method's inputs and outputs that are codes."""
    return [
        re.sub(r"(\d+)", r" \1", name) + f": {found.get('dtype')}, scale "
        f"{_number(found.get('scale', ''))}, zero point {found.get('zp')}, codes "
        f"{found.get('quant_min')}..{found.get('quant_max')}"
        for name, found in sorted(boundary.items())
    ]


def _operand_cells(role: str, tensor: LoweredTensor) -> tuple[str, ...]:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    scale = zero_point = ""
    if tensor.qparams is not None:
        scale, zero_point = _summary(tensor.qparams.scale), _summary(tensor.qparams.zero_point)
    return role, f"{tensor.dtype} {shape}", scale, zero_point, _place(tensor), str(tensor.nbytes)


def _attributes(params: dict[str, Any]) -> list[str]:
    """The parameters without a column of their own, neutral ones left out."""
    words = []
    grouped: set[str] = set()
    for label, fields, neutral in _GROUPS:
        grouped.update(fields)
        values = tuple(
            params.get(field, default) for field, default in zip(fields, neutral, strict=True)
        )
        if values != neutral:
            words.append(f"{label} {','.join(map(str, values))}")
    for name, value in params.items():
        neutral_value = 1 if name == "groups" else 0
        if name in grouped or name in _COLUMN_FIELDS or value in ([], False, neutral_value):
            continue
        if isinstance(value, list):
            if not any(item is not False for item in value):  # negate: no operand is
                continue
            value = ",".join(str(int(item)) for item in value)
        words.append(f"{name} {'' if value is True else value}".strip())
    return words


def _functions(op: LoweredOp) -> list[str]:
    """What a table holds, innermost function first."""
    return op.name.replace(" + ", " +\n").split("\n") if op.opcode == "lut" else []


def _rescale_cells(params: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Multipliers and shifts: one line each, the output's after the operands'."""
    multipliers, shifts = [], []
    vector = params.get("multiplier", [])
    vector = vector if isinstance(vector, list) else [vector]
    shift = params.get("shift", [])
    shift = shift if isinstance(shift, list) else [shift]
    if vector:
        multipliers.append(_summary(vector))
        shifts.append(_summary(shift))
    if params.get("output_multiplier"):
        multipliers.append(f"out {params['output_multiplier']}")
        shifts.append(f"out {params['output_shift']}")
    return multipliers, shifts


def _op_rows(number: int, op: LoweredOp, program: LoweredProgram) -> list[list[str]]:
    """The lines of one operator: its attributes on the left, its operands beside them."""
    operands = [_operand_cells("in", program.tensors[i]) for i in op.inputs if i >= 0]
    operands += [_operand_cells("out", program.tensors[i]) for i in op.outputs]
    params = params_of(op)
    low, high = params.get("clamp_min", 0), params.get("clamp_max", 0)
    columns: list[list[str]] = [
        [str(number)],
        [op.opcode, *_functions(op), *_attributes(params)],
        *map(list, zip(*operands, strict=True)),
        *_rescale_cells(params),
        [f"{low}..{high}"] if (low, high) != (0, 0) else [],
        [str(_constant_bytes(program, op) or "")],
        [str(op.macs or "")],
    ]
    height = max(map(len, columns))
    padded = [column + [""] * (height - len(column)) for column in columns]
    return [list(row) for row in zip(*padded, strict=True)]


_COLUMNS = {
    "#": "right",
    "operator": "left",
    "": "left",
    "tensor": "left",
    "scale": "left",
    "zero point": "left",
    "place": "left",
    "bytes": "right",
    "multiplier": "left",
    "shift": "left",
    "clamp": "left",
    "const": "right",
    "MACs": "right",
}


def to_text(inspection: Inspection) -> str:
    """The program as a table, and totals. Per-channel values appear as min..max (count)."""
    program, header = inspection.program, inspection.header
    rows = []
    for number, op in enumerate(program.ops):
        rows += _op_rows(number, op, program)
    table = tabulate(
        rows,
        headers=list(_COLUMNS),
        colalign=tuple(_COLUMNS.values()) if rows else None,
        disable_numparse=True,
    )
    where = "payload"
    if inspection.method is not None:
        where = f"method {inspection.method}, delegate {inspection.delegate}"
    figures = totals(inspection)
    beside = f", shared beside it {figures['shared_bytes']:,}" if figures["shared_bytes"] else ""
    return "\n".join(
        [
            f"{where}: format {header.format_version}, made by {header.producer or 'unknown'}, "
            f"target {header.target or 'unknown'}",
            *_boundary_lines(inspection.boundary),
            "",
            table,
            "",
            f"{len(program.ops)} operators, {figures['macs']:,} MACs",
            f"payload {figures['payload_bytes']:,} bytes, of which constants "
            f"{figures['constant_bytes']:,}{beside}",
            f"arena {figures['arena_bytes']:,} bytes (lower bound "
            f"{figures['arena_lower_bound']:,}), scratch {figures['scratch_bytes']:,}, "
            f"persistent at most "
            f"{figures['persistent_bytes']:,}",
            *_shared_lines(program),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m fused_quant.inspect",
        description="Show the operators, quantization and memory of fused_quant delegates.",
    )
    parser.add_argument("file", type=pathlib.Path, help="an ExecuTorch program (.pte) or a payload")
    parser.add_argument("--json", action="store_true", help="print everything, as JSON")
    options = parser.parse_args(arguments)
    try:
        found = inspect_file(options.file.read_bytes())
    except (OSError, ValueError) as error:
        print(f"{options.file}: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps([to_json(inspection) for inspection in found], indent=1))
    else:
        print("\n\n".join(map(to_text, found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
