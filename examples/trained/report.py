# SPDX-License-Identifier: BSD-3-Clause
"""The trained networks of this folder measured: a table of docs/models.md.

    python -m examples.trained.report [NAME...] [--write docs/models.md]

Downloads 170 MB the first time and takes some minutes.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable

import torch

from examples import study
from examples.study import Study
from examples.trained import faces, pitch, sentences, voice

STUDIES: dict[str, Callable[[], list[Study]]] = {
    "pitch": lambda: [pitch.study()],
    "faces": faces.study,
    "voice": lambda: [voice.study()],
    "sentences": lambda: [sentences.study()],
}


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(STUDIES)}")
    parser.add_argument("--write", type=pathlib.Path, help="the page whose table to replace")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in options.names or STUDIES:
        for made in STUDIES[name]():
            rows.append(study.measure(made))
            print(study.table(rows[-1:]), flush=True)
    if options.write:
        study.write(options.write, "trained", study.table(rows))


if __name__ == "__main__":
    main()
