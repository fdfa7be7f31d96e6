"""A ``Connection`` to a ``MemoryServer``: the real policy and protocol, with a function call where the socket was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regrow.testing.memory_server import MemoryServer
from regrow_signals.connection import Connection
from regrow_signals.exchange import Batch

__all__ = ["MemoryConnection"]


class MemoryConnection(Connection):
    """``idle``, where given, is called when a command would wait: it lets the others go on; then it is asked again."""

    def __init__(self, server: MemoryServer, *, idle: Callable[[], object] | None = None) -> None:
        super().__init__("unix:///in-memory")
        self._server = server
        self._idle = idle
        self._open = False
        self._loaded = server.known_scripts
        self._sent = b""
        self._answers: list[Any] = []

    def fileno(self) -> int | None:
        """None before the first use; there is no descriptor."""
        return -1 if self._open else None

    def close(self) -> None:
        """The connection may be used again, and is then another one."""
        self._open = False

    def _ensure_connected(self) -> None:
        if not self._open:
            self._open = True
            self.generation += 1

    def _send(self, batch: Batch, *, again: bool = False) -> None:
        del again
        self._sent = batch.data
        self._answers = self._server.execute(batch.data)

    def _receive(self, answers: int, wait: float, interruptible: bool) -> list[Any]:
        del answers, interruptible
        if wait > 0 and self._idle is not None and self._answers[0] in (None, []):
            sent = self._sent
            self._idle()
            self._answers = self._server.execute(sent)
        return self._answers
