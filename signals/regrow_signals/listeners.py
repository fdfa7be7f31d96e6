"""Connections in which tasks of an ``AsyncClient`` wait for replies: in a shared one, others would wait with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from regrow_signals.async_connection import AsyncConnection
from regrow_signals.calls import Op

__all__ = ["Listeners"]

T = TypeVar("T")

MOST: Final = 256
"""Waits at once; who comes later stands in line until one of them is over."""

KEPT: Final = 64
"""Connections that are kept for the next wait."""


class Listeners:
    """Opened when they are needed; each is used by one task at a time."""

    def __init__(self, open_one: Callable[[], AsyncConnection]) -> None:
        import asyncio  # large: who imports regrow and never awaits does without

        self._open = open_one
        self._room = asyncio.Semaphore(MOST)
        self._free: list[AsyncConnection] = []

    async def run(self, op: Op[T]) -> T:
        """Run an Op that waits in the server, on a connection of its own."""
        async with self._room:
            connection = self._free.pop() if self._free else self._open()
            try:
                return await connection.run(op)
            finally:
                if len(self._free) < KEPT:
                    self._free.append(connection)
                else:
                    await connection.close()

    async def close(self) -> None:
        """Drop those that nobody uses."""
        while self._free:
            await self._free.pop().close()
