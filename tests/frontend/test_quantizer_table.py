# SPDX-License-Identifier: BSD-3-Clause
"""The table of other quantizers' graphs in the documentation is what the partitioner does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tools import quantizer_table, support_table

torch.set_num_threads(1)

PAGE = Path(__file__).parents[2] / "docs" / "quantization.md"
# The large models' rows take minutes; one model with everything claimed, and one line of another.
CHECKED = [("ds_cnn", name) for name in quantizer_table.QUANTIZERS] + [("encoder", "fused_quant")]


def _shown() -> list[str]:
    text = support_table.between_markers(
        PAGE.read_text(), quantizer_table.BEGIN, quantizer_table.END
    )
    assert text is not None
    return text.splitlines()


def test_every_pair_has_a_row() -> None:
    rows = [line.split(" | ")[:2] for line in _shown()[2:]]
    pairs = [[f"| {m}", q] for m in quantizer_table.MODELS for q in quantizer_table.QUANTIZERS]
    assert rows == pairs


@pytest.mark.parametrize(("model", "quantizer"), CHECKED)
def test_row(model: str, quantizer: str) -> None:
    row = quantizer_table.table([quantizer_table.row(model, quantizer)]).splitlines()[-1]
    assert row in _shown(), "run: python tools/quantizer_table.py --write docs/quantization.md"
