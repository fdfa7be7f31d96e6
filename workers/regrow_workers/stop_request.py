"""A worker's being asked to stop: a flag for between two signals, a descriptor that ends a blocking read."""

from __future__ import annotations

import signal
import socket
from types import FrameType

__all__ = ["StopRequest"]


class StopRequest:
    """``requested`` once the operating-system signal has come; ``fileno`` is readable from then on."""

    def __init__(self) -> None:
        self.requested = False
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    @classmethod
    def on(cls, number: int) -> StopRequest:
        """Requested when ``number`` comes. Main thread only; takes the process's wakeup descriptor."""
        request = cls()
        signal.set_wakeup_fd(request._writer.fileno(), warn_on_full_buffer=False)
        signal.signal(number, request._handle)
        return request

    def fileno(self) -> int:
        return self._reader.fileno()

    def request(self) -> None:
        self.requested = True
        self._writer.send(b".")

    def let_go(self) -> None:
        """In a copy of the process: what is written here would wake the process itself."""
        self._reader.close()
        self._writer.close()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.requested = True
