# SPDX-License-Identifier: BSD-3-Clause
"""Cases compared with the TOSA reference model, as a table of docs/operator_support.md.

    python tools/oracle_table.py                                     # some 4 minutes
    python tools/oracle_table.py --write docs/operator_support.md

Needs the reference model: tools/test installs it in .venv-tosa. Exits with 1 if a code differs.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
from typing import Any

from tabulate import tabulate

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from tests.oracle.comparison import draw_cases, run_reference
from tests.support import lanes
from tools import support_table

BEGIN, END = "<!-- oracle-table:begin -->", "<!-- oracle-table:end -->"
HEADER = ("Operator", "Codes", "Cases", "Outputs", "Outside TOSA's domain", "Cases that differ")
_COUNTS = ("cases", "outputs", "outside", "differing")


def table(counts: dict[str, dict[str, Any]]) -> str:
    """One line for each row of tests/oracle/plan.py, as Markdown."""
    rows = [
        (*name.rsplit(" ", 1), *(f"{count[key]:,}" for key in _COUNTS))
        for name, count in counts.items()
    ]
    return tabulate(rows, headers=HEADER, tablefmt="github", disable_numparse=True)


def main() -> int:
    """Compare, print the table, and write it where wanted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = run_reference(lanes.tosa_python(), draw_cases(), pathlib.Path(folder))
    text = table(report["counts"])
    sys.stdout.write(text + "\n")
    for detail in report["details"]:
        sys.stderr.write(detail + "\n")
    if options.write is not None:
        page = options.write.read_text()
        options.write.write_text(support_table.replaced(page, text, BEGIN, END))
    return 1 if any(report["mismatches"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
