# SPDX-License-Identifier: BSD-3-Clause
"""Buffers between two inaccessible pages: a read or write outside them ends the process."""

from __future__ import annotations

import ctypes
import mmap
import os
from types import TracebackType

import numpy as np
import numpy.typing as npt

PAGE = mmap.PAGESIZE
PROT_NONE, PROT_READ, PROT_READ_WRITE = 0, 1, 3

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class _Pages:
    """`count` accessible pages between two inaccessible ones."""

    def __init__(self, count: int) -> None:
        self._map = mmap.mmap(-1, (count + 2) * PAGE)
        self._anchor = ctypes.c_char.from_buffer(self._map)
        self.address = ctypes.addressof(self._anchor) + PAGE
        self.size = count * PAGE
        self.content = np.frombuffer(self._map, np.uint8)[PAGE : PAGE + self.size]
        self._protect(self.address - PAGE, PAGE, PROT_NONE)
        self._protect(self.address + self.size, PAGE, PROT_NONE)

    def _protect(self, address: int, size: int, protection: int) -> None:
        if _libc.mprotect(address, size, protection) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def protect(self, protection: int) -> None:
        """Set what the accessible pages allow."""
        self._protect(self.address, self.size, protection)


_free: dict[int, list[_Pages]] = {}  # by number of pages; mapping anew costs more than a test


class GuardedBuffer:
    """`size` bytes whose end (or start) touches a guard page; the rest of the pages is `fill`.

    `offset` moves the buffer that many bytes away from the page it touches, to misalign it. The
    pages' other bytes are checked by `check_untouched`. All bytes start as `fill`.
    """

    def __init__(self, size: int, at_end: bool = True, offset: int = 0, fill: int = 0x5A) -> None:
        count = max(1, -(-(size + offset) // PAGE))
        kept = _free.setdefault(count, [])
        self._pages = kept.pop() if kept else _Pages(count)
        self._pages.content[:] = fill
        self._first = self._pages.size - size - offset if at_end else offset
        self._fill, self.size, self._frozen = fill, size, False
        self.address = self._pages.address + self._first

    @property
    def content(self) -> npt.NDArray[np.uint8]:
        """The buffer's own bytes."""
        return self._pages.content[self._first : self._first + self.size]

    def write(self, data: bytes) -> None:
        """Copy `data` to the start of the buffer."""
        self.content[: len(data)] = np.frombuffer(data, np.uint8)

    def freeze(self) -> None:
        """Make the pages read-only."""
        self._pages.protect(PROT_READ)
        self._frozen = True

    def check_untouched(self) -> None:
        """Assert that nothing outside the buffer was written."""
        before = self._pages.content[: self._first]
        after = self._pages.content[self._first + self.size :]
        assert (before == self._fill).all(), "bytes before the buffer were written"
        assert (after == self._fill).all(), "bytes behind the buffer were written"

    def close(self) -> None:
        """Give the pages back."""
        if self._frozen:
            self._pages.protect(PROT_READ_WRITE)
        _free[self._pages.size // PAGE].append(self._pages)

    def __enter__(self) -> GuardedBuffer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
