"""A worker's being asked to stop: a flag for between two signals, a descriptor that ends a blocking read."""

from __future__ import annotations

import signal
import socket
from types import FrameType

__all__ = ["StopRequest"]


class StopRequest:
    """``requested`` once the operating-system signal has come; ``fileno`` is readable from then on."""

    _number = 0
    """Of the operating system's signal; 0: it is asked by nobody but its own process."""

    def __init__(self) -> None:
        self.requested = False
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    @classmethod
    def on(cls, number: int) -> StopRequest:
        """Requested when ``number`` comes. Main thread only; takes the process's wakeup descriptor."""
        request = cls()
        request._number = number
        request.rearm()
        return request

    def rearm(self) -> None:
        """Listen (again): between two signals, for a handler may have set or ignored the operating system's."""
        if self._number:
            signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
            signal.signal(self._number, self._handle)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (self._number,))

    def look(self) -> None:
        """After a wait that ``fileno`` ended: was it a request, or one of a handler's own signals?"""
        if self.requested or not self._number:
            return
        try:
            came = self._reader.recv(4096)
        except BlockingIOError:
            return
        if self._number in came:
            self.request()

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
