# SPDX-License-Identifier: BSD-3-Clause
"""Builds the wheel as a user would, and installs it in an environment of its own."""

from __future__ import annotations

import dataclasses
import fcntl
import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(
    command: Sequence[str | Path],
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Output of a command, stderr included; fails the test with that output on an error."""
    arguments = [str(word) for word in command]
    done = subprocess.run(
        arguments,
        cwd=cwd,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"exit code {done.returncode}: {' '.join(arguments)}\n{done.stdout}")
    return done.stdout


def package_folder(name: str) -> Path:
    """Folder of an importable package, without importing it."""
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"{name} is not installed"
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


@dataclasses.dataclass(frozen=True)
class Installation:
    """A virtual environment that holds the wheel and borrows everything else."""

    wheel: Path
    python: Path
    package: Path

    def python_code(self, code: str, **environment: str) -> str:
        """Output of `code`, run from / so that the checkout is not on the module path."""
        return run([self.python, "-c", code], cwd="/", env={**_clean_environment(), **environment})


def _clean_environment() -> dict[str, str]:
    ours = {name for name in os.environ if name.startswith("FUSED_QUANT_")}
    return {k: v for k, v in os.environ.items() if k not in ours | {"PYTHONPATH"}}


def _wheel(folder: Path) -> Path:
    """The wheel of this checkout: tools/test has built it already, or it is built here."""
    built = os.environ.get("FUSED_QUANT_WHEEL_DIR")
    if built is None:
        # Isolated: pip makes a fresh environment from [build-system].requires, as for any user.
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        run([*pip, "wheel", "--no-deps", "--wheel-dir", folder / "wheel", ROOT])
    (wheel,) = (folder / "wheel" if built is None else Path(built)).glob("*.whl")
    return wheel


def _install(folder: Path, wheel: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    environment = folder / "environment"
    run([sys.executable, "-m", "venv", "--without-pip", environment])
    run([*pip, "--python", environment / "bin/python", "install", "--no-deps", wheel])
    (site,) = environment.glob("lib/python*/site-packages")
    # torch and the rest are borrowed. executorch has to stand beside fused_quant, as it does when
    # pip installs both: the delegate's run path and its CMake package look there.
    borrowed = package_folder("executorch")
    (site / "executorch").symlink_to(borrowed)
    (site / "borrowed.pth").write_text(f"{borrowed.parent}\n")


def installed_wheel(folder: Path) -> Installation:
    """The installation in `folder`, made by the first process that asks for it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            wheel = _wheel(folder)
            _install(folder, wheel)
            (folder / "done").write_text(str(wheel))
    wheel = Path((folder / "done").read_text())
    (package,) = (folder / "environment").glob("lib/python*/site-packages/fused_quant")
    return Installation(wheel, folder / "environment/bin/python", package)
