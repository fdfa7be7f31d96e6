"""A thread's inbox: others post, the owner's selector wakes."""

from __future__ import annotations

import select
import socket
from collections import deque
from typing import Generic, TypeVar

__all__ = ["Inbox"]

T = TypeVar("T")


class Inbox(Generic[T]):
    """Many posters, one taker. ``post`` never blocks; order is kept for each poster."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def fileno(self) -> int:
        return self._reader.fileno()

    def post(self, item: T) -> None:
        self._items.append(item)
        self.wake()

    def wake(self) -> None:
        """End the taker's wait, also for nothing."""
        try:
            self._writer.send(b".")
        except OSError:
            # Full: the taker is woken already. Closed: nobody takes any more.
            return

    def wait(self, seconds: float) -> None:
        """Until something was posted, somebody called ``wake``, or the time is over."""
        if not self._items:
            select.select([self._reader], [], [], max(0.0, seconds))

    def __bool__(self) -> bool:
        return bool(self._items)

    def take(self) -> list[T]:
        """All that was posted, oldest first."""
        try:
            # One read may leave bytes behind: that is one wake-up for nothing, never one too few.
            self._reader.recv(1 << 16)
        except BlockingIOError:
            pass
        taken: list[T] = []
        while self._items:
            taken.append(self._items.popleft())
        return taken

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
