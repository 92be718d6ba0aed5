# SPDX-License-Identifier: BSD-3-Clause
"""ExecuTorch's operator tests through the delegate, as the table of docs/operator_support.md.

    python tools/operator_suite.py                                     # run one test per operator
    python tools/operator_suite.py --all                               # run every test: 467
    python tools/operator_suite.py --write docs/operator_support.md    # and write the table

Exits with 1 if a test fails, or if an operator that is not in the delegate has no reason here.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from tools import support_table

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUITE = "executorch.backends.test.suite.operators"
PER_OPERATOR = "dtype"
_BEGIN, _END = "<!-- operator-suite:begin -->", "<!-- operator-suite:end -->"

_VOLUME = "three-dimensional pools have no kernel"
_BROKEN = "skipped by the suite for every backend: the shapes of its model and inputs do not fit"
_PORTABLE = "skipped by the suite, which lists the operator as one the portable kernels lack"
# Test -> why not everything it computes runs in the delegate.
REASONS = {
    "test_adaptive_avgpool3d_dtype": _VOLUME,
    "test_adaptive_maxpool3d_dtype": _VOLUME,
    "test_avgpool3d_dtype": _VOLUME,
    "test_maxpool3d_dtype": _VOLUME,
    "test_linear_dtype": _BROKEN,
    "test_linear_no_bias_dtype": _BROKEN,
    "test_conv3d_dtype": "skipped by the suite, which knows no kernel for it; tested by ours",
    "test_convtranspose3d_dtype": "no kernel; skipped by the suite for every backend",
    "test_embedding_bag_dtype": _PORTABLE,
    "test_median_dtype": _PORTABLE,
    "test_index_put_dtype": "indices and values are inputs of the program",
    "test_index_put_in_place_dtype": "indices and values are inputs of the program",
    "test_index_select_dtype": "the indices are an input of the program",
    "test_argmin_dtype": "no kernel",
    "test_masked_fill_dtype": "the mask is an input of the program, of type bool",
    "test_mean_output_dtype": "it asks for results of float16 and float64, which are no codes",
}


def run(arguments: Sequence[str], report: pathlib.Path) -> tuple[int, str]:
    """Run the suite; exit code and output. The report holds a record of every call."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "fused_quant.testing.suite_plugin", "-m", "backend_fused_quant"]
    command += ["--fused-quant-report", str(report), *arguments]
    # Not in the checkout: its pytest settings are not meant for the tests of others.
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        command,
        cwd=report.parent,
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def is_whole(record: dict[str, Any]) -> bool:
    """Everything the test computes ran in delegate calls."""
    return record["result"] == "SUCCESS" and bool(record["delegated"]) and not record["left"]


def outcome(records: list[dict[str, Any]]) -> dict[str, bool]:
    """Test -> whether all of its calls ran wholly in the delegate."""
    tests: dict[str, bool] = {}
    for record in records:
        tests[record["test"]] = tests.get(record["test"], True) and is_whole(record)
    return tests


def table(tests: dict[str, bool]) -> str:
    """The count and the exceptions with their reasons, as Markdown."""
    outside = sorted(test for test, whole in tests.items() if not whole)
    rows = [(f"`{test}`", REASONS.get(test, "")) for test in outside]
    text = tabulate(rows, headers=("Not wholly in the delegate", "Why"), tablefmt="github")
    count = sum(tests.values())
    return f"{count} of {len(tests)} operators run wholly in the delegate, in integers.\n\n{text}"


def main() -> int:
    """Run, print the table, and write it where wanted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every test, not one per operator")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        chosen = [] if options.all else ["-k", PER_OPERATOR]
        code, printed = run(["--pyargs", SUITE, *chosen], report)
        if not report.exists():
            sys.stderr.write(printed)
            return 1
        records = json.loads(report.read_text())["records"]
    failed = [
        r for r in records if r["result"] not in ("SUCCESS", "SUCCESS_UNDELEGATED", "SKIPPED")
    ]
    for record in failed:
        sys.stderr.write(f"{record['test']}: {record['result']}: {record['error']}\n")
    tests = {t: w for t, w in outcome(records).items() if t.endswith(PER_OPERATOR)}
    sys.stdout.write(table(tests) + "\n")
    unexplained = [t for t, whole in tests.items() if not whole and t not in REASONS]
    for test in unexplained:
        left = [r["left"] for r in records if r["test"] == test]
        sys.stderr.write(f"{test}: outside without a reason: {left}\n")
    if options.write is not None:
        page = options.write.read_text()
        made = support_table.replaced(page, table(tests), _BEGIN, _END)
        options.write.write_text(made)
    return 1 if code or failed or unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
