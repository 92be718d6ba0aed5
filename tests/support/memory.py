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
PROT_NONE, PROT_READ = 0, 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def _protect(address: int, size: int, protection: int) -> None:
    if _libc.mprotect(address, size, protection) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class GuardedBuffer:
    """`size` bytes whose end (or start) touches a guard page; the rest of the pages is `fill`.

    `offset` moves the buffer that many bytes away from the page it touches, to misalign it. The
    pages it does not cover are checked by `check_untouched`.
    """

    def __init__(self, size: int, at_end: bool = True, offset: int = 0, fill: int = 0x5A) -> None:
        pages = -(-(size + offset) // PAGE) * PAGE or PAGE
        self._map = mmap.mmap(-1, pages + 2 * PAGE)
        self._anchor = ctypes.c_char.from_buffer(self._map)
        base = ctypes.addressof(self._anchor)
        self._first = PAGE + (pages - size - offset if at_end else offset)
        self._fill, self.size, self.address = fill, size, base + self._first
        self._whole = np.frombuffer(self._map, np.uint8)
        self._whole[PAGE : PAGE + pages] = fill
        self._pages = (base + PAGE, pages)
        _protect(base, PAGE, PROT_NONE)
        _protect(base + PAGE + pages, PAGE, PROT_NONE)

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        """The buffer's own bytes."""
        return self._whole[self._first : self._first + self.size]

    def write(self, data: bytes) -> None:
        """Copy `data` to the start of the buffer."""
        self.bytes[: len(data)] = np.frombuffer(data, np.uint8)

    def freeze(self) -> None:
        """Make the pages read-only."""
        _protect(*self._pages, PROT_READ)

    def check_untouched(self) -> None:
        """Assert that nothing outside the buffer was written."""
        before = self._whole[PAGE : self._first]
        after = self._whole[self._first + self.size : PAGE + self._pages[1]]
        assert (before == self._fill).all(), "bytes before the buffer were written"
        assert (after == self._fill).all(), "bytes behind the buffer were written"

    def close(self) -> None:
        """Unmap."""
        del self._whole, self._anchor
        self._map.close()

    def __enter__(self) -> GuardedBuffer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
