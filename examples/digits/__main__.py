# SPDX-License-Identifier: BSD-3-Clause
"""`python -m examples.digits`: the main job from training to a Cortex-M4, and a table of it."""

from __future__ import annotations

import argparse
import pathlib
import sys


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.digits",
        description="Trains a small CNN on real digits, quantizes and lowers it to digits.pte, and "
        "runs the test set in PyTorch, in ExecuTorch on this machine, and on an emulated Cortex-M. "
        "Exits with 1 unless all three agree bit for bit.",
    )
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("out"), help="folder for digits.pte (out)"
    )
    parser.add_argument(
        "--board", default="mps2-an386", help="board to emulate (mps2-an386, a Cortex-M4)"
    )
    parser.add_argument(
        "--no-firmware", action="store_true", help="skip the board: needs no cross compiler or QEMU"
    )
    parser.add_argument(
        "--samples", type=int, metavar="N", help="test images to run (all 450), at least 1"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON, not a table")
    arguments = parser.parse_args()
    if arguments.samples is not None and arguments.samples < 1:
        parser.error(f"--samples is {arguments.samples}, must be at least 1")
    return arguments


def main() -> int:
    """Parse the arguments and run; the heavy imports come after the filters for their messages."""
    arguments = _arguments()
    from examples.quiet import quieten

    quieten()
    from examples.digits import demo

    report = demo.run(
        out=arguments.out,
        board=None if arguments.no_firmware else arguments.board,
        samples=arguments.samples,
    )
    print(report.as_json() if arguments.json else report.as_table())
    return 0 if report.identical else 1


if __name__ == "__main__":
    sys.exit(main())
