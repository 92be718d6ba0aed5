# SPDX-License-Identifier: BSD-3-Clause
"""The guarded buffers of the kernel tests really guard."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

import pytest

from tests.support.memory import GuardedBuffer


def signal_of(action: Callable[[], object]) -> int:
    """The signal that ends a child process doing `action`; 0 if none does."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        action()
        os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(("at_end", "distance"), [(True, 5), (False, -1)])
def test_access_beyond_the_buffer_ends_the_process(at_end: bool, distance: int) -> None:
    buffer = GuardedBuffer(5, at_end=at_end)
    beyond = buffer.address + distance
    assert signal_of(lambda: ctypes.memset(beyond, 0, 1)) == signal.SIGSEGV
    assert signal_of(lambda: ctypes.string_at(beyond, 1)) == signal.SIGSEGV
    assert signal_of(lambda: ctypes.memset(buffer.address, 0, 5)) == 0
    buffer.close()


def test_frozen_buffer_cannot_be_written_until_it_is_given_back() -> None:
    buffer = GuardedBuffer(5)
    buffer.freeze()
    assert signal_of(lambda: ctypes.memset(buffer.address, 0, 1)) == signal.SIGSEGV
    buffer.close()
    again = GuardedBuffer(6, fill=0x11)
    again.write(b"abc")
    assert again.content.tobytes() == b"abc\x11\x11\x11"
    again.close()


@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize("at_end", [True, False])
def test_stray_writes_inside_the_pages_are_seen(at_end: bool, offset: int) -> None:
    buffer = GuardedBuffer(7, at_end, offset)
    ctypes.memset(buffer.address, 0, 7)
    buffer.check_untouched()
    neighbours = [buffer.address - 1] if at_end else [buffer.address + 7]
    neighbours += [buffer.address + 7 if at_end else buffer.address - 1] if offset else []
    for neighbour in neighbours:
        ctypes.memset(neighbour, 0, 1)
        with pytest.raises(AssertionError, match="were written"):
            buffer.check_untouched()
        ctypes.memset(neighbour, 0x5A, 1)
    buffer.close()
