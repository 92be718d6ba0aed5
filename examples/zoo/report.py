# SPDX-License-Identifier: BSD-3-Clause
"""The networks of the zoo, trained on digits and measured: the last table of docs/models.md.

python -m examples.zoo.report [NAME...] [--write docs/models.md]
"""

from __future__ import annotations

import argparse
import pathlib

from examples import study
from examples.zoo import digits
from examples.zoo.small import SMALL


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks; all if none is named")
    parser.add_argument("--write", type=pathlib.Path, help="the page whose table to replace")
    options = parser.parse_args()
    rows = []
    for name in options.names or SMALL:
        rows.append(study.measure(digits.study(name)))
        print(study.table(rows[-1:]), flush=True)
    if options.write:
        study.write(options.write, "zoo", study.table(rows))


if __name__ == "__main__":
    main()
