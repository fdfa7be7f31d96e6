"""``Client`` and ``AsyncClient``: send signals, ask what became of them, look at states and dead letters.

Both are thin: each method runs the same call or Op, one on a blocking, one on an awaited connection.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from regrow_signals import mailbox, strict_json, views
from regrow_signals.async_connection import AsyncConnection
from regrow_signals.calls import Call, Op
from regrow_signals.connection import Connection
from regrow_signals.creation import Creation, create_and_send
from regrow_signals.durations import Duration, to_seconds
from regrow_signals.effect_progress import Progress, stored_progress, watch, watch_async
from regrow_signals.errors import BadInput, FateUnknown, RegrowError
from regrow_signals.ids import check_id, check_type, new_id
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.listeners import Listeners
from regrow_signals.mailbox import BULK, Outgoing, Receipt, Status
from regrow_signals.reply_places import ClientPlace
from regrow_signals.signal import SOURCE, Payload, Signal

__all__ = ["AsyncClient", "AsyncSentReceipt", "Calls", "Client", "Message", "SentReceipt", "StateParser"]

S_co = TypeVar("S_co", covariant=True)
S = TypeVar("S")

Listed = list[tuple[str, dict[str, str]]]


class StateParser(Protocol[S_co]):
    """What reads an agent's stored state: an ``Agent`` class is one."""

    def parse_state(self, text: str, schema: int) -> S_co: ...


@dataclass(frozen=True, slots=True)
class Message:
    """One signal of ``send_many``: to whom, what, and (if a repeat is to be recognised) under which id."""

    to: str
    what: Payload | str
    data: object = None
    id: str | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class SentReceipt(Receipt):
    """The receipt of a sent signal, with the client to ask by."""

    client: Client | None = field(default=None, compare=False, repr=False)

    def status(self) -> Status:
        """What became of the signal, as Redis tells it now."""
        return self._asked().status(self)

    def wait(self, timeout: Duration = 5.0) -> Status:
        """Ask until the signal is applied, dead, dropped, retried or unknown; ``pending`` when time ran out first."""
        client = self._asked()
        for pause in _pauses(to_seconds(timeout, "timeout", zero=True)):
            found = client.status(self)
            if found.is_final:
                return found
            time.sleep(pause)
        return client.status(self)

    def _asked(self) -> Client:
        if self.client is None:
            raise TypeError("this receipt was not made by a Client: ask client.status(receipt)")
        return self.client


@dataclass(frozen=True, slots=True)
class AsyncSentReceipt(Receipt):
    """As ``SentReceipt``, awaited."""

    client: AsyncClient | None = field(default=None, compare=False, repr=False)

    async def status(self) -> Status:
        """What became of the signal, as Redis tells it now."""
        return await self._asked().status(self)

    async def wait(self, timeout: Duration = 5.0) -> Status:
        """As ``SentReceipt.wait``."""
        import asyncio  # large: who imports regrow and never awaits does without

        client = self._asked()
        for pause in _pauses(to_seconds(timeout, "timeout", zero=True)):
            found = await client.status(self)
            if found.is_final:
                return found
            await asyncio.sleep(pause)
        return await client.status(self)

    def _asked(self) -> AsyncClient:
        if self.client is None:
            raise TypeError("this receipt was not made by an AsyncClient: await client.status(receipt)")
        return self.client


class Calls:
    """What both clients ask: names, bounds, and the calls made of them."""

    def __init__(self, namespace: str, limits: Limits) -> None:
        self.keys = Keys(namespace)
        self.limits = limits

    def outgoing(self, agent: str, what: Payload | Signal | str, data: object, **attributes: Any) -> Outgoing:
        return Outgoing(check_id(agent, "agent"), self.signal(what, data, **attributes))

    def signal(self, what: Payload | Signal | str, data: object, **attributes: Any) -> Signal:
        """A checked signal; of a whole one, what is given besides takes the place of its own."""
        if not isinstance(what, Signal):
            return Signal.of(what, data, limits=self.limits, **attributes)
        if data is not None:
            raise BadInput("give a signal, or a type name and data, not both")
        given = {name: value for name, value in attributes.items() if value is not None}
        if given.get("source") == SOURCE:
            del given["source"]  # nobody named one
        signal = replace(what, **given)
        check_id(signal.id, "signal id")
        check_type(signal.type)
        strict_json.check(
            signal.data,
            max_bytes=self.limits.max_signal_bytes,
            max_depth=self.limits.max_json_depth,
            what=f"data of {signal.type}",
        )
        signal.check_attributes(self.limits)
        return signal

    def asking(
        self,
        agent: str,
        what: Payload | Signal | str,
        data: object,
        *,
        id: str | None,  # noqa: A002
        **attributes: Any,
    ) -> Outgoing:
        """A signal whose reply the client waits for: where it is to go depends on the id, so that is made first."""
        own = what.id if isinstance(what, Signal) else new_id()
        name = own if id is None else check_id(id, "signal id")
        place = ClientPlace(check_id(agent, "agent"), name)
        return self.outgoing(agent, what, data, id=name, replyto=place.text, **attributes)

    def send(self, out: Outgoing) -> Call[Receipt]:
        return mailbox.send(self.keys, self.limits, out.agent, out.signal, remember=out.remember)

    def create(self, out: Outgoing, made: Creation) -> Call[Receipt]:
        return create_and_send(self.keys, self.limits, made, out)

    def bulk(self, messages: Sequence[Message]) -> list[Outgoing]:
        """All messages checked before the first is sent; only given ids are remembered."""
        return [
            Outgoing(
                check_id(message.to, "agent"),
                Signal.of(
                    message.what, message.data, id=message.id, subject=message.subject, limits=self.limits
                ),
                remember=message.id is not None,
            )
            for message in messages
        ]

    def send_bulk(self, outgoing: Sequence[Outgoing]) -> Op[list[Receipt | RegrowError]]:
        """Call after call; what a lost answer leaves open is ``FateUnknown`` with its receipt, in its place."""
        results: list[Receipt | RegrowError] = []
        for start in range(0, len(outgoing), BULK):
            part = outgoing[start : start + BULK]
            try:
                results += yield mailbox.send_many(self.keys, self.limits, part)
            except FateUnknown as error:
                results += [unknown_fate(out, str(error)) for out in part]
            except RegrowError as error:
                if not results:
                    raise
                results += [error] * (len(outgoing) - start)
                break
        return results


class Client:
    """A blocking client of one namespace. One thread uses it at a time; close it, or use it as a context manager."""

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "regrow",
        limits: Limits = Limits(),  # noqa: B008  frozen
        timeout: float = 5.0,
        name: str = "regrow-client",
    ) -> None:
        self._calls = Calls(namespace, limits)
        self._url = url
        self.connection = Connection.open(url, name=name, timeout=timeout)

    @property
    def keys(self) -> Keys:
        """The key names of the client's namespace."""
        return self._calls.keys

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection."""
        self.connection.close()

    def send(
        self,
        agent: str,
        what: Payload | Signal | str,
        data: object = None,
        *,
        id: str | None = None,  # noqa: A002  CloudEvents' word
        subject: str | None = None,
        source: str = SOURCE,
        time: str | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
        causationid: str | None = None,
        replyto: str | None = None,
    ) -> SentReceipt:
        """Send one signal: a payload, or a type name and data. It is accepted when this returns.

        Raises ``BadInput`` kinds before anything is sent, ``NoSuchAgent``, ``MailboxFull``, ``DeadLettersFull``,
        ``IdConflict``, ``StoreUnavailable``; and ``FateUnknown``, whose ``receipt`` can be asked about.
        """
        out = self._calls.outgoing(
            agent, what, data, id=id, subject=subject, source=source, time=time,
            traceparent=traceparent, tracestate=tracestate, causationid=causationid, replyto=replyto,
        )  # fmt: skip
        return self._deliver(out, self._calls.send(out))

    def send_many(self, messages: Sequence[Message]) -> list[SentReceipt | RegrowError]:
        """Send many signals in few round trips, each standing alone: a refused one leaves its error in its place."""
        outgoing = self._calls.bulk(messages)
        results = self.connection.run(self._calls.send_bulk(outgoing))
        return [self._sent(result) if isinstance(result, Receipt) else result for result in results]

    def status(self, receipt: Receipt) -> Status:
        """What became of a signal, as Redis tells it now."""
        return self.connection.call(mailbox.status(self.keys, receipt))

    def state(self, agent: str, agent_type: StateParser[S]) -> S:
        """The agent's last committed state, typed. ``NoSuchAgent`` when it is not registered."""
        return agent_type.parse_state(
            *self.connection.run(views.stored_state(self.keys, agent, _names_of(agent_type)))
        )

    def effect_progress(self, effect: str) -> Progress | None:
        """How far an effect was when it last said so; None if it has said nothing, or is settled."""
        record: dict[str, str] = self.connection.command(views.effect_record(self.keys, effect))
        return stored_progress(effect, record)

    def watch_progress(self, agent: str, *, timeout: Duration | None = None) -> Generator[Progress]:
        """What the effects of an agent report from now on, each as it comes; on a connection of its own.

        Ends when none came for ``timeout`` seconds (None: never), or by the iterator's ``close()``. Raises
        ``StoreUnavailable`` when the connection is lost.
        """
        wait = None if timeout is None else to_seconds(timeout, "timeout")
        return watch(self._url, self.keys, check_id(agent, "agent"), wait)

    def dead_letters(self, agent: str, *, after: str = "", count: int = 100) -> Listed:
        """Dead letters of the agent, the oldest first: id of the letter, and its fields."""
        return self.connection.command(views.dead_letters(self.keys, agent, after=after, count=count))

    def dead_retry(self, agent: str, letter: str) -> SentReceipt:
        """Send a dead letter's signal once more, as ``<id>:retry-<n>``."""
        return self._sent(
            self.connection.run(mailbox.dead_retry(self.keys, self._calls.limits, agent, letter))
        )

    def dead_drop(self, agent: str, letter: str) -> str:
        """Give up a dead letter for good; the value is its signal's id."""
        return self.connection.call(mailbox.dead_drop(self.keys, self._calls.limits, agent, letter))

    def _deliver(self, out: Outgoing, call: Call[Receipt]) -> SentReceipt:
        """Make the call; a lost answer carries the receipt to ask by."""
        try:
            return self._sent(self.connection.call(call))
        except FateUnknown as error:
            error.receipt = self._sent(Receipt(out.agent, out.signal.id))
            raise

    def _sent(self, receipt: Receipt) -> SentReceipt:
        return SentReceipt(*_values(receipt), client=self)


class AsyncClient:
    """An awaited client of one namespace; methods are those of ``Client``. Tasks of one event loop may share it."""

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "regrow",
        limits: Limits = Limits(),  # noqa: B008  frozen
        timeout: float = 5.0,
        name: str = "regrow-client",
    ) -> None:
        self._calls = Calls(namespace, limits)
        self._url = url
        self.connection = AsyncConnection.open(url, name=name, timeout=timeout)
        self._listeners = Listeners(lambda: AsyncConnection.open(url, name=name, timeout=timeout))

    @property
    def keys(self) -> Keys:
        """The key names of the client's namespace."""
        return self._calls.keys

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Drop the connections."""
        await self._listeners.close()
        await self.connection.close()

    async def send(
        self,
        agent: str,
        what: Payload | Signal | str,
        data: object = None,
        *,
        id: str | None = None,  # noqa: A002  CloudEvents' word
        subject: str | None = None,
        source: str = SOURCE,
        time: str | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
        causationid: str | None = None,
        replyto: str | None = None,
    ) -> AsyncSentReceipt:
        """As ``Client.send``. A cancelled one has an unknown fate: send the same id again."""
        out = self._calls.outgoing(
            agent, what, data, id=id, subject=subject, source=source, time=time,
            traceparent=traceparent, tracestate=tracestate, causationid=causationid, replyto=replyto,
        )  # fmt: skip
        return await self._deliver(out, self._calls.send(out))

    async def send_many(self, messages: Sequence[Message]) -> list[AsyncSentReceipt | RegrowError]:
        """As ``Client.send_many``."""
        outgoing = self._calls.bulk(messages)
        results = await self.connection.run(self._calls.send_bulk(outgoing))
        return [self._sent(result) if isinstance(result, Receipt) else result for result in results]

    async def status(self, receipt: Receipt) -> Status:
        """What became of a signal, as Redis tells it now."""
        return await self.connection.call(mailbox.status(self.keys, receipt))

    async def state(self, agent: str, agent_type: StateParser[S]) -> S:
        """The agent's last committed state, typed."""
        return agent_type.parse_state(
            *await self.connection.run(views.stored_state(self.keys, agent, _names_of(agent_type)))
        )

    async def effect_progress(self, effect: str) -> Progress | None:
        """As ``Client.effect_progress``."""
        record: dict[str, str] = await self.connection.command(views.effect_record(self.keys, effect))
        return stored_progress(effect, record)

    def watch_progress(self, agent: str, *, timeout: Duration | None = None) -> AsyncGenerator[Progress]:
        """As ``Client.watch_progress``: ``async for``."""
        wait = None if timeout is None else to_seconds(timeout, "timeout")
        return watch_async(self._url, self.keys, check_id(agent, "agent"), wait)

    async def dead_letters(self, agent: str, *, after: str = "", count: int = 100) -> Listed:
        """As ``Client.dead_letters``."""
        return await self.connection.command(views.dead_letters(self.keys, agent, after=after, count=count))

    async def dead_retry(self, agent: str, letter: str) -> AsyncSentReceipt:
        """As ``Client.dead_retry``."""
        op = mailbox.dead_retry(self.keys, self._calls.limits, agent, letter)
        return self._sent(await self.connection.run(op))

    async def dead_drop(self, agent: str, letter: str) -> str:
        """As ``Client.dead_drop``."""
        return await self.connection.call(mailbox.dead_drop(self.keys, self._calls.limits, agent, letter))

    async def _deliver(self, out: Outgoing, call: Call[Receipt]) -> AsyncSentReceipt:
        """As ``Client._deliver``."""
        try:
            return self._sent(await self.connection.call(call))
        except FateUnknown as error:
            error.receipt = self._sent(Receipt(out.agent, out.signal.id))
            raise

    def _sent(self, receipt: Receipt) -> AsyncSentReceipt:
        return AsyncSentReceipt(*_values(receipt), client=self)


def _names_of(agent_type: object) -> tuple[str, ...]:
    """What an agent's class may be called in Redis; nothing is known of another reader."""
    definition: Any = getattr(agent_type, "definition", None)
    return () if definition is None else (definition.name, *definition.aliases)


def _values(receipt: Receipt) -> tuple[str, str, str, str, bool, bool]:
    return (
        receipt.agent, receipt.signal_id, receipt.entry, receipt.birth, receipt.duplicate, receipt.remembered,
    )  # fmt: skip


def unknown_fate(out: Outgoing, message: str) -> FateUnknown:
    """Nobody knows whether it was accepted; the error carries the receipt to ask by."""
    error = FateUnknown(message)
    error.receipt = Receipt(out.agent, out.signal.id, remembered=out.remember)
    return error


def _pauses(timeout: float) -> Iterator[float]:
    """Pauses between questions, from 1 ms to 50 ms, that add up to the timeout."""
    end = time.monotonic() + timeout
    pause = 0.001
    while (left := end - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(pause * 1.5, 0.05)
