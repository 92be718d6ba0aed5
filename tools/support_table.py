# SPDX-License-Identifier: BSD-3-Clause
"""The table of supported operators, made from the operator registry.

    python tools/support_table.py                                  # print it
    python tools/support_table.py --write README.md docs/operator_support.md

`--write` replaces what stands between the two markers in each file; the rest of the file stays.
Exits with 1 and a message if a file has no markers.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from fused_quant import schema_generated
from fused_quant.ops import registry
from fused_quant.ops.spec import OpSpec

BEGIN = "<!-- support-table:begin -->"
END = "<!-- support-table:end -->"

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_KERNELS = _ROOT / "runtime" / "kernels" / "kernels.inc"
_OPERATORS = "fused_quant.ops"
_HEADER = ("Operator", "ATen calls it stands for", "Runtime operator", "Types", "What it computes")
_TYPES = {
    "s8": "int8",
    "u8": "uint8",
    "s16": "int16",
    "s32": "int32",
    "s64": "int64",
    "f32": "float32",
    "b8": "bool",
}


def kernel_types() -> dict[str, list[str]]:
    """Runtime operator -> types of the codes its kernels take, in the order of kernels.inc."""
    types: dict[str, list[str]] = {}
    for line in _KERNELS.read_text().splitlines():
        match = re.match(r"FQ_KERNEL\((\w+), (\w+),", line)
        if match is not None:
            known = types.setdefault(match[1], [])
            name = _TYPES[match[2]]
            if name not in known:
                known.append(name)
    return types


def _strings(code: CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, CodeType):
            yield from _strings(constant)


def _referenced(function: FunctionType) -> Iterator[Any]:
    """What a function can reach by name: globals, functions of operator modules, closure cells."""
    names = [function.__globals__.get(name) for name in function.__code__.co_names]
    yield from names
    for module in names:
        if isinstance(module, ModuleType) and module.__name__.startswith(_OPERATORS):
            yield from (getattr(module, name, None) for name in function.__code__.co_names)
    for cell in function.__closure__ or ():
        yield cell.cell_contents


def runtime_operators(spec: OpSpec) -> list[str]:
    """Names of the runtime operators that `spec.runtime.lower` emits, as its code spells them."""
    if spec.runtime is None:
        return []
    opcodes = [name for name in vars(schema_generated.OpCode) if not name.startswith("_")]
    found: set[str] = set()
    pending: list[Any] = [spec.runtime.lower]
    seen: set[FunctionType] = set()
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            found.add(item)
        elif isinstance(item, FunctionType) and item not in seen:
            if not item.__module__.startswith(_OPERATORS):
                continue
            seen.add(item)
            found.update(_strings(item.__code__))
            pending.extend(_referenced(item))
    return [opcode for opcode in opcodes if opcode in found]


def _spelling(target: Any) -> str:
    name = str(target).removesuffix(".default")
    return f"`{name.removeprefix('aten.')}`"


def _spellings(spec: OpSpec) -> str:
    targets = spec.targets if spec.fusion is None else tuple(spec.fusion.anchors)
    return ", ".join(dict.fromkeys(map(_spelling, targets))) or "none: made by `fuse`"


def _summary(spec: OpSpec) -> str:
    """The first paragraph of the docstring of the operator's module."""
    function: Any = spec.runtime.lower if spec.runtime is not None else None
    if function is None and spec.fusion is not None:
        function = spec.fusion.covers
    module = sys.modules[function.__module__] if function is not None else None
    text = (module.__doc__ if module is not None else "") or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def _row(specs: Sequence[OpSpec], types: dict[str, list[str]]) -> tuple[str, ...]:
    spec = specs[0]
    opcodes = runtime_operators(spec)
    codes = list(dict.fromkeys(name for opcode in opcodes for name in types.get(opcode, [])))
    emitted = ", ".join(f"`{opcode}`" for opcode in opcodes)
    if spec.moves_data:
        emitted, codes = "`permute` or `copy` where bytes must move, else none", ["int8"]
    elif spec.runtime is None:
        emitted = "none yet"
    names = [s.qualified_name if s.fusion is not None else s.name for s in specs]
    prefix = "fused_quant." if spec.fusion is not None else ""
    shown = ", ".join(f"`{prefix}{name}`" for name in names)
    return (shown, _spellings(spec), emitted, ", ".join(codes) or "none", _summary(spec))


def table() -> str:
    """The Markdown table, one row per operator; overloads of one operator share a row.

    Dialect operators come first, then graph operators that the delegate runs as they stand.
    """
    registry.load()
    types = kernel_types()
    groups: dict[str, list[OpSpec]] = {}
    shown = [s for s in registry.specs() if s.fusion is not None or s.runtime is not None]
    for spec in sorted(shown, key=lambda s: (s.fusion is None, s.qualified_name)):
        groups.setdefault(spec.name, []).append(spec)
    rows = [_HEADER, tuple("---" for _ in _HEADER)]
    rows += [_row(specs, types) for specs in groups.values()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def between_markers(text: str, begin: str = BEGIN, end: str = END) -> str | None:
    """What stands between the two markers, each of which stands once in order; else None."""
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        return None
    return text.split(begin)[1].split(end)[0].strip("\n")


def replaced(text: str, new: str, begin: str = BEGIN, end: str = END) -> str:
    """The text with `new` between the markers. Raises ValueError without them."""
    if between_markers(text, begin, end) is None:
        raise ValueError(f"expected one line {begin} and, after it, one line {end}")
    before, rest = text.split(begin)
    return f"{before}{begin}\n{new}\n{end}{rest.split(end)[1]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Print or update the table of operators.")
    parser.add_argument("--write", nargs="+", type=pathlib.Path, metavar="FILE", default=[])
    options = parser.parse_args(arguments)
    made = table()
    if not options.write:
        print(made)
    for path in options.write:
        try:
            path.write_text(replaced(path.read_text(), made))
        except (OSError, ValueError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
