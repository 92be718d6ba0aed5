# SPDX-License-Identifier: BSD-3-Clause
"""The four trained models beside their int8 .tflite files: the first tables of docs/models.md.

    python -m examples.mlperf_tiny.report [--litert PYTHON] [--write docs/models.md]

PYTHON: an interpreter with ai-edge-litert, which runs the .tflite files; it can be of another
virtual environment. Without it that column stays empty.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import tempfile

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from examples import mlperf_tiny, study
from examples.mlperf_tiny.weights import FILES, archive_member
from examples.study import Outputs, Study

CALIBRATION, TESTS = 96, 120
HEADERS = ("Network", "int8 of", "Task, against float")

_RUNNER = """
import sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter
interpreter = Interpreter(model_path=sys.argv[1])
interpreter.allocate_tensors()
source, target = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
results = []
for x in np.load(sys.argv[2]):
    scale, zero = source["quantization"]
    if scale:
        x = np.clip(np.rint(x / scale) + zero, -128, 127).astype(np.int8)
    interpreter.set_tensor(source["index"], x.reshape(source["shape"]))
    interpreter.invoke()
    y = interpreter.get_tensor(target["index"]).astype(np.float32).reshape(1, -1)
    scale, zero = target["quantization"]
    results.append((y - zero) * scale if scale else y)
np.save(sys.argv[3], np.concatenate(results))
"""


def run_tflite(python: str, model: str, inputs: list[Tensor]) -> Tensor:
    """Outputs of the package's int8 file: probabilities, or the reconstruction."""
    last = [x.permute(0, 2, 3, 1) if x.dim() == 4 else x for x in inputs]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "model.tflite").write_bytes(archive_member(model, ".tflite"))
        np.save(folder / "x.npy", torch.cat(last).numpy())
        paths = [str(folder / file) for file in ("model.tflite", "x.npy", "y.npy")]
        command = [python, "-c", _RUNNER, *paths]
        subprocess.run(command, check=True, capture_output=True, timeout=600)
        return torch.from_numpy(np.load(folder / "y.npy"))


def same_class(exact: Tensor, other: Tensor) -> str:
    """Agreement of probabilities: of all inputs, of those with a sure float, and their distance."""
    same = exact.argmax(1) == other.argmax(1)
    sure = exact.amax(1) > 0.7
    far = float((exact - other).abs().mean())
    return (
        f"same class for {same.double().mean():.1%} of {len(same)}, "
        f"for {same[sure].double().mean():.1%} of the {int(sure.sum())} where float gives its "
        f"class more than 0.7; probabilities differ by {far:.3f} on average"
    )


def same_order(x: Tensor, exact: Tensor, other: Tensor) -> str:
    """The errors of reconstruction: their ranks, and how well they tell the faulty machines."""
    errors = [(y - x).square().mean(1) for y in (exact, other)]
    rank = float(spearmanr(errors[0], errors[1])[0])
    areas = [float((e[1::2, None] > e[None, ::2]).double().mean()) for e in errors]
    return (
        f"rank correlation of the errors {rank:.4f}; area under the curve, sound or faulty, "
        f"{areas[0]:.4f} float, {areas[1]:.4f} here"
    )


def compare(name: str, inputs: list[Tensor], exact: Tensor, other: Tensor) -> str:
    """Outputs of an integer program beside float's, in words."""
    if name == "autoencoder":
        return same_order(torch.cat(inputs), exact, other)
    return same_class(exact.softmax(1), other)


def make(name: str) -> Study:
    """The model of that name as a study."""
    tests = mlperf_tiny.test_inputs(name, TESTS)

    def task(exact: Outputs, integers: Outputs) -> str:
        values = integers[0] if name == "autoencoder" else integers[0].softmax(1)
        return compare(name, tests, exact[0], values)

    model = mlperf_tiny.LOADERS[name](True)
    return Study(name, model, mlperf_tiny.calibration_inputs(name, CALIBRATION), tests, task)


def main() -> None:
    """Print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--litert", help="a Python interpreter with ai-edge-litert")
    parser.add_argument("--write", type=pathlib.Path, help="the page whose tables to replace")
    options = parser.parse_args()
    torch.set_num_threads(1)
    first, second = [], []
    for name, file in FILES.items():
        made = make(name)
        row = study.measure(made)
        first.append(row[:-1])
        second.append((name, "this package", row[-1]))
        if options.litert:
            exact = study.outputs(made.model, made.tests)[0]
            theirs = run_tflite(options.litert, file, list(made.tests))
            words = compare(name, list(made.tests), exact, theirs)
            second.append((name, "the .tflite file", words))
    text = study.table(first, study.HEADERS[:-1]) + "\n\n" + study.table(second, HEADERS)
    print(text)
    if options.write:
        study.write(options.write, "mlperf-tiny", text)


if __name__ == "__main__":
    main()
