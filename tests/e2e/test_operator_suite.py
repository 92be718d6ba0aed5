# SPDX-License-Identifier: BSD-3-Clause
"""ExecuTorch's own operator tests, one per operator, through the plugin that the package ships.

Not the two of an LSTM: torch takes minutes to lower their 20 steps. `tools/operator_suite.py` runs
them too; tests/models/test_zoo.py has a shorter LSTM.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib

import pytest

from tools import operator_suite

LEAST_WHOLE = 66
_PARTS = 2


def _modules() -> list[str]:
    spec = importlib.util.find_spec(operator_suite.SUITE)
    assert spec is not None
    assert spec.submodule_search_locations
    (folder,) = spec.submodule_search_locations
    names = sorted(path.stem for path in pathlib.Path(folder).glob("test_*.py"))
    return [f"{operator_suite.SUITE}.{name}" for name in names]


@pytest.fixture(scope="module", params=range(_PARTS))
def tests(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bool]:
    """Test -> wholly delegated, of every other module, so that two workers share them."""
    report = tmp_path_factory.mktemp("suite") / "report.json"
    modules = _modules()[request.param :: _PARTS]
    arguments = [
        "-p",
        "tests.support.speedups",
        "-k",
        f"{operator_suite.PER_OPERATOR} and not lstm",
    ]
    code, printed = operator_suite.run([*arguments, "--pyargs", *modules], report)
    assert code == 0, printed
    return operator_suite.outcome(json.loads(report.read_text())["records"])


@pytest.mark.slow
def test_whatever_stays_outside_has_a_reason(tests: dict[str, bool]) -> None:
    outside = {test for test, whole in tests.items() if not whole}
    assert outside == set(operator_suite.REASONS) & set(tests)
    assert len(tests) > 82 / _PARTS - 12


def test_the_reasons_leave_enough() -> None:
    """With the test above: at least so many of the 84 operators are wholly in the delegate."""
    assert 84 - len(operator_suite.REASONS) >= LEAST_WHOLE
