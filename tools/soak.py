#!/usr/bin/env python
# SPDX-License-Identifier: BSD-3-Clause
"""Random graphs through quantizer, fusion, partitioner and runtime for as long as it is told.

    python tools/soak.py --minutes 60 --first-seed 1000

The property is that of tests/e2e/test_random_graphs.py. A seed that breaks it is printed with its
graph, and the exit code is 1; the search goes on.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from pathlib import Path

import torch
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.e2e import random_property


def main() -> int:
    """Run until the time is over; 1 if a seed failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument("--first-seed", type=int, default=1000, help="the first seed (1000)")
    parser.add_argument("--executorch", action="store_true", help="always through ExecuTorch")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    end = time.monotonic() + 60 * options.minutes
    failed: list[int] = []
    whole = 0
    bar = tqdm(itertools.count(options.first_seed), unit=" graphs")
    for seed in bar:
        if time.monotonic() > end:
            break
        try:
            whole += random_property.check(seed, options.executorch).whole
        except AssertionError as error:
            failed.append(seed)
            bar.write(str(error))
        bar.set_postfix(failed=len(failed), whole=whole)
    bar.close()
    print(f"{bar.n} graphs, {whole} as one delegate call, failed seeds: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
