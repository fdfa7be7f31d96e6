"""A worker's own descriptors: are they still its own? A handler may have closed them by number, or used all others up.

A descriptor that was closed is given to whatever is opened next. A worker that went on with it would write its commits
into somebody's file, or its log lines into Redis. So identity is looked at before each commit, which costs less than a
microsecond, and what was lost ends the process with a reason of its own.
"""

from __future__ import annotations

import errno
import os

from regrow_signals.connection import Connection
from regrow_signals.errors import DescriptorsLost

__all__ = ["OwnDescriptors"]


class OwnDescriptors:
    """Of one worker: the descriptor that tells it to stop, and the connection's, which changes at each reconnect."""

    def __init__(self, stop: int, connection: Connection) -> None:
        self._stop = stop
        self._stop_is = _identity(stop)
        self._connection = connection
        self._generation = 0
        self._socket = -1
        self._socket_is = (0, 0)

    def check(self) -> None:
        """Raises ``DescriptorsLost`` if a handler closed one of them. The first look after a connect takes its word."""
        if _identity(self._stop) != self._stop_is:
            raise DescriptorsLost("a handler closed descriptors that are the worker's own")
        connection = self._connection
        if connection.generation != self._generation:
            self._generation = connection.generation
            self._socket = fd = connection.fileno() or -1
            self._socket_is = _identity(fd)
        elif connection.fileno() is not None and _identity(self._socket) != self._socket_is:
            raise DescriptorsLost("a handler closed the worker's connection to Redis")

    def check_room(self) -> None:
        """Where connecting failed: raises ``DescriptorsLost`` if it could not have done otherwise."""
        try:
            os.close(os.dup(self._stop))
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.EBADF):
                raise DescriptorsLost(f"no descriptor is left to connect with: {error.strerror}") from None
            raise


def _identity(fd: int) -> tuple[int, int]:
    """(0, 0): there is none."""
    try:
        found = os.fstat(fd)
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino
