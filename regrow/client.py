"""The two clients as users import them: made from the environment, and able to speak to supervisors.

The rooms below know signals; calls to supervisors take child specs, so they are added here. Both clients run the same
Ops (``regrow/control.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from regrow import control
from regrow.control import TIMEOUT, ChildCounts, ChildInfo, StartedChild
from regrow_signals import client
from regrow_signals.asks import ASK_SECONDS, await_reply, read_answer
from regrow_signals.calls import Call
from regrow_signals.client import AsyncSentReceipt, Message, SentReceipt
from regrow_signals.creation import Creation
from regrow_signals.deletion import Deleted, delete_agent
from regrow_signals.durations import Duration, to_seconds
from regrow_signals.errors import BadSetting, FateUnknown, RegrowError, StoreError
from regrow_signals.limits import Limits
from regrow_signals.mailbox import Outgoing, Receipt
from regrow_signals.publishing import Published, publish
from regrow_signals.signal import SOURCE, Payload, Signal
from regrow_signals.subscriptions import Policy, Subscription, subscribe, subscriptions, unsubscribe
from regrow_supervisor.spec import Supervisor
from regrow_workers.child_spec import ChildSpec

if TYPE_CHECKING:
    from regrow.settings import Settings

__all__ = ["AsyncClient", "Client", "server_url"]

T = TypeVar("T")

CREATED_AT_ONCE = 100
"""Signals with ``create`` in one round trip."""


class Client(client.Client):
    __doc__ = client.Client.__doc__

    @classmethod
    def from_env(cls, *, namespace: str | None = None) -> Self:
        """A client of the server that ``REDIS_URL`` names, else of the one that ``regrow up`` runs here.

        Raises BadSetting when there is neither, or when a setting is wrong. Connects at first use.
        """
        settings = _settings(namespace)
        return cls(server_url(settings), namespace=settings.namespace, limits=settings.limits)

    def __enter__(self) -> Self:
        return self

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
        create: ChildSpec | None = None,
    ) -> SentReceipt:
        """Send one signal: a payload, or a type name and data. It is accepted when this returns.

        ``create=Support.child(under="helpdesk/chats")``: where the agent is not registered, it is, and the dynamic
        supervisor of that path is asked to start it, in the same step. Of several senders one creates it. An agent
        that is there just gets the signal, whether it runs or not.

        Raises ``BadInput`` kinds before anything is sent, ``NoSuchAgent``, ``MailboxFull``, ``DeadLettersFull``,
        ``IdConflict``, with ``create`` also ``SupervisorNotFound`` and ``NotDynamic``; ``StoreUnavailable``; and
        ``FateUnknown``, whose ``receipt`` can be asked about.
        """
        out = self._calls.outgoing(
            agent, what, data, id=id, subject=subject, source=source, time=time,
            traceparent=traceparent, tracestate=tracestate, causationid=causationid, replyto=replyto,
        )  # fmt: skip
        return self._deliver(out, _accepting(self._calls, out, create))

    def send_many(
        self, messages: Sequence[Message], *, create: ChildSpec | None = None
    ) -> list[SentReceipt | RegrowError]:
        """Send many signals in few round trips, each standing alone: a refused one leaves its error in its place.

        ``create=Support.child(under="helpdesk/chats")``: as with ``send``, for every agent that is not there yet.
        Only signals with an id of their own are remembered.
        """
        if create is None:
            return super().send_many(messages)
        results: list[SentReceipt | RegrowError] = []
        for part, calls in _creating(self._calls, messages, create):
            try:
                answers = self.connection.pipeline(calls)
            except FateUnknown as error:
                answers = [client.unknown_fate(out, str(error)) for out in part]
            except StoreError as error:
                if not results:
                    raise
                results += [error] * (len(messages) - len(results))
                break
            results += [self._sent(each) if isinstance(each, Receipt) else each for each in answers]
        return results

    @overload
    def ask(
        self,
        agent: str,
        what: Payload | Signal | str,
        data: object = None,
        *,
        timeout: Duration = ASK_SECONDS,
        id: str | None = None,
        subject: str | None = None,
        source: str = SOURCE,
        traceparent: str | None = None,
        tracestate: str | None = None,
        create: ChildSpec | None = None,
        as_: None = None,
    ) -> Any: ...
    @overload
    def ask(
        self,
        agent: str,
        what: Payload | Signal | str,
        data: object = None,
        *,
        timeout: Duration = ASK_SECONDS,
        id: str | None = None,
        subject: str | None = None,
        source: str = SOURCE,
        traceparent: str | None = None,
        tracestate: str | None = None,
        create: ChildSpec | None = None,
        as_: type[T],
    ) -> T: ...
    def ask(
        self,
        agent: str,
        what: Payload | Signal | str,
        data: object = None,
        *,
        timeout: Duration = ASK_SECONDS,
        id: str | None = None,  # noqa: A002  CloudEvents' word
        subject: str | None = None,
        source: str = SOURCE,
        traceparent: str | None = None,
        tracestate: str | None = None,
        create: ChildSpec | None = None,
        as_: type[T] | None = None,
    ) -> T | Any:
        """Send a signal and wait for what a handler gives to ``Reply(value, to=ctx.reply_to)``, now or signals later.

        ``as_``: the value as a model of yours, or any type that pydantic knows; ``BadPayload`` if it does not fit.
        The same id asked again gives the same reply, and the signal is applied once (as long as ids are remembered).

        Raises what ``send`` raises; ``Dead`` as soon as the signal is a dead letter; ``AskTimeout``, whose ``state``
        says what became of the signal so far. Both have the ``receipt``, as ``FateUnknown`` has.
        """
        seconds = to_seconds(timeout, "timeout", zero=True)
        out = self._calls.asking(
            agent,
            what,
            data,
            id=id,
            subject=subject,
            source=source,
            traceparent=traceparent,
            tracestate=tracestate,
        )
        receipt = self._deliver(out, _accepting(self._calls, out, create))
        value = self.connection.run(await_reply(self.keys, self._calls.limits, receipt, seconds))
        return value if as_ is None else read_answer(value, as_, receipt)

    def publish(
        self,
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
    ) -> Published[SentReceipt]:
        """Send one signal to every agent that subscribes to its type, in one step; each by itself takes or refuses it.

        Publishing the same id again changes nothing for those that have it. Raises ``BadInput`` kinds,
        ``TooManySubscribers`` (then nobody got it), ``StoreUnavailable``; after ``FateUnknown`` publish the id again.
        """
        signal = self._calls.signal(
            what, data, id=id, subject=subject, source=source, time=time,
            traceparent=traceparent, tracestate=tracestate, causationid=causationid,
        )  # fmt: skip
        told = self.connection.call(publish(self.keys, self._calls.limits, signal))
        return Published(told.signal_id, tuple(map(self._sent, told.receipts)), told.refused)

    def subscribe(self, agent: str, pattern: str, *, priority: int = 0, policy: Policy = "refuse") -> bool:
        """Have an agent get what is published under types that ``pattern`` fits; whether that is new.

        ``*`` is one segment of a type, ``**`` any number, also none. The higher priority (-100 to 100) is served first.
        ``policy`` says what a full mailbox does: ``refuse``, ``hold`` or ``latest``. Raises ``NoSuchAgent``,
        ``SubscriptionsFull``.
        """
        return self.connection.call(
            subscribe(self.keys, self._calls.limits, agent, pattern, priority=priority, policy=policy)
        )

    def unsubscribe(self, agent: str, pattern: str) -> bool:
        """End a subscription; whether there was one. A child spec's own comes back when the spec says something new."""
        return self.connection.call(unsubscribe(self.keys, agent, pattern))

    def subscriptions(
        self,
        agent: str | None = None,
        *,
        type: str | None = None,  # noqa: A002  CloudEvents' word
    ) -> list[Subscription]:
        """Subscriptions of all agents, or of one; with ``type``, whom such a signal would reach, in that order."""
        return self.connection.run(subscriptions(self.keys, agent=agent, type_name=type))

    def start_child(
        self, supervisor: str, spec: ChildSpec | Supervisor, *, timeout: Duration = TIMEOUT
    ) -> StartedChild:
        """Put a child under a running supervisor (its path: ``"helpdesk/chats"``) and start it.

        Returns when it runs, or waits for a node. Raises ``AlreadyStarted``, ``AlreadyPresent``, ``MaxChildren``,
        ``StartFailed`` (nothing stays on record), ``SupervisorNotFound``; ``FateUnknown`` when nobody answered in time.
        """
        return self.connection.run(control.start_child(self.keys, supervisor, spec, timeout=timeout))

    def terminate_child(self, supervisor: str, child: str, *, timeout: Duration = TIMEOUT) -> None:
        """Stop a child; returns when it has ended. It stays on record (not a temporary one, nor a dynamic child).

        As in OTP a group restart may bring it back: ``regrow stop`` is what keeps a child down. ``ChildNotFound``.
        """
        self.connection.run(
            control.child_call(self.keys, "terminate_child", supervisor, child, timeout=timeout)
        )

    def restart_child(self, supervisor: str, child: str, *, timeout: Duration = TIMEOUT) -> StartedChild:
        """Start a child that was terminated. ``ChildNotFound``, ``StillRunning``, ``StillRestarting``."""
        return self.connection.run(control.restart_child(self.keys, supervisor, child, timeout=timeout))

    def delete_child(self, supervisor: str, child: str, *, timeout: Duration = TIMEOUT) -> None:
        """Forget the spec of a child that does not run; its agent stays registered, with state and mailbox."""
        self.connection.run(control.child_call(self.keys, "delete_child", supervisor, child, timeout=timeout))

    def which_children(self, supervisor: str, *, timeout: Duration = TIMEOUT) -> list[ChildInfo]:
        """Every child, the one started last first."""
        return self.connection.run(control.which_children(self.keys, supervisor, timeout=timeout))

    def count_children(self, supervisor: str, *, timeout: Duration = TIMEOUT) -> ChildCounts:
        """How many specs, living children, supervisors, workers."""
        return self.connection.run(control.count_children(self.keys, supervisor, timeout=timeout))

    def delete(self, agent: str, *, force: bool = False) -> Deleted:
        """Forget an agent that no supervisor has on record any more: state, mailbox, dead letters, all.

        ``Refused`` while it is on record or may run; without ``force`` also while it has signals, letters or effects.
        """
        return self.connection.run(delete_agent(self.keys, self._calls.limits, agent, force=force))


class AsyncClient(client.AsyncClient):
    __doc__ = client.AsyncClient.__doc__

    @classmethod
    def from_env(cls, *, namespace: str | None = None) -> Self:
        """As ``Client.from_env``."""
        settings = _settings(namespace)
        return cls(server_url(settings), namespace=settings.namespace, limits=settings.limits)

    async def __aenter__(self) -> Self:
        return self

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
        create: ChildSpec | None = None,
    ) -> AsyncSentReceipt:
        """As ``Client.send``. A cancelled one has an unknown fate: send the same id again."""
        out = self._calls.outgoing(
            agent, what, data, id=id, subject=subject, source=source, time=time,
            traceparent=traceparent, tracestate=tracestate, causationid=causationid, replyto=replyto,
        )  # fmt: skip
        return await self._deliver(out, _accepting(self._calls, out, create))

    async def send_many(
        self, messages: Sequence[Message], *, create: ChildSpec | None = None
    ) -> list[AsyncSentReceipt | RegrowError]:
        """As ``Client.send_many``."""
        if create is None:
            return await super().send_many(messages)
        results: list[AsyncSentReceipt | RegrowError] = []
        for part, calls in _creating(self._calls, messages, create):
            try:
                answers = await self.connection.pipeline(calls)
            except FateUnknown as error:
                answers = [client.unknown_fate(out, str(error)) for out in part]
            except StoreError as error:
                if not results:
                    raise
                results += [error] * (len(messages) - len(results))
                break
            results += [self._sent(each) if isinstance(each, Receipt) else each for each in answers]
        return results

    @overload
    async def ask(
        self,
        agent: str,
        what: Payload | Signal | str,
        data: object = None,
        *,
        timeout: Duration = ASK_SECONDS,
        id: str | None = None,
        subject: str | None = None,
        source: str = SOURCE,
        traceparent: str | None = None,
        tracestate: str | None = None,
        create: ChildSpec | None = None,
        as_: None = None,
    ) -> Any: ...
    @overload
    async def ask(
        self,
        agent: str,
        what: Payload | Signal | str,
        data: object = None,
        *,
        timeout: Duration = ASK_SECONDS,
        id: str | None = None,
        subject: str | None = None,
        source: str = SOURCE,
        traceparent: str | None = None,
        tracestate: str | None = None,
        create: ChildSpec | None = None,
        as_: type[T],
    ) -> T: ...
    async def ask(
        self,
        agent: str,
        what: Payload | Signal | str,
        data: object = None,
        *,
        timeout: Duration = ASK_SECONDS,
        id: str | None = None,  # noqa: A002  CloudEvents' word
        subject: str | None = None,
        source: str = SOURCE,
        traceparent: str | None = None,
        tracestate: str | None = None,
        create: ChildSpec | None = None,
        as_: type[T] | None = None,
    ) -> T | Any:
        """As ``Client.ask``. Each wait has a connection of its own: 256 at once, further ones stand in line."""
        seconds = to_seconds(timeout, "timeout", zero=True)
        out = self._calls.asking(
            agent,
            what,
            data,
            id=id,
            subject=subject,
            source=source,
            traceparent=traceparent,
            tracestate=tracestate,
        )
        receipt = await self._deliver(out, _accepting(self._calls, out, create))
        value = await self._listeners.run(await_reply(self.keys, self._calls.limits, receipt, seconds))
        return value if as_ is None else read_answer(value, as_, receipt)

    async def publish(
        self,
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
    ) -> Published[AsyncSentReceipt]:
        """As ``Client.publish``."""
        signal = self._calls.signal(
            what, data, id=id, subject=subject, source=source, time=time,
            traceparent=traceparent, tracestate=tracestate, causationid=causationid,
        )  # fmt: skip
        told = await self.connection.call(publish(self.keys, self._calls.limits, signal))
        return Published(told.signal_id, tuple(map(self._sent, told.receipts)), told.refused)

    async def subscribe(
        self, agent: str, pattern: str, *, priority: int = 0, policy: Policy = "refuse"
    ) -> bool:
        """As ``Client.subscribe``."""
        return await self.connection.call(
            subscribe(self.keys, self._calls.limits, agent, pattern, priority=priority, policy=policy)
        )

    async def unsubscribe(self, agent: str, pattern: str) -> bool:
        """As ``Client.unsubscribe``."""
        return await self.connection.call(unsubscribe(self.keys, agent, pattern))

    async def subscriptions(
        self,
        agent: str | None = None,
        *,
        type: str | None = None,  # noqa: A002  CloudEvents' word
    ) -> list[Subscription]:
        """As ``Client.subscriptions``."""
        return await self.connection.run(subscriptions(self.keys, agent=agent, type_name=type))

    async def start_child(
        self, supervisor: str, spec: ChildSpec | Supervisor, *, timeout: Duration = TIMEOUT
    ) -> StartedChild:
        """As ``Client.start_child``."""
        return await self.connection.run(control.start_child(self.keys, supervisor, spec, timeout=timeout))

    async def terminate_child(self, supervisor: str, child: str, *, timeout: Duration = TIMEOUT) -> None:
        """As ``Client.terminate_child``."""
        await self.connection.run(
            control.child_call(self.keys, "terminate_child", supervisor, child, timeout=timeout)
        )

    async def restart_child(
        self, supervisor: str, child: str, *, timeout: Duration = TIMEOUT
    ) -> StartedChild:
        """As ``Client.restart_child``."""
        return await self.connection.run(control.restart_child(self.keys, supervisor, child, timeout=timeout))

    async def delete_child(self, supervisor: str, child: str, *, timeout: Duration = TIMEOUT) -> None:
        """As ``Client.delete_child``."""
        await self.connection.run(
            control.child_call(self.keys, "delete_child", supervisor, child, timeout=timeout)
        )

    async def which_children(self, supervisor: str, *, timeout: Duration = TIMEOUT) -> list[ChildInfo]:
        """As ``Client.which_children``."""
        return await self.connection.run(control.which_children(self.keys, supervisor, timeout=timeout))

    async def count_children(self, supervisor: str, *, timeout: Duration = TIMEOUT) -> ChildCounts:
        """As ``Client.count_children``."""
        return await self.connection.run(control.count_children(self.keys, supervisor, timeout=timeout))

    async def delete(self, agent: str, *, force: bool = False) -> Deleted:
        """As ``Client.delete``."""
        return await self.connection.run(delete_agent(self.keys, self._calls.limits, agent, force=force))


def _accepting(calls: client.Calls, out: Outgoing, create: ChildSpec | None) -> Call[Receipt]:
    """The call that accepts the signal, and creates the agent if that is asked for."""
    return (
        calls.send(out) if create is None else calls.create(out, _creation(out.agent, create, calls.limits))
    )


def _creating(
    calls: client.Calls, messages: Sequence[Message], create: ChildSpec
) -> Iterator[tuple[Sequence[Outgoing], Sequence[Call[Receipt]]]]:
    """Signals and the calls that accept them, so many in a round trip; all are checked before the first is sent."""
    outgoing = calls.bulk(messages)
    accepting = [_accepting(calls, out, create) for out in outgoing]
    for start in range(0, len(outgoing), CREATED_AT_ONCE):
        end = start + CREATED_AT_ONCE
        yield outgoing[start:end], accepting[start:end]


def _creation(agent: str, spec: ChildSpec, limits: Limits) -> Creation:
    # As below: the watchdog's own modules, which few senders need.
    from regrow.create import creation

    return creation(agent, spec, limits)


def _settings(namespace: str | None) -> Settings:
    # Large: a worker imports regrow and never reads settings.
    from regrow.settings import load_settings

    return load_settings(namespace=namespace)


def server_url(settings: Settings) -> str:
    """``REDIS_URL``, else the embedded server that ``regrow up`` runs for this namespace, else BadSetting."""
    if settings.redis_url:
        return settings.redis_url
    from regrow.embedded_redis import running  # as below

    found = running(settings.state_folder)
    if found is None:
        raise BadSetting(
            f"REDIS_URL is not set and no embedded server runs for namespace {settings.namespace!r}: "
            "set REDIS_URL, or start one with `regrow up`"
        )
    return found.url
