# SPDX-License-Identifier: BSD-3-Clause
"""Why a node is not claimed, as data."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Reason:
    """One refusal: a stable code, what was got and what is supported, for people and for JSON."""

    code: str
    message: str
    got: str = ""
    supported: str = ""

    def __str__(self) -> str:
        parts = [f"{self.code}: {self.message}"]
        if self.got:
            parts.append(f"got {self.got}")
        if self.supported:
            parts.append(f"supported: {self.supported}")
        return ", ".join(parts)
