# SPDX-License-Identifier: BSD-3-Clause
"""The command line: `python -m fused_quant explain model.pt2`, `… inspect model.pte`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.export import ExportedProgram

from fused_quant import inspect
from fused_quant.explain import explain


def _load(path: Path) -> ExportedProgram:
    if not path.is_file():
        raise ValueError(f"{path}: got no such file, expected a program of torch.export.save")
    try:
        return torch.export.load(path)
    except Exception as error:
        raise ValueError(
            f"{path}: got a file that torch.export.load refuses ({error}), expected a program of "
            "torch.export.save; for a .pte see python -m fused_quant.inspect"
        ) from error


def _explain(options: argparse.Namespace) -> int:
    try:
        explanation = explain(_load(options.program), options.target)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    show = explanation.to_json if options.json else explanation.to_table
    print(show(options.all))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit code: 0, or 2 for bad input."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["inspect"]:
        return inspect.main(given[1:])
    parser = argparse.ArgumentParser(prog="python -m fused_quant")
    commands = parser.add_subparsers(required=True)
    text = "what a delegate of a .pte does; see python -m fused_quant.inspect --help"
    commands.add_parser("inspect", help=text)
    text = "what stays outside the delegate, and why"
    command = commands.add_parser("explain", help=text, description=text)
    command.add_argument("program", type=Path, help="a quantized program of torch.export.save")
    command.add_argument("--json", action="store_true", help="JSON instead of a table")
    command.add_argument("--all", action="store_true", help="also quantize, dequantize and views")
    command.add_argument("--target", default=None, help="a target's name (default: every target)")
    return _explain(parser.parse_args(given))


if __name__ == "__main__":
    sys.exit(main())
