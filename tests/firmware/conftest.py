# SPDX-License-Identifier: BSD-3-Clause
"""The boards, the reason why a test cannot run on them here, and what workers share."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

from firmware.board import BOARDS

# The boards whose images the tests of the runner take apart; the vectors run on all.
REFERENCE = ("mps2-an385", "mps2-an386")
# 16 KB of RAM: programs made for it, not the vectors.
SMALL = "microbit"

SharedFile = Callable[[str, Callable[[Path], None]], Path]


def require(name: str) -> str:
    """The board's name; skips where its cross compiler or its emulator is missing."""
    problems = BOARDS[name].missing_tools()
    if problems:
        pytest.skip("; ".join(problems))
    return name


@pytest.fixture(params=REFERENCE)
def board(request: pytest.FixtureRequest) -> str:
    """The two reference boards in turn."""
    return require(request.param)


@pytest.fixture(params=[name for name in BOARDS if name != SMALL])
def every_board(request: pytest.FixtureRequest) -> str:
    """Every board that holds the vectors and the models."""
    return require(request.param)


@pytest.fixture(params=[name for name, board in BOARDS.items() if board.is_arm_m])
def arm_board(request: pytest.FixtureRequest) -> str:
    """Every board that has this project's fault handlers."""
    return require(request.param)


@pytest.fixture(scope="session")
def shared_file(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> SharedFile:
    """`shared_file(name, make)`: a file that the first worker to want it makes for all."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "shared"
    folder.mkdir(exist_ok=True)

    def get(name: str, make: Callable[[Path], None]) -> Path:
        path = folder / name
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                fresh = path.with_suffix(".new")
                make(fresh)
                fresh.rename(path)
        return path

    return get
