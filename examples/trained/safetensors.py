# SPDX-License-Identifier: BSD-3-Clause
"""The .safetensors format: eight bytes of length, a JSON header, and the arrays."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch
from torch import Tensor

_TYPES: dict[str, Any] = {"F32": np.dtype("<f4"), "I64": np.dtype("<i8")}


def parse(data: bytes) -> dict[str, Tensor]:
    """Every array by its name. Raises ValueError for types beyond float32 and int64."""
    size = int.from_bytes(data[:8], "little")
    arrays = data[8 + size :]
    found: dict[str, Tensor] = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _TYPES:
            raise ValueError(f"{name}: got {entry['dtype']}, supported: {', '.join(_TYPES)}")
        begin, end = entry["data_offsets"]
        values = np.frombuffer(arrays[begin:end], _TYPES[entry["dtype"]])
        found[name] = torch.from_numpy(values.reshape(entry["shape"]).copy())
    return found
