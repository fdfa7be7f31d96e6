"""What handlers print and log: passed on within a bound, never in a handler's way, never the reason of an end.

Standard output and error of a worker are its node's: a terminal, a launcher's pipe, a file. Whoever reads them may be
slow, stopped or gone, and none of that is the agent's fault. So in a worker's process a write waits only a moment for
its reader, no process writes more than a burst and a rate, and what is dropped is told in one line. It writes through
a descriptor of its own, so a handler that closes 1 and 2 does not make it write into whatever is opened next.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import logging
import os
import select
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, TextIO, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["BURST", "BoundedOutput", "bound_output"]

BURST: Final = 1 << 20
"""Bytes that one process may write at once, to each of its two streams."""
PER_SECOND: Final = 256 << 10
"""Bytes of it that it is given back each second."""
WAIT: Final = 0.05
"""Seconds that a write waits for a reader who is behind; then nothing is written for ``REST`` seconds."""
REST: Final = 1.0

_ABOVE: Final = 64
"""Own descriptors lie above those that code usually closes by number."""
_PIECE: Final = select.PIPE_BUF
"""What a pipe takes without blocking once it says that it takes anything."""


class BoundedOutput(io.RawIOBase):
    """A raw stream over a copy of ``fd``. A write never fails and never blocks for long; all of it counts as taken."""

    def __init__(self, fd: int) -> None:
        self._fd = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
        self._is = _identity(self._fd)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLOUT)
        self._lock = threading.Lock()
        self._allowed = float(BURST)
        self._looked_at = time.monotonic()
        self._rest_until = 0.0
        self._dropped = 0

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)
        with self._lock:
            now = time.monotonic()
            self._allowed = min(BURST, self._allowed + (now - self._looked_at) * PER_SECOND)
            self._looked_at = now
            if view.nbytes > self._allowed or now < self._rest_until:
                self._dropped += view.nbytes
                return view.nbytes
            if self._dropped:
                self._write(memoryview(b"... %d bytes of output dropped\n" % self._dropped))
                self._dropped = 0
            self._allowed -= view.nbytes
            self._write(view)
        return view.nbytes

    def _write(self, view: memoryview) -> None:
        # A handler that closes descriptors by number may have given ours to somebody else.
        try:
            while view.nbytes and _identity(self._fd) == self._is:
                if not self._poll.poll(1000 * WAIT):
                    self._rest_until = time.monotonic() + REST
                    break
                view = view[os.write(self._fd, view[:_PIECE]) :]
        except OSError:  # nobody reads, or the disk is full: not what a handler is to answer for
            pass
        self._dropped += view.nbytes


def bound_output() -> None:
    """In a worker's process, once: ``print`` and ``logging`` go through a ``BoundedOutput`` from now on."""
    old = sys.stdout, sys.stderr
    for name, fd in (("stdout", 1), ("stderr", 2)):
        with contextlib.suppress(OSError):  # the node was started without one
            setattr(sys, name, _text(BoundedOutput(fd)))
    new: dict[int, TextIO] = {id(old[0]): sys.stdout, id(old[1]): sys.stderr}
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            streaming = cast("logging.StreamHandler[TextIO]", handler)
            streaming.setStream(new.get(id(streaming.stream), streaming.stream))


def _text(raw: BoundedOutput) -> TextIO:
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino
