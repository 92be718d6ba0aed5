# SPDX-License-Identifier: BSD-3-Clause
"""Arm's quantizers without Arm's compiler.

Importing `executorch.backends.arm` imports `tosa_serializer`, which writes TOSA programs; the
package that has it pins old versions of numpy and flatbuffers. A quantizer writes no program: it
needs the names to exist at import, and nothing of them afterwards.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import Any

_NAME = "tosa_serializer"


class _Name(type):
    """A class whose every public attribute is another such class."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(name, (), {})


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(name, (), {})


def install() -> None:
    """Put the names in place unless the package is installed."""
    if _NAME not in sys.modules and importlib.util.find_spec(_NAME) is None:
        sys.modules[_NAME] = _Module(_NAME)
