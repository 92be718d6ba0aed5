# SPDX-License-Identifier: BSD-3-Clause
"""Compares results of this project with the TOSA reference model.

    python run_reference.py cases.pickle report.json

Runs in the reference model's own virtual environment (numpy and tosa-tools, nothing of ours). Each
case holds `row`, `tosa` (see tests/support/built.py) and `results`: name of an implementation ->
codes. The report counts, per row of the plan, cases and outputs compared, cases outside TOSA's
domain, and for each implementation the cases that differ, with the first of them described.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tosa_graph import OutsideTosaError
from tosa_ops import OPERATORS


def _describe(name: str, case: dict[str, Any], expected: Any, got: Any) -> str:
    where = tuple(int(i) for i in np.argwhere(expected != got)[0])
    settings = {k: v for k, v in case["tosa"].items() if not isinstance(v, np.ndarray)}
    return (
        f"{case['label']}: {name} at {where}: got {got[where]}, "
        f"reference model {expected[where]}; {settings}"
    )


def compare(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """The report on all cases."""
    counts: dict[str, dict[str, int]] = {}
    mismatches: dict[str, int] = {}
    details: list[str] = []
    for case in cases:
        row = {"cases": 0, "outputs": 0, "outside": 0, "differing": 0}
        count = counts.setdefault(case["row"], row)
        results = case["results"]
        shape = next(iter(results.values())).shape
        try:
            expected = OPERATORS[case["tosa"]["kind"]](case["tosa"], shape)
        except OutsideTosaError:
            count["outside"] += 1
            continue
        count["cases"] += 1
        count["outputs"] += expected.size
        wrong = {
            name: got
            for name, got in results.items()
            if got.dtype != expected.dtype or not np.array_equal(got, expected)
        }
        count["differing"] += bool(wrong)
        for name in results:
            mismatches[name] = mismatches.get(name, 0) + (name in wrong)
        details += [_describe(name, case, expected, got) for name, got in wrong.items()]
    return {"counts": counts, "mismatches": mismatches, "details": details[:20]}


def main() -> None:
    """Read the cases, write the report."""
    source, target = sys.argv[1:]
    cases = pickle.loads(Path(source).read_bytes())
    Path(target).write_text(json.dumps(compare(cases), indent=1))


if __name__ == "__main__":
    main()
