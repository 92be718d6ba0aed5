# SPDX-License-Identifier: BSD-3-Clause
"""Cases for fq_tester: payloads with inputs and the outputs a board must give, bit for bit."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

MAGIC = b"FQC2"


@dataclasses.dataclass
class Case:
    """One payload run.

    Arrays are in *stored* order, one per delegate input and output. With `expected_code` other than
    0 (fused_quant::Code) making the plan must fail with it, and `outputs` says nothing.
    `payload_shift` and `arena_shift` move the blocks off their 16-byte alignment. With `is_program`
    the payload is a whole .pte, and arrays are the program's (one output). `isa` asks for an
    instruction set by its number in runtime/isa.h; 0 leaves the choice to the runtime.
    """

    name: str
    payload: bytes
    inputs: Sequence[npt.NDArray[Any]] = ()
    outputs: Sequence[npt.NDArray[Any]] = ()
    expected_code: int = 0
    payload_shift: int = 0
    arena_shift: int = 0
    is_program: bool = False
    isa: int = 0


def pack_case(case: Case) -> bytes:
    """The bytes of one case; the layout is described in src/tester.cpp."""
    blocks = [np.ascontiguousarray(array).tobytes() for array in (*case.inputs, *case.outputs)]
    header = struct.pack(
        "<8I",
        len(case.payload),
        case.payload_shift,
        case.arena_shift,
        case.expected_code,
        len(case.inputs),
        len(case.outputs),
        int(case.is_program),
        case.isa,
    )
    sizes = struct.pack(f"<{len(blocks)}I", *map(len, blocks))
    return b"".join([header, sizes, case.payload, *blocks])


def write_cases(path: Path, cases: Sequence[Case]) -> None:
    """Write the container file."""
    with path.open("wb") as file:
        file.write(MAGIC + struct.pack("<I", len(cases)))
        for case in cases:
            file.write(pack_case(case))
