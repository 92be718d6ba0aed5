# SPDX-License-Identifier: BSD-3-Clause
"""Constants that several payloads of one program have in common are stored once, in the program.

Such a constant is known by the SHA-256 of its bytes: its key is "fused_quant/" and the digest in
hexadecimal. ExecuTorch writes it as named data, and the loader asks for it by that key.
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Iterator, Sequence

from fused_quant.delegates import SHARED_PREFIX
from fused_quant.lowered import LoweredProgram, LoweredTensor, Storage
from fused_quant.payload import serialize, stored_bytes

# A smaller one stays inside: its key alone is longer.
MIN_SHARED_BYTES = 64


def key_of(data: bytes) -> str:
    """The key of a shared constant."""
    return SHARED_PREFIX + hashlib.sha256(data).hexdigest()


def _constants(program: LoweredProgram) -> Iterator[LoweredTensor]:
    for tensor in program.tensors:
        if tensor.storage is Storage.CONSTANT and tensor.nbytes >= MIN_SHARED_BYTES:
            yield tensor


def share_constants(programs: Sequence[LoweredProgram]) -> list[dict[str, bytes]]:
    """Give a key to every constant that at least two different payloads of `programs` hold.

    Equal payloads count as one, since ExecuTorch stores those once anyway. Returns the shared
    constants of each program by key; a program that has none is left as it was.
    """
    if len(programs) < 2:
        return [{} for _ in programs]
    different = {serialize(program): program for program in programs}
    holders: collections.Counter[bytes] = collections.Counter()
    for program in different.values():
        holders.update({stored_bytes(tensor) for tensor in _constants(program)})
    shared: list[dict[str, bytes]] = []
    for program in programs:
        kept: dict[str, bytes] = {}
        for tensor in _constants(program):
            data = stored_bytes(tensor)
            if holders[data] > 1:
                tensor.key = key_of(data)
                kept[tensor.key] = data
        shared.append(kept)
    return shared
