# SPDX-License-Identifier: BSD-3-Clause
"""The programs that building and running firmware needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

_PACKAGES = {
    "arm-none-eabi-g++": "the Debian packages gcc-arm-none-eabi libnewlib-arm-none-eabi "
    "libstdc++-arm-none-eabi-newlib",
    "arm-none-eabi-size": "the Debian package binutils-arm-none-eabi",
    "arm-none-eabi-nm": "the Debian package binutils-arm-none-eabi",
    "qemu-system-arm": "the Debian package qemu-system-arm",
    "xtensa-lx106-elf-g++": "the Debian packages gcc-xtensa-lx106 picolibc-xtensa-lx106-elf",
    "xtensa-lx106-elf-size": "the Debian package binutils-xtensa-lx106",
    "xtensa-lx106-elf-nm": "the Debian package binutils-xtensa-lx106",
    "qemu-system-xtensa": "the Debian package qemu-system-misc",
    "aarch64-linux-gnu-g++": "the Debian package g++-aarch64-linux-gnu",
    "aarch64-linux-gnu-size": "the Debian package binutils-aarch64-linux-gnu",
    "aarch64-linux-gnu-nm": "the Debian package binutils-aarch64-linux-gnu",
    "qemu-aarch64": "the Debian package qemu-user",
    "cmake": "the Python package cmake (3.28 or later)",
    "ninja": "the Python package ninja",
}


class BoardError(RuntimeError):
    """A board's image could not be built, or did not run to a good end."""


def find_tool(name: str) -> str:
    """Path of a program, next to this Python first. BoardError names the package it comes with."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise BoardError(f"'{name}' is not installed; install {_PACKAGES[name]}")
    return found


def missing_tools(names: Iterable[str] = tuple(_PACKAGES)) -> list[str]:
    """Which of these programs are not installed, as sentences; empty if all are."""
    problems = []
    for name in names:
        try:
            find_tool(name)
        except BoardError as error:
            problems.append(str(error))
    return problems


def run_tool(command: Sequence[str | Path]) -> str:
    """Run a program to its end; returns its output. BoardError holds the output if it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise BoardError(
            f"exit code {done.returncode} of {' '.join(map(str, command))}:\n{done.stdout}"
        )
    return done.stdout
