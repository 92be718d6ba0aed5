# SPDX-License-Identifier: BSD-3-Clause
"""Networks with int8 and int16 activations: a table of docs/models.md.

python -m examples.wide_report [NAME...] [--write docs/models.md]
"""

from __future__ import annotations

import argparse
import pathlib

import torch

from examples import mlperf_tiny, study
from examples.mlperf_tiny import report
from examples.study import Study
from examples.zoo import digits

ZOO = ("Encoder", "BertLike", "TinyViT", "GruSpotter")
NAMES = ("autoencoder", *ZOO)
HEADERS = (
    "Network",
    "int8, dB",
    "int16, dB",
    "int8 with the weights' codes, dB",
    "int16 with the weights' codes, dB",
)


def make(name: str) -> Study:
    """A trained network: of MLPerf Tiny, or of the zoo."""
    return report.make(name) if name in mlperf_tiny.LOADERS else digits.study(name)


def row(made: Study) -> tuple[str, ...]:
    """Signal to noise against float; then against float with the weights that the codes mean."""
    exact = study.outputs(made.model, made.tests)
    both = [study.quantize(made, dtype) for dtype in (torch.int8, torch.int16)]
    whole = [study.noise(exact, study.outputs(found.fused, made.tests))[0] for found in both]
    activations = [study.activation_noise(found, made.tests) for found in both]
    return (made.name, *(f"{value:.1f}" for value in (*whole, *activations)))


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--write", type=pathlib.Path, help="the page whose table to replace")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row(make(name)) for name in options.names or NAMES]
    print(study.table(rows, HEADERS))
    if options.write:
        study.write(options.write, "wide", study.table(rows, HEADERS))


if __name__ == "__main__":
    main()
