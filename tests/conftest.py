# SPDX-License-Identifier: BSD-3-Clause
"""Skips become failures where everything a test can need is installed.

A test that finds no cross compiler, emulator or reference model skips with its reason. `tools/test`
installs all of them and sets FUSED_QUANT_REQUIRE_LANES=1, so there a skip means that a lane which
must run did not. The exception is a processor feature, which nobody can install: a reason that
starts with "processor:" stays a skip.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import hypothesis
import pytest

# Before torch is imported, here and in the processes that tests start: its threads wait for each
# other in busy loops, so small models take many times longer when other workers use the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run: a failure of CI is one that anybody can repeat.
hypothesis.settings.register_profile("fixed", derandomize=True)
hypothesis.settings.load_profile("fixed")

_PROCESSOR = "processor:"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked slow first: at the end, only short ones keep one worker waiting for another."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def _skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    # longrepr of a skip is (path, line, "Skipped: reason").
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("FUSED_QUANT_REQUIRE_LANES") != "1" or not report.skipped:
        return
    reason = _skip_reason(report)
    if hasattr(report, "wasxfail") or reason.startswith(_PROCESSOR):
        return
    report.outcome = "failed"
    report.longrepr = f"skipped although every lane must run: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns a skipped test into a failed one."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turns a module that skips itself at import into an error."""
    report = yield
    _refuse_skip(report)
    return report
