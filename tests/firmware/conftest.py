# SPDX-License-Identifier: BSD-3-Clause
"""The boards, and the reason why a test cannot run on them here."""

from __future__ import annotations

import pytest

from firmware.board import BOARDS
from firmware.tools import missing_tools


@pytest.fixture(params=sorted(BOARDS))
def board(request: pytest.FixtureRequest) -> str:
    """Every board in turn; skips where the cross compiler or the emulator is missing."""
    problems = missing_tools()
    if problems:
        pytest.skip("; ".join(problems))
    name: str = request.param
    return name
