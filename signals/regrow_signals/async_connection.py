"""The same connection policy, awaited. See ``connection.py`` for its four rules.

One task at a time uses the socket: a lock keeps others waiting, since answers come in the order of commands. A
cancelled task drops the socket, so that its answer can reach nobody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from regrow_signals.calls import Arg, Call, Command, Op
from regrow_signals.errors import RegrowError, StoreUnavailable
from regrow_signals.exchange import (
    Batch,
    Entries,
    Item,
    Lost,
    exchange,
    lost_error,
    may_repeat,
    new_reader,
    stream_command,
    wait_of,
)
from regrow_signals.server_url import check_url, mask_url

if TYPE_CHECKING:
    from regrow_signals.redis_py_links import AsyncLink

__all__ = ["AsyncConnection"]

T = TypeVar("T")

RECEIVE_BYTES: Final = 65536


class AsyncConnection:
    """A lazy awaited connection of one event loop; methods are those of ``Connection``."""

    def __init__(self, url: str, *, name: str = "", timeout: float = 5.0) -> None:
        self.where: Final = mask_url(url)
        self.timeout: Final = timeout
        self.generation = 0
        self._name = name
        check_url(url)
        self._url = url
        self._link: AsyncLink | None = None
        import asyncio  # large: who imports regrow and never awaits does without

        self._lock = asyncio.Lock()
        self._reader = new_reader()
        self._loaded: set[str] = set()
        self._prelude: list[tuple[Arg, ...]] = []

    @classmethod
    def open(cls, url: str, *, name: str = "", timeout: float = 5.0) -> AsyncConnection:
        """A connection to ``url``; nothing is sent before its first use."""
        return cls(url, name=name, timeout=timeout)

    async def __aenter__(self) -> AsyncConnection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def call(self, call: Call[T]) -> T:
        """As ``Connection.call``."""
        return cast("T", _value(await self._exchange((call,))))

    async def command(self, command: Command[T]) -> T:
        """As ``Connection.command``."""
        return cast("T", _value(await self._exchange((command,), command.wait)))

    async def run(self, op: Op[T]) -> T:
        """As ``Connection.run``."""
        try:
            step = next(op)
            while True:
                try:
                    answer = _value(await self._exchange((step,), wait_of(step)))
                except RegrowError as error:
                    step = op.throw(error)
                else:
                    step = op.send(answer)
        except StopIteration as end:
            return cast("T", end.value)

    async def pipeline(self, items: Sequence[Item]) -> list[Any]:
        """As ``Connection.pipeline``."""
        return await self._exchange(items) if items else []

    async def read_stream(self, key: str, after: str, *, count: int, block_ms: int | None = None) -> Entries:
        """As ``Connection.read_stream``; cancel the task to interrupt it."""
        command = stream_command(key, after, count, block_ms)
        return cast("Entries", _value(await self._exchange((command,), (block_ms or 0) / 1000)))

    def is_connected(self) -> bool:
        """Is there a socket that the server has not closed, as far as the event loop has heard?"""
        return self._link is not None and not self._link.at_eof()

    async def close(self) -> None:
        """Close the socket and wait, briefly, until that is done: with TLS both sides say goodbye.

        The connection may be used again and then connects anew.
        """
        link, self._link = self._link, None
        if link is not None:
            from regrow_signals import redis_py_links  # slow and large: workers never await

            await redis_py_links.close(link)

    async def _drop(self) -> None:
        """Let go of a socket whose answers cannot be trusted any more; nobody waits for its other side."""
        link, self._link = self._link, None
        if link is not None:
            await link.disconnect(nowait=True)

    async def _exchange(self, items: Sequence[Item], wait: float = 0.0) -> list[Any]:
        async with self._lock:
            sent = False
            for attempt in (1, 2):
                try:
                    return await self._attempt(items, wait)
                except Lost as lost:
                    await self._drop()
                    sent = sent or lost.sent
                    if attempt == 2 or (lost.sent and not may_repeat(items)):
                        raise lost_error(items, self.where, str(lost), sent=sent) from None
                except StoreUnavailable as error:
                    await self._drop()
                    if not sent:
                        raise
                    raise lost_error(items, self.where, str(error), sent=sent) from None
                except BaseException:  # a cancel too: the answer is still on its way
                    await self._drop()
                    raise
            raise AssertionError("unreachable")

    async def _attempt(self, items: Sequence[Item], wait: float) -> list[Any]:
        link = await self._connected()
        if link.at_eof():
            raise Lost("the server had closed the connection", sent=False)
        talk = exchange(items, self._loaded, self.where, self._prelude)
        try:
            batch = next(talk)
            while True:
                batch = talk.send(await self._round_trip(link, batch, wait))
        except StopIteration as end:
            self._prelude = []
            return cast("list[Any]", end.value)

    async def _connected(self) -> AsyncLink:
        if self._link is not None:
            return self._link
        from regrow_signals import redis_py_links  # slow and large: workers never await

        link = redis_py_links.new_async_link(self._url, self.timeout)
        try:
            await link.connect()
        except redis_py_links.CONNECT_ERRORS as error:
            await link.disconnect(nowait=True)
            raise redis_py_links.connect_error(error, self.where) from None
        except BaseException:
            await link.disconnect(nowait=True)
            raise
        self._link = link
        self._reader = new_reader()
        self._loaded = set()
        self._prelude = [("CLIENT", "SETNAME", self._name)] if self._name else []
        self.generation += 1
        return link

    async def _round_trip(self, link: AsyncLink, batch: Batch, wait: float) -> list[Any]:
        import asyncio  # as above

        found: list[Any] = []
        try:
            async with asyncio.timeout(self.timeout + wait):
                await link.send(batch.data)
                while len(found) < batch.answers:
                    answer: Any = self._reader.gets()
                    if answer is not False:
                        found.append(answer)
                        continue
                    data = await link.receive(RECEIVE_BYTES)
                    if not data:
                        raise Lost("the server closed the connection", sent=True)
                    self._reader.feed(data)
        except TimeoutError:
            raise Lost("no answer in time", sent=True) from None
        except OSError as error:
            raise Lost(f"connection lost: {error.strerror or error}", sent=True) from None
        return found


def _value(results: list[Any]) -> Any:
    result = results[0]
    if isinstance(result, RegrowError):
        raise result
    return result
