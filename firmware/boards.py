# SPDX-License-Identifier: BSD-3-Clause
"""The boards that images are built for and run on: firmware/boards/<name>.cmake is one's build."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from firmware.tools import BoardError, find_tool, missing_tools

_HEADLESS = ("-display", "none", "-serial", "none", "-monitor", "none")
# 128 ns per instruction, whatever the host does: instruction counts are exact.
_COUNTED = ("-icount", "shift=7")


@dataclasses.dataclass(frozen=True)
class Board:
    """How to run an image, and what the core is.

    `machine` are QEMU's options for the machine; `tools` is the prefix of the cross compiler.
    """

    core: str
    machine: tuple[str, ...]
    tools: str = "arm-none-eabi-"
    emulator: str = "qemu-system-arm"

    @property
    def is_bare_metal(self) -> bool:
        """Whether images have sections, a stack and counters of their own."""
        return bool(self.machine)

    @property
    def is_arm_m(self) -> bool:
        """Whether start-up, faults and semihosting are those of firmware/arch/arm_m."""
        return self.emulator == "qemu-system-arm"

    def missing_tools(self) -> list[str]:
        """What keeps this board's images from being built and run here."""
        names = [f"{self.tools}{name}" for name in ("g++", "size", "nm")]
        return missing_tools([*names, self.emulator, "cmake", "ninja"])

    def command(self, elf: str, arguments: Sequence[str]) -> list[str]:
        """The emulator's command line."""
        emulator = find_tool(self.emulator)
        if not self.is_bare_metal:
            return [emulator, elf, *arguments]
        words = ["enable=on", "target=native", *(f"arg={word}" for word in arguments)]
        if not self.is_arm_m:  # Xtensa's program name is not added by QEMU when words are given
            words = words[:2] + [f"arg={word}" for word in (elf, *arguments)]
        semihosting = ("-semihosting-config", ",".join(words))
        return [emulator, *self.machine, *_COUNTED, *_HEADLESS, *semihosting, "-kernel", elf]


def _arm(core: str, machine: str) -> Board:
    return Board(core, ("-machine", machine))


BOARDS = {
    "mps2-an385": _arm("Cortex-M3", "mps2-an385"),
    "mps2-an386": _arm("Cortex-M4 with FPU", "mps2-an386"),
    "mps2-an500": _arm("Cortex-M7", "mps2-an500"),
    "mps2-an505": _arm("Cortex-M33", "mps2-an505"),
    "mps3-an547": _arm("Cortex-M55", "mps3-an547"),
    "cortex-m0": _arm("Cortex-M0 code on a Cortex-M3", "mps2-an385"),
    "microbit": _arm("Cortex-M0", "microbit"),
    "kc705-lx106": Board(
        "Xtensa lx106",
        ("-machine", "kc705-nommu", "-cpu", "lx106", "-m", "128M"),
        "xtensa-lx106-elf-",
        "qemu-system-xtensa",
    ),
    "aarch64-linux": Board("64-bit Arm, Linux", (), "aarch64-linux-gnu-", "qemu-aarch64"),
}


def find_board(name: str) -> Board:
    """The board of that name, or a BoardError that lists them."""
    if name not in BOARDS:
        raise BoardError(f"no board named {name!r}; there are {', '.join(BOARDS)}")
    return BOARDS[name]
