# SPDX-License-Identifier: BSD-3-Clause
"""The payloads inside an ExecuTorch program, with the constants that the program keeps for them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from fused_quant.payload_check import require

BACKEND_ID = "FusedQuantBackend"
SHARED_PREFIX = "fused_quant/"  # of the keys of constants that payloads share

_EXECUTORCH_IDENTIFIER = b"ET12"
# Methods that return a parameter of the boundary, as `integer_io` and ExecuTorch name them.
_PARAMETER = re.compile(r"(?:(.+)_)?((?:input|output)\d+)_(scale|zp|quant_min|quant_max|dtype)")
_DTYPES = {0: "uint8", 1: "int8", 2: "int16", 3: "int32"}  # by ExecuTorch's number

# Parameters by field, of each input and output that takes codes: "input0", "output0", ...
Boundary = dict[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class DelegatePayload:
    """One fused_quant delegate of an ExecuTorch program.

    `constants` are those that the program keeps for all of its payloads, by key. `boundary`: of the
    method's inputs and outputs, where the program says how their codes are quantized.
    """

    method: str
    delegate: int
    data: bytes
    constants: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    boundary: Boundary = dataclasses.field(default_factory=dict)


def shared_constants(named_data: Any) -> dict[str, bytes]:
    """The constants that an ExecuTorch program (its NamedDataStoreOutput) keeps for payloads."""
    if named_data is None:
        return {}
    return {
        key: bytes(named_data.buffers[entry.buffer_index])
        for key, entry in named_data.pte_data.items()
        if key.startswith(SHARED_PREFIX)
    }


def _boundary(program: Any, method: str) -> Boundary:
    """What constant methods say about a method's inputs and outputs."""
    boundary: Boundary = {}
    for plan in program.execution_plan:
        match = _PARAMETER.fullmatch(plan.name)
        if match is None or match[1] not in (None, method) or len(plan.outputs) != 1:
            continue
        stored = plan.values[plan.outputs[0]].val
        value = getattr(stored, "double_val", getattr(stored, "int_val", None))
        if match[3] == "dtype":
            value = _DTYPES.get(value, str(value))  # type: ignore[arg-type]
        boundary.setdefault(match[2], {})[match[3]] = value
    return boundary


def _find_delegates(pte: bytes) -> list[DelegatePayload]:
    # Imported here: it brings in torch, which a reader of plain payloads does not need.
    from executorch.exir._serialize._program import deserialize_pte_binary

    file = deserialize_pte_binary(pte)
    program = file.program  # delegate data is inline after this
    constants = shared_constants(file.named_data)
    return [
        DelegatePayload(
            plan.name,
            position,
            bytes(program.backend_delegate_data[delegate.processed.index].data),
            constants,
            _boundary(program, plan.name),
        )
        for plan in program.execution_plan
        for position, delegate in enumerate(plan.delegates)
        if delegate.id == BACKEND_ID
    ]


def extract_delegates(pte: bytes) -> list[DelegatePayload]:
    """The fused_quant delegates of an ExecuTorch program, by method and position.

    Raises ValueError if `pte` is not a program that this version of ExecuTorch reads.
    """
    found = pte[4:8]
    require(
        found == _EXECUTORCH_IDENTIFIER,
        "ExecuTorch program identifier",
        found,
        str(_EXECUTORCH_IDENTIFIER),
    )
    try:
        return _find_delegates(pte)
    except Exception as error:  # ExecuTorch's deserializer trusts its input and may raise anything
        raise ValueError(
            f"malformed ExecuTorch program of {len(pte)} bytes: {type(error).__name__}: {error}"
        ) from error


def extract_payloads(pte: bytes) -> list[bytes]:
    """The payloads of the fused_quant delegates of an ExecuTorch program, in execution-plan order.

    Raises ValueError if `pte` is not a program that this version of ExecuTorch reads.
    """
    return [delegate.data for delegate in extract_delegates(pte)]
