# SPDX-License-Identifier: BSD-3-Clause
"""Instructions, flash, RAM and stack of whole models on every board, as docs/firmware.md's table.

    python tools/firmware_table.py                               # print the table; some 20 minutes
    python tools/firmware_table.py --write docs/firmware.md
    python tools/firmware_table.py --boards microbit --models digits

Each program also has to give the bits of the fused program in eager mode, or the tool stops.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tabulate import tabulate
from tqdm import tqdm

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from examples import pipeline
from firmware.board import BOARDS, BoardError, build_runner, run
from tests.models.conftest import built, mlperf_tiny_names
from tools import support_table

BEGIN, END = "<!-- firmware-table:begin -->", "<!-- firmware-table:end -->"
HEADER = ("Model", "Board", "Instructions", "Flash", "of it .pte", "RAM", "of it arena", "Stack")
# The linker's words for an image that is larger than the board's memory.
_TOO_LARGE = "overflowed by"

Row = tuple[str, ...]


def counted_boards() -> tuple[str, ...]:
    """The boards whose instructions are counted and whose stack is measured."""
    return tuple(name for name, board in BOARDS.items() if board.is_bare_metal)


def row(
    model: str,
    board: str,
    pte: pathlib.Path,
    inputs: npt.NDArray[np.generic],
    expected: npt.NDArray[np.generic],
) -> Row:
    """One line of the table: one inference of a .pte with one input and one output."""
    try:
        image = build_runner(board, pte)
    except BoardError as error:
        if _TOO_LARGE not in str(error):
            raise
        return (model, board, "does not fit", *[""] * (len(HEADER) - 3))
    result = run(image, [[inputs]])
    if result.outputs[0][0].tobytes() != np.ascontiguousarray(expected).tobytes():
        raise BoardError(f"{model} on {board}: other outputs than in eager mode")
    figures = (
        *(result.instructions, image.flash_bytes, image.model_bytes),
        *(image.ram_bytes, image.arena_bytes, result.stack_bytes),
    )
    return (model, board, *(f"{value:,}" for value in figures))


def rows(models: Sequence[str], boards: Sequence[str]) -> list[Row]:
    """The lines of models of tests/models, named as there, but for the word trained."""
    found = []
    pairs = [(model, board) for model in models for board in boards]
    with tempfile.TemporaryDirectory() as folder:
        for model, board in tqdm(pairs, "images", leave=False):
            lowered = built(model)
            (x, *_) = lowered.inputs
            expected = pipeline.run_eager(lowered.fused, [x], "eager", progress=False)
            pte = lowered.write(pathlib.Path(folder))
            name = model.removesuffix("-trained")
            found.append(row(name, board, pte, x.numpy(), expected.numpy()))
    return found


def table(found: Sequence[Row]) -> str:
    """The lines as Markdown."""
    align = ("left", "left", *["right"] * (len(HEADER) - 2))
    return tabulate(found, HEADER, "github", colalign=align, disable_numparse=True)


def main() -> int:
    """Print the table, and write it where wanted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    models = ("digits", *mlperf_tiny_names())
    parser.add_argument("--models", nargs="+", choices=models, default=models)
    parser.add_argument("--boards", nargs="+", choices=counted_boards(), default=counted_boards())
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    text = table(rows(options.models, options.boards))
    sys.stdout.write(text + "\n")
    if options.write is not None:
        page = options.write.read_text()
        options.write.write_text(support_table.replaced(page, text, BEGIN, END))
    return 0


if __name__ == "__main__":
    sys.exit(main())
