# SPDX-License-Identifier: BSD-3-Clause
"""The documentation is up to date: its table, its links, the paths it names, and its code.

A fenced block whose info string is `python runnable` is run, all those of a page in one namespace
and in order, so a page can build on its own earlier blocks.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.lanes import REPO
from tools import support_table

PAGES = sorted([*REPO.glob("*.md"), *REPO.glob("docs/**/*.md"), *REPO.glob("examples/**/*.md")])
WITH_TABLE = ("README.md", "docs/operator_support.md")
UPDATE = f"run: python tools/support_table.py --write {' '.join(WITH_TABLE)}"

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)\)")
_PATH = re.compile(
    r"`((?:backends|cmake|docs|examples|firmware|runtime|schema|tests|tools)/[\w./-]*)`"
)

# Runs each page's blocks; a failure names the page and its line.
_RUNNER = """
import json, sys
for page, blocks in json.load(sys.stdin).items():
    namespace = {"__name__": "docs"}
    for line, code in blocks:
        exec(compile("\\n" * line + code, page, "exec"), namespace)
    print("ran", len(blocks), "blocks of", page)
"""


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and GitLab make them."""
    titles = re.findall(r"^#+ +(.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


def runnable_blocks() -> dict[str, list[tuple[int, str]]]:
    """Page -> (lines in front, code) of each runnable block."""
    found: dict[str, list[tuple[int, str]]] = {}
    for page in PAGES:
        text = page.read_text()
        for match in _FENCE.finditer(text):
            if match[1].split() == ["python", "runnable"]:
                line = text[: match.start(2)].count("\n")
                found.setdefault(str(page.relative_to(REPO)), []).append((line, match[2]))
    return found


@pytest.mark.parametrize("name", WITH_TABLE)
def test_table_of_operators_is_up_to_date(name: str) -> None:
    page = REPO / name
    assert page.is_file(), f"there is no {name}"
    shown = support_table.between_markers(page.read_text())
    assert shown is not None, f"{name}: no {support_table.BEGIN} ... {support_table.END}"
    assert shown == support_table.table(), f"{name}: the table is out of date; {UPDATE}"


def test_table_shows_every_kernel() -> None:
    """Each runtime operator of the build stands in some row, beside the types of its kernels."""
    shown = support_table.table()
    for opcode in support_table.kernel_types():
        assert f"`{opcode}`" in shown, opcode
    for line in shown.splitlines()[2:]:
        _, _, _, emitted, types, summary, _ = re.split(r"(?<!\\)\|", line)
        assert emitted.strip() == "none yet" or types.strip() != "none", line
        assert summary.strip(), line


def test_table_is_only_written_between_markers() -> None:
    text = f"before\n{support_table.BEGIN}\nold\n{support_table.END}\nafter\n"
    new = support_table.replaced(text, "| new |")
    assert new == text.replace("old", "| new |")
    assert support_table.between_markers(new) == "| new |"
    for broken in ("nothing", support_table.END + support_table.BEGIN, text + text):
        with pytest.raises(ValueError, match="expected one line"):
            support_table.replaced(broken, "| new |")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_links_and_paths_resolve(page: Path) -> None:
    text = prose(page)
    wrong = []
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        inside = target.exists() and target.is_relative_to(REPO)
        if not inside or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    wrong += [path for path in _PATH.findall(text) if not (REPO / path).exists()]
    assert wrong == []


def test_every_lane_of_the_tests_is_described() -> None:
    text = (REPO / "docs/testing.md").read_text()
    folders = [path for path in (REPO / "tests").iterdir() if any(path.glob("*.*"))]
    lanes = [f"tests/{path.name}" for path in folders if path.name != "__pycache__"]
    assert [lane for lane in lanes if lane not in text] == []


def test_code_in_the_docs_runs(tmp_path: Path) -> None:
    blocks = runnable_blocks()
    assert blocks
    done = subprocess.run(
        [sys.executable, "-c", _RUNNER],
        input=json.dumps(blocks),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ran ") >= len(blocks)
