# SPDX-License-Identifier: BSD-3-Clause
"""Keeps known, harmless messages of torch, torchao and ExecuTorch off the terminal.

Each filter names one message. Anything else, an unknown warning first of all, is still printed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator

# torchao tries to load CUDA libraries of its wheel; a machine without a GPU cannot.
# torch's pytree module reports that torchao registers enum classes in an old way.
_LOG_MESSAGES = {
    "torchao": "Failed to load",
    "torch.utils._pytree": "is an Enum subclass and is now natively supported",
}
# torch.export copies pytree specs with `copy`, which calls torch's own deprecated constructor.
_WARNINGS = (r"`isinstance\(treespec, LeafSpec\)` is deprecated",)
# ExecuTorch's thread pool looks for the core types of an Arm phone on every Linux machine.
_NATIVE_LINES = ("[cpuinfo_utils.cpp:",)


class _Without(logging.Filter):
    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def filter(self, record: logging.LogRecord) -> bool:
        return self._text not in record.getMessage()


def quieten() -> None:
    """Install the filters; call it before torch, torchao and executorch are imported."""
    for name, text in _LOG_MESSAGES.items():
        logging.getLogger(name).addFilter(_Without(text))
    for pattern in _WARNINGS:
        warnings.filterwarnings("ignore", message=pattern, category=FutureWarning)


@contextlib.contextmanager
def filtered_stderr() -> Iterator[None]:
    """Holds back what native code writes to stderr, then prints all but the known lines."""
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            held.seek(0)
            for line in held.read().decode(errors="replace").splitlines(keepends=True):
                if not line.startswith(_NATIVE_LINES):
                    sys.stderr.write(line)
