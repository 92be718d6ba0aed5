# SPDX-License-Identifier: BSD-3-Clause
"""A pytest plugin that runs ExecuTorch's own operator tests through this backend.

    pytest -p fused_quant.testing.suite_plugin --pyargs executorch.backends.test.suite.operators \
        -m backend_fused_quant --fused-quant-report report.json

Adds one flow: `default_quantizer(every_operator=True)`, `FusedQuantPartitioner`, and the comparison
of the suite (the quantized program in PyTorch against the lowered one). A test in which nothing was
delegated passes there too, so the summary counts apart the tests whose compute nodes are all in
delegate calls; the report lists every test with the nodes left outside.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Generator
from typing import Any

import executorch.backends.test.suite.flow as suite_flow
import pytest
import torch
from executorch.backends.test.harness import Tester
from executorch.backends.test.harness.stages import (
    Quantize,
    Stage,
    StageType,
    ToEdgeTransformAndLower,
)
from executorch.backends.test.suite.flow import TestFlow

import fused_quant

BACKEND = "fused_quant"
FLOW_NAME = "fused_quant_int8"
_OPTION = "--fused-quant-report"
_PROPERTY = "fused_quant"


def _quantize() -> Stage:
    return Quantize(quantizer=fused_quant.default_quantizer(every_operator=True))


def _lower(**_: Any) -> Stage:
    return ToEdgeTransformAndLower(default_partitioner_cls=fused_quant.FusedQuantPartitioner)


def _tester(module: torch.nn.Module, inputs: tuple[Any, ...], **others: Any) -> Tester:
    fused_quant.load_runtime()
    stages = {
        **Tester.default_stage_classes(),
        StageType.QUANTIZE: _quantize,
        StageType.TO_EDGE_TRANSFORM_AND_LOWER: _lower,
    }
    return Tester(module, inputs, stage_classes=stages, **others)


def flow() -> TestFlow:
    """The flow that the plugin adds."""
    return TestFlow(FLOW_NAME, BACKEND, _tester, quantize=True, quantize_stage_factory=_quantize)


def _with_ours(flows: Callable[[], dict[str, TestFlow]]) -> Callable[[], dict[str, TestFlow]]:
    def all_flows() -> dict[str, TestFlow]:
        return {**flows(), FLOW_NAME: flow()}

    return all_flows


# The suite's conftest takes the function by name when it is imported, which is later than this.
suite_flow.all_flows = _with_ours(suite_flow.all_flows)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the report."""
    parser.addoption(_OPTION, metavar="FILE", help="write what was delegated, per test, as JSON")


def _counts(counts: Any) -> dict[str, int]:
    return {str(name): int(count) for name, count in (counts or {}).items()}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach what was delegated to the report of a test of ours."""
    report = yield
    runner: Any = getattr(item, "funcargs", {}).get("test_runner")
    if report.when != "call" or getattr(getattr(runner, "_flow", None), "backend", "") != BACKEND:
        return report
    for result in runner._results:
        delegated, left = (
            _counts(counts) for counts in (result.delegated_op_counts, result.undelegated_op_counts)
        )
        record = {
            "test": item.name.split("[")[0],
            "module": item.path.stem,
            "result": result.result.name,
            "delegated": delegated,
            "left": left,
            "error": None if result.error is None else str(result.error),
        }
        report.user_properties.append((_PROPERTY, record))
    return report


def is_whole(record: dict[str, Any]) -> bool:
    """Everything the test computes runs in delegate calls."""
    return record["result"] == "SUCCESS" and bool(record["delegated"]) and not record["left"]


def _records(stats: dict[str, list[Any]]) -> list[dict[str, Any]]:
    found = [
        value
        for reports in stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == _PROPERTY
    ]
    return sorted(found, key=lambda record: (record["module"], record["test"]))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the counts and write the report."""
    records = _records(terminalreporter.stats)
    if not records:
        return
    whole = [record for record in records if is_whole(record)]
    per_operator = [record for record in records if record["test"].endswith("_dtype")]
    terminalreporter.section("fused_quant")
    terminalreporter.line(f"{len(whole)} of {len(records)} calls run wholly in the delegate")
    count = sum(map(is_whole, per_operator))
    terminalreporter.line(f"{count} of {len(per_operator)} operators (*_dtype) do")
    path = config.getoption(_OPTION)
    if path:
        text = json.dumps({"flow": FLOW_NAME, "records": records}, indent=1)
        pathlib.Path(path).write_text(text + "\n")
