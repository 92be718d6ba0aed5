# SPDX-License-Identifier: BSD-3-Clause
"""Finds and loads the compiled libraries of this package.

`load_runtime` puts the delegate into ExecuTorch's backend registry, after which
`executorch.runtime` runs programs lowered with `FusedQuantPartitioner`. ExecuTorch promises no
binary compatibility between versions, so the library says which one it was built for, and any
other is refused before the library is opened.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import re
import sys
from pathlib import Path

BACKEND_LIBRARY = "libfused_quant_backend.so"
LIBRARY_DIR_VARIABLE = "FUSED_QUANT_LIBRARY_DIR"

# runtime/executorch/version.cpp stores the versions behind this mark, to be read without dlopen:
# a library built for another ExecuTorch may already fail, or misbehave, while it is opened.
_BUILT_FOR = re.compile(rb"fused_quant\.built_for_executorch=([0-9A-Za-z.+-]+)\0")

_REINSTALL = "pip install --no-build-isolation --force-reinstall --no-deps ."


def prefix_path() -> Path:
    """Folder of the installed package that holds `lib/` and `include/`.

    An editable install has two folders, the sources and the installed files; the libraries are in
    the second. `FUSED_QUANT_LIBRARY_DIR` does not change the answer.

    Raises:
        RuntimeError: the package was not installed, only put on the module path.
    """
    folders = [Path(entry) for entry in sys.modules[__package__ or ""].__path__]
    for folder in folders:
        if (folder / "lib" / BACKEND_LIBRARY).is_file():
            return folder
    searched = ", ".join(str(folder / "lib") for folder in folders)
    raise RuntimeError(
        f"{BACKEND_LIBRARY} is in none of: {searched}. The package must be installed, for example "
        "with: pip install ."
    )


def library_path(name: str) -> Path:
    """Path of the compiled library `name`.

    The environment variable `FUSED_QUANT_LIBRARY_DIR`, when set, is the only folder searched: it
    serves to run against another build, such as one with sanitizers.

    Raises:
        RuntimeError: there is no such file.
    """
    override = os.environ.get(LIBRARY_DIR_VARIABLE)
    folder = Path(override) if override else prefix_path() / "lib"
    path = folder / name
    if not path.is_file():
        raise RuntimeError(f"there is no {name} in {folder}")
    return path


def cmake_prefix_path() -> str:
    """What to add to CMAKE_PREFIX_PATH so that `find_package(fused_quant)` finds this package."""
    return str(prefix_path())


def built_for_executorch(library: Path) -> str:
    """ExecuTorch version `library` was compiled against, read from the file without loading it.

    Raises:
        RuntimeError: the file holds no version.
    """
    match = _BUILT_FOR.search(library.read_bytes())
    if match is None:
        raise RuntimeError(f"{library} does not say which ExecuTorch it was built for")
    return match.group(1).decode()


def _release(version: str) -> str:
    # The part after "+" names the accelerators in a wheel (+cpu, +cu130), not other sources.
    return version.partition("+")[0]


def _check_version(library: Path) -> None:
    built_for = built_for_executorch(library)
    installed = importlib.import_module("executorch.version").__version__
    if _release(built_for) != _release(installed):
        raise RuntimeError(
            f"{library.name} was built for ExecuTorch {built_for}, but ExecuTorch {installed} is "
            f"installed. Rebuild fused_quant in its checkout: {_REINSTALL}; or install the version "
            f"it was built for: pip install executorch=={_release(built_for)}"
        )


def load_runtime() -> None:
    """Load the delegate into this process and register it with ExecuTorch; later calls do nothing.

    Raises:
        RuntimeError: the library is missing, was built for another ExecuTorch version, cannot be
            opened, or ExecuTorch refused the registration.
    """
    _load_once()


@functools.lru_cache(maxsize=1)
def _load_once() -> ctypes.CDLL:
    library = library_path(BACKEND_LIBRARY)
    _check_version(library)
    # First, so that the process has one libexecutorch.so, and so one registry: the one behind
    # executorch.runtime, which our library then finds already loaded.
    importlib.import_module("executorch.runtime")
    try:
        loaded = ctypes.CDLL(str(library))
    except OSError as error:
        raise RuntimeError(
            f"cannot load {library}: {error}. Rebuild fused_quant: {_REINSTALL}"
        ) from error
    register = loaded.fused_quant_register_backend
    register.argtypes = []
    register.restype = ctypes.c_uint32
    # Loading has registered it already; this call reports how that went.
    error_code = register()
    if error_code != 0:
        raise RuntimeError(
            f"ExecuTorch refused to register FusedQuantBackend (error 0x{error_code:02x}): another "
            "copy of the delegate is loaded, or too many backends are registered"
        )
    return loaded
