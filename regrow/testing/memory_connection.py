"""A ``Connection`` to a ``MemoryServer``: the real policy and protocol, with a function call where the socket was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from regrow.testing.memory_server import MemoryServer
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.exchange import Item, exchange

__all__ = ["MemoryConnection"]


class MemoryConnection(Connection):
    """``idle``, where given, is called when a command would wait: it lets the others go on; then it is asked again."""

    def __init__(self, server: MemoryServer, *, idle: Callable[[], object] | None = None) -> None:
        super().__init__("unix:///in-memory")
        self._server = server
        self._idle = idle
        self._open = False
        self._loaded = server.known_scripts

    def fileno(self) -> int | None:
        """None before the first use; there is no descriptor."""
        return -1 if self._open else None

    def close(self) -> None:
        """The connection may be used again, and is then another one."""
        self._open = False

    def _attempt(self, items: Sequence[Item], wait: float, interruptible: bool) -> list[Any]:
        del interruptible
        if not self._open:
            self._open = True
            self.generation += 1
        answers = self._exchange_once(items)
        if (wait or _waits(items)) and self._idle is not None and answers[0] in (None, []):
            self._idle()
            answers = self._exchange_once(items)
        return answers

    def _exchange_once(self, items: Sequence[Item]) -> list[Any]:
        talk = exchange(items, self._loaded, self.where)
        try:
            batch = next(talk)
            while True:
                batch = talk.send(self._server.execute(batch.data))
        except StopIteration as end:
            found: list[Any] = end.value
            return found


def _waits(items: Sequence[Item]) -> bool:
    first = items[0]
    return isinstance(first, Command) and first.words[0] == "BLPOP"
