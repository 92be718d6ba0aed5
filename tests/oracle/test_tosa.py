# SPDX-License-Identifier: BSD-3-Clause
"""Integer numerics and scalar kernels against an independent program, the TOSA reference model.

FUSED_QUANT_ORACLE_SEED draws other cases, FUSED_QUANT_ORACLE_FACTOR more of them.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fused_quant import native
from tests.oracle import draw
from tests.support import lanes
from tests.support.builders import build

SEED = int(os.environ.get("FUSED_QUANT_ORACLE_SEED", "2024"))
FACTOR = int(os.environ.get("FUSED_QUANT_ORACLE_FACTOR", "1"))
REQUIRED_CASES = 5000
# Large ratios push accumulators out of RESCALE's domain, |acc| < 2^(shift - 1).
LARGEST_OUTSIDE_SHARE = 0.02
KINDS = {
    "rescale": 800,
    "conv2d": 1800,
    "linear": 810,
    "linear_w4": 200,
    "conv2d_w4": 400,
    "conv1d": 600,
    "conv3d": 400,
    "conv_transpose2d": 450,
    "bmm": 410,
    "add": 950,
    "requantize": 650,
    "mul": 450,
    "max_pool2d": 600,
    "avg_pool2d": 850,
    "adaptive_avg_pool2d": 380,
    "mean": 650,
    "cat": 400,
    "pad": 400,
    "slice": 200,
    "gather": 200,
    "upsample_bilinear2d": 200,
    "lut": 420,
    "maximum": 400,
    "minimum": 400,
    "prelu": 400,
    "sum": 400,
    "amax": 400,
    "amin": 400,
    "argmax": 400,
    "softmax": 200,
    "layer_norm": 200,
    "rms_norm": 200,
}
SCRIPT = Path(__file__).with_name("run_reference.py")


def draw_cases() -> list[dict[str, Any]]:
    """Every case with the results of both implementations."""
    cases = []
    for number, (opcode, draw_parameters, count) in enumerate(draw.PLAN):
        for index in range(count * FACTOR):
            rng = np.random.default_rng([SEED, number, index])
            parameters = draw_parameters(rng)
            built = build(opcode, parameters, seed=int(rng.integers(2**31)))
            (kernel,) = native.run_payload(built.payload(), built.inputs)
            results = {"numerics.py": built.expected, "scalar kernel": kernel}
            label = f"seed {SEED}, {opcode} {number}/{index}"
            cases.append({"label": label, "tosa": built.tosa, "results": results})
    return cases


def run_reference(python: Path, cases: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """The report of run_reference.py on `cases`."""
    source, target = folder / "cases.pickle", folder / "report.json"
    source.write_bytes(pickle.dumps(cases))
    command = [str(python), str(SCRIPT), str(source), str(target)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    report: dict[str, Any] = json.loads(target.read_text())
    return report


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
    for kind, least in KINDS.items():
        assert counts[kind]["cases"] >= least * FACTOR, kind


def test_comparison_sees_a_single_wrong_code(tmp_path: Path) -> None:
    """The lane itself: each kind of operator, one output changed by one, must be reported."""
    python = lanes.tosa_python()
    cases, expected = [], 0
    for opcode, draw_parameters, _ in draw.PLAN:
        for index in range(3):
            rng = np.random.default_rng([SEED, index])
            built = build(opcode, {**draw_parameters(rng), "style": "typical"}, seed=index)
            wrong = built.expected.copy()
            last = (-1,) * wrong.ndim
            wrong[last] += 1 if wrong[last] < 127 else -1
            results = {"right": built.expected, "wrong": wrong}
            cases.append({"label": f"{opcode} {index}", "tosa": built.tosa, "results": results})
    report = run_reference(python, cases, tmp_path)
    expected = sum(count["cases"] for count in report["counts"].values())
    assert expected >= 2 * len(draw.PLAN)
    assert report["mismatches"] == {"right": 0, "wrong": expected}
