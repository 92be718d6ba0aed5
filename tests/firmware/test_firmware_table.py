# SPDX-License-Identifier: BSD-3-Clause
"""tools/firmware_table.py: a line of its table."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from examples import mlperf_tiny
from firmware.board import BoardError
from fused_quant import native
from fused_quant.payload import serialize
from tests.firmware.conftest import SMALL, require
from tests.firmware.pte_files import pte_of
from tests.firmware.test_runner import logical, random_inputs, tiny_net
from tests.support import lanes
from tools import firmware_table, support_table

pytestmark = pytest.mark.firmware


def test_a_row(tmp_path: Path) -> None:
    program = tiny_net()
    path = tmp_path / "tiny.pte"
    path.write_bytes(pte_of(program))
    (stored,) = random_inputs(program, 0)
    (output,) = native.run_payload(serialize(program), [stored])
    x = logical(stored, program.tensors[program.inputs[0]])
    expected = logical(output, program.tensors[program.outputs[0]])
    line = firmware_table.row("tiny", require(SMALL), path, x, expected)
    assert line[:2] == ("tiny", SMALL)
    figures = [int(cell.replace(",", "")) for cell in line[2:]]
    instructions, flash, pte, ram, arena, stack = figures
    assert 3_780 < instructions < 1_000_000
    assert 0 < pte < flash < 262_144
    assert 0 < arena < ram < 16_384
    assert 0 < stack <= 1024
    wrong = np.bitwise_xor(expected, 1)
    with pytest.raises(BoardError, match="tiny on microbit: other outputs"):
        firmware_table.row("tiny", SMALL, path, x, wrong)


def test_the_document_has_a_line_for_every_model_and_board() -> None:
    text = (lanes.REPO / "docs" / "firmware.md").read_text()
    table = support_table.between_markers(text, firmware_table.BEGIN, firmware_table.END)
    assert table is not None
    header, _, *lines = [
        [c.strip() for c in row.strip("|").split("|")] for row in table.split("\n")
    ]
    assert tuple(header) == firmware_table.HEADER
    models = ("digits", *mlperf_tiny.LOADERS)
    assert [tuple(line[:2]) for line in lines] == list(
        itertools.product(models, firmware_table.counted_boards())
    )
    for line in lines:  # RAM is too small for four models there
        assert line[2] == "does not fit" or int(line[2].replace(",", "")) > 1_000_000
        assert line[2] != "does not fit" or line[1] == SMALL
