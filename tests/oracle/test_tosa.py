# SPDX-License-Identifier: BSD-3-Clause
"""Integer numerics and scalar kernels against an independent program, the TOSA reference model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.oracle.comparison import FACTOR, SEED, draw_cases, run_reference
from tests.oracle.plan import PLAN
from tests.support import lanes
from tests.support.builders import build
from tools import oracle_table, support_table

REQUIRED_CASES = 15000
# Large ratios push accumulators out of RESCALE's domain, |acc| < 2^(shift - 1).
LARGEST_OUTSIDE_SHARE = 0.02
LEAST = 200  # cases within TOSA's domain, of each row of the plan


@pytest.mark.slow
def test_numerics_and_kernels_equal_the_tosa_reference_model(tmp_path: Path) -> None:
    python = lanes.tosa_python()
    report = run_reference(python, draw_cases(), tmp_path)
    counts = report["counts"]
    print(json.dumps(report["counts"], indent=1))
    assert report["mismatches"] == {"numerics.py": 0, "scalar kernel": 0}, report["details"]
    compared = sum(count["cases"] for count in counts.values())
    outside = sum(count["outside"] for count in counts.values())
    assert compared >= REQUIRED_CASES * FACTOR
    assert outside <= LARGEST_OUTSIDE_SHARE * (compared + outside)
    for name in PLAN:
        assert counts[name]["cases"] >= LEAST * FACTOR, name


def test_comparison_sees_a_single_wrong_code(tmp_path: Path) -> None:
    """The lane itself: each kind of operator, one output changed by one, must be reported."""
    python = lanes.tosa_python()
    cases, expected = [], 0
    for name, row in PLAN.items():
        for index in range(3):
            rng = np.random.default_rng([SEED, index])
            built = build(row.opcode, {**row.parameters(rng), "style": "typical"}, seed=index)
            wrong = built.expected.copy()
            last = (-1,) * wrong.ndim
            wrong[last] += 1 if wrong[last] < 127 else -1
            results = {"right": built.expected, "wrong": wrong}
            label = f"{name} {index}"
            cases.append({"label": label, "row": name, "tosa": built.tosa, "results": results})
    report = run_reference(python, cases, tmp_path)
    expected = sum(count["cases"] for count in report["counts"].values())
    assert expected >= 2 * len(PLAN)
    assert report["mismatches"] == {"right": 0, "wrong": expected}


def test_the_document_lists_every_row_and_no_difference() -> None:
    text = (lanes.REPO / "docs" / "operator_support.md").read_text()
    table = support_table.between_markers(text, oracle_table.BEGIN, oracle_table.END)
    assert table is not None
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    names = [f"{operator} {codes}" for operator, codes, *_ in cells]
    assert names == list(PLAN)
    assert all(int(cases.replace(",", "")) >= LEAST for _, _, cases, *_ in cells)
    assert {differing for *_, differing in cells} == {"0"}
