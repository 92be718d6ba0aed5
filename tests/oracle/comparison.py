# SPDX-License-Identifier: BSD-3-Clause
"""The cases of the plan, and what the TOSA reference model says of them.

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

from fused_quant import native
from tests.oracle.plan import PLAN
from tests.support.builders import build

SEED = int(os.environ.get("FUSED_QUANT_ORACLE_SEED", "2024"))
FACTOR = int(os.environ.get("FUSED_QUANT_ORACLE_FACTOR", "1"))
SCRIPT = Path(__file__).with_name("run_reference.py")


def draw_cases() -> list[dict[str, Any]]:
    """Every case with the results of both implementations."""
    cases = []
    for number, (name, row) in enumerate(PLAN.items()):
        for index in range(row.cases * FACTOR):
            rng = np.random.default_rng([SEED, number, index])
            parameters = row.parameters(rng)
            built = build(row.opcode, parameters, seed=int(rng.integers(2**31)))
            (kernel,) = native.run_payload(built.payload(), built.inputs)
            results = {"numerics.py": built.expected, "scalar kernel": kernel}
            label = f"seed {SEED}, {name} {number}/{index}"
            cases.append({"label": label, "row": name, "tosa": built.tosa, "results": results})
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
