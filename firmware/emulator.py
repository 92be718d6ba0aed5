# SPDX-License-Identifier: BSD-3-Clause
"""Runs an image under QEMU. Only an image that says so itself has passed."""

from __future__ import annotations

import dataclasses
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from firmware.boards import find_board
from firmware.tools import BoardError

_PREFIX = "FQ "


@dataclasses.dataclass(frozen=True)
class Log:
    """What an image printed. `lines` holds its report lines as key -> value."""

    text: str
    lines: tuple[dict[str, str], ...]

    @property
    def verdict(self) -> str | None:
        """The last verdict, or None if the image never gave one."""
        return next((line["verdict"] for line in reversed(self.lines) if "verdict" in line), None)

    def value(self, key: str) -> int:
        """The number reported last under `key`. BoardError if there is none."""
        for line in reversed(self.lines):
            if key in line:
                return int(line[key], 0)
        raise BoardError(f"the image did not report '{key}':\n{self.text}")


def parse_line(text: str) -> dict[str, str] | None:
    """The fields of a report line: "FQ key=value key=value"; None for any other line.

    The last value may hold blanks: words without "=" belong to the value before them.
    """
    if not text.startswith(_PREFIX):
        return None
    fields: dict[str, str] = {}
    key = ""
    for word in text[len(_PREFIX) :].split():
        name, equals, value = word.partition("=")
        if equals:
            key = name
            fields[key] = value
        elif key:
            fields[key] += " " + word
    return fields


def run_image(
    board: str,
    elf: Path,
    folder: Path,
    arguments: Sequence[str] = (),
    timeout_s: float = 600.0,
    on_line: Callable[[dict[str, str]], None] | None = None,
) -> Log:
    """Run `elf` with the working directory `folder` until it exits; its files are there.

    Returns the log of an image that gave the verdict "ok" or "failed" and exited accordingly.
    BoardError with the whole log for anything else: a fault, no verdict, the time limit, or an exit
    code that contradicts the verdict. `on_line` sees every report line as it comes.
    """
    command = find_board(board).command(str(elf.resolve()), arguments)
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    timed_out = threading.Event()

    def stop() -> None:
        timed_out.set()
        process.kill()

    timer = threading.Timer(timeout_s, stop)
    timer.start()
    text: list[str] = []
    lines: list[dict[str, str]] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            text.append(line)
            fields = parse_line(line.rstrip("\n"))
            if fields is not None:
                lines.append(fields)
                if on_line is not None:
                    on_line(fields)
        code = process.wait()
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    log = Log("".join(text), tuple(lines))
    if timed_out.is_set():
        problem = f"no end within {timeout_s:g} s"
    elif log.verdict is None:
        problem = f"no verdict (exit code {code})"
    elif (log.verdict, code) not in {("ok", 0), ("failed", 1)}:
        problem = f"verdict '{log.verdict}', exit code {code}"
    else:
        return log
    raise BoardError(f"{elf.name} on {board}: {problem}; command {command}; log:\n{log.text}")
