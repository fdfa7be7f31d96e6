"""The one connection policy of regrow, for a blocking connection (``async_connection.py`` has the awaited one).

1. One socket, used by one thread of one process. Never pooled, never shared; after a fork the child makes its own.
2. Nothing is repeated whose fate is unknown, unless it says that a repeat is harmless; then once.
3. A time-out, an interrupt or any exception between a command and its answer drops the socket: nobody can ever get
   the previous caller's answer.
4. Every error is one of regrow's; no message holds a password or a payload.

``socket_link.py`` connects and logs in, redis-py where TLS or options are asked for; commands are packed and answers
parsed by hiredis (``exchange.py``).
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from regrow_signals.calls import Arg, Call, Command, Op
from regrow_signals.errors import BadInput, RegrowError, StoreUnavailable
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
from regrow_signals.server_url import Address, checked_address, mask_url
from regrow_signals.socket_link import SocketLink

if TYPE_CHECKING:
    from ssl import SSLSocket

__all__ = ["Connection", "Interrupted", "Sent", "mask_url", "wait_for_store"]

T = TypeVar("T")

log = logging.getLogger("regrow.connection")

RECEIVE_BYTES: Final = 65536


class Interrupted(RegrowError):
    """The wait was ended by ``interrupt_fd``. The socket was dropped; the connection may be used again."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent, or could not be (no ``talk``), and is not answered yet."""

    items: Sequence[Item]
    talk: Generator[Batch, list[Any], list[Any]] | None
    answers: int


class Connection:
    """A lazy blocking connection: connects at first use, and again after each loss.

    ``generation`` grows at each connect: a worker that sees it changed reloads by its token before it goes on.
    ``interrupt_fd``, while readable, ends the wait of a blocking ``read_stream`` with ``Interrupted``.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        timeout: float = 5.0,
        interrupt_fd: int | None = None,
        scripts: Sequence[str] = (),
    ) -> None:
        self.where: Final = mask_url(url)
        self.timeout: Final = timeout
        self.interrupt_fd = interrupt_fd
        self.generation = 0
        self._name = name
        self._url = url
        self._address = checked_address(url)
        self._scripts = tuple(scripts)
        self._link: _Link | None = None
        self._socket: socket.socket | None = None
        self._poll = select.poll()
        self._pid = 0
        self._reader = new_reader()
        self._loaded: set[str] = set()
        self._prelude: list[tuple[Arg, ...]] = []

    @classmethod
    def open(
        cls,
        url: str,
        *,
        name: str = "",
        timeout: float = 5.0,
        interrupt_fd: int | None = None,
        scripts: Sequence[str] = (),
    ) -> Connection:
        """A connection to ``url`` (redis://, rediss://, unix://); nothing is sent before its first use.

        ``scripts``: the server is believed to have them; they are sent only when it says that it has not.
        """
        return cls(url, name=name, timeout=timeout, interrupt_fd=interrupt_fd, scripts=scripts)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, call: Call[T]) -> T:
        """Run one script. ``FateUnknown``: it was sent and no answer came (after one repeat, if that is harmless)."""
        return cast("T", _value(self._exchange((call,))))

    def command(self, command: Command[T], *, interruptible: bool = False) -> T:
        """Run one plain command. ``interruptible``: ``interrupt_fd`` ends its wait with ``Interrupted``."""
        return cast("T", _value(self._exchange((command,), command.wait, interruptible=interruptible)))

    def run(self, op: Op[T]) -> T:
        """Drive an Op to its end; a typed refusal or store error is raised inside it, at its yield."""
        try:
            step = next(op)
            while True:
                try:
                    answer = _value(self._exchange((step,), wait_of(step)))
                except RegrowError as error:
                    step = op.throw(error)
                else:
                    step = op.send(answer)
        except StopIteration as end:
            return cast("T", end.value)

    def pipeline(self, items: Sequence[Item]) -> list[Any]:
        """All items in one round trip. An item that fails or is refused has its exception in its place, not raised."""
        return self._exchange(items) if items else []

    def send(self, items: Sequence[Item]) -> Sent:
        """Send ``items``, all of them repeatable, and do not wait: ``receive`` gets the answers, before anything else.

        What goes wrong with the connection is ``receive``'s to deal with, too.
        """
        if not may_repeat(items):
            raise BadInput(
                "what is sent without waiting must be repeatable: its connection may be lost meanwhile"
            )
        try:
            self._ensure_connected()
            return self._start(items)
        except (Lost, StoreUnavailable):
            self.close()
            return Sent(items, None, 0)
        except BaseException:
            self.close()
            raise

    def receive(self, sent: Sent) -> list[Any]:
        """The answers to ``sent``, as ``pipeline`` gives them."""
        if sent.talk is not None:
            try:
                return self._finish(sent, 0.0, False)
            except Lost:
                self.close()
            except BaseException:
                self.close()
                raise
        return self._exchange(sent.items, sent=sent.talk is not None)

    def read_stream(self, key: str, after: str, *, count: int, block_ms: int | None = None) -> Entries:
        """Entries of ``key`` after the id ``after``; waits up to ``block_ms`` for the first (None: does not wait).

        Values that are not UTF-8 are bytes. After a lost connection it reads once again: reading changes nothing.
        """
        command = stream_command(key, after, count, block_ms)
        blocking = block_ms is not None
        answer = self._exchange((command,), (block_ms or 0) / 1000, interruptible=blocking)
        return cast("Entries", _value(answer))

    def fileno(self) -> int | None:
        """The socket's descriptor; None while not connected."""
        return self._socket.fileno() if self._socket is not None else None

    def rename(self, name: str) -> None:
        """Be ``name`` in the server's list of clients; told with whatever is sent next."""
        self._name = name
        self._prelude = [("CLIENT", "SETNAME", name)]

    def close(self) -> None:
        """Drop the socket. The connection may be used again and then connects anew."""
        link, self._link, self._socket = self._link, None, None
        if link is not None:
            link.disconnect()

    def _exchange(
        self, items: Sequence[Item], wait: float = 0.0, *, interruptible: bool = False, sent: bool = False
    ) -> list[Any]:
        for attempt in (1, 2):
            try:
                return self._attempt(items, wait, interruptible)
            except Lost as lost:
                self.close()
                sent = sent or lost.sent
                if attempt == 2 or (lost.sent and not may_repeat(items)):
                    raise lost_error(items, self.where, str(lost), sent=sent) from None
            except (
                StoreUnavailable
            ) as error:  # from connecting: this attempt sent nothing, the first may have
                self.close()
                if not sent:
                    raise
                raise lost_error(items, self.where, str(error), sent=sent) from None
            except BaseException:
                self.close()
                raise
        raise AssertionError("unreachable")

    def _attempt(self, items: Sequence[Item], wait: float, interruptible: bool) -> list[Any]:
        self._ensure_connected()
        return self._finish(self._start(items), wait, interruptible)

    def _start(self, items: Sequence[Item]) -> Sent:
        talk = exchange(items, self._loaded, self.where, self._prelude)
        batch = next(talk)
        self._send(batch)
        return Sent(items, talk, batch.answers)

    def _finish(self, sent: Sent, wait: float, interruptible: bool) -> list[Any]:
        talk, answers = sent.talk, sent.answers
        assert talk is not None, "it was sent"
        try:
            while True:
                batch = talk.send(self._receive(answers, wait, interruptible))
                self._send(batch, again=True)
                answers = batch.answers
        except StopIteration as end:
            self._prelude = []
            return cast("list[Any]", end.value)

    def _ensure_connected(self) -> None:
        if self._socket is not None:
            if self._pid == os.getpid():
                return
            self.close()  # the socket is the parent's: this closes our descriptor of it only
        link = _new_link(self._address, self._url, self.timeout, self.where)
        link.connect()
        self._link, self._socket, self._pid = link, link.raw_socket(), os.getpid()
        self._poll = select.poll()
        self._poll.register(self._socket.fileno(), select.POLLIN)
        self._reader = new_reader()
        self._loaded = set(self._scripts)
        self._prelude = [("CLIENT", "SETNAME", self._name)] if self._name else []
        self.generation += 1

    def _send(self, batch: Batch, *, again: bool = False) -> None:
        """Send all; ``Lost.sent`` is false only if no byte of the exchange can have reached the server."""
        link = self._open_socket()
        if not again and self._is_stale(link):
            raise Lost("the server had closed the connection", sent=False)
        try:
            count = link.send(batch.data)
        except OSError as error:
            raise Lost(_reason(error), sent=again) from None
        if count < len(batch.data):
            try:
                link.sendall(memoryview(batch.data)[count:])
            except OSError as error:
                raise Lost(_reason(error), sent=True) from None

    def _receive(self, answers: int, wait: float, interruptible: bool) -> list[Any]:
        link, reader = self._open_socket(), self._reader
        found: list[Any] = []
        while len(found) < answers:
            answer: Any = reader.gets()
            if answer is not False:  # hiredis says False for "not yet": no RESP2 answer is a boolean
                found.append(answer)
                continue
            if wait:  # before each read: what comes first may be the answer to a command that does not block
                self._await_data(link, wait, interruptible)
            try:
                data = link.recv(RECEIVE_BYTES)
            except OSError as error:
                raise Lost(_reason(error), sent=True) from None
            if not data:
                raise Lost("the server closed the connection", sent=True)
            reader.feed(data)
        return found

    def _await_data(self, link: socket.socket, wait: float, interruptible: bool) -> None:
        """Wait for the answer of a command that blocks up to ``wait`` seconds in the server, or for the interrupt."""
        if type(link) is not socket.socket and cast("SSLSocket", link).pending():
            return
        watched = self._poll
        if interruptible and self.interrupt_fd is not None:
            watched = select.poll()
            watched.register(link.fileno(), select.POLLIN)
            watched.register(self.interrupt_fd, select.POLLIN)
        ready = {fd for fd, _ in watched.poll(1000 * max(self.timeout, wait + 1.0))}
        if not ready:
            raise Lost("no answer in time", sent=True)
        if link.fileno() not in ready:
            raise Interrupted("the wait for the next entry was interrupted")

    def _is_stale(self, link: socket.socket) -> bool:
        """Is there an end of file, or an answer to nothing? Then this socket must not be used."""
        if type(link) is socket.socket:
            return bool(self._poll.poll(0))
        import ssl  # it is loaded, since this is one of its sockets

        link.settimeout(0.0)  # TLS has records of its own (session tickets): only reading tells
        try:
            link.recv(1)
        except ssl.SSLWantReadError:
            return False
        except OSError:
            return True
        else:
            return True
        finally:
            with contextlib.suppress(OSError):
                link.settimeout(self.timeout)

    def _open_socket(self) -> socket.socket:
        if self._socket is None:
            raise Lost("the connection was closed", sent=False)
        return self._socket


def wait_for_store(
    connection: Connection,
    stop: Callable[[], bool],
    *,
    pause: Callable[[float], object] = time.sleep,
    longest: float = 2.0,
) -> bool:
    """Wait until Redis answers and takes writes; False when ``stop`` said so first. One log line per change of state.

    Waiting is not failing: nothing is counted against anybody for it. ``pause`` may be an interruptible wait. What
    waiting cannot mend (a wrong password, a missing right) is raised as ``WrongServer``.
    """
    reason, wait = "", 0.05
    while not stop():
        try:
            connection.command(Command(("ROLE",), _is_writable))
        except StoreUnavailable as error:
            if _kind(error) != reason:
                reason = _kind(error)
                log.warning("waiting for the store: %s", error)
            pause(wait)
            wait = min(wait * 2, longest)
        else:
            if reason:
                log.warning("the store answers again: Redis at %s", connection.where)
            return True
    return False


def _is_writable(role: Any) -> bool:
    if role[0] == "slave":
        raise StoreUnavailable("Redis is a replica and takes no writes (READONLY)")
    return True


def _kind(error: StoreUnavailable) -> str:
    """What of the message makes a new state; the rest (a host's address tried, an errno) may change at each try."""
    return str(error).split(": ", 1)[-1][:60]


def _value(results: list[Any]) -> Any:
    result = results[0]
    if isinstance(result, RegrowError):
        raise result
    return result


def _reason(error: OSError) -> str:
    return (
        "no answer in time"
        if isinstance(error, TimeoutError)
        else f"connection lost: {error.strerror or error}"
    )


class _Link(Protocol):
    def connect(self) -> None: ...

    def disconnect(self) -> None: ...

    def raw_socket(self) -> socket.socket: ...


def _new_link(address: Address | None, url: str, timeout: float, where: str) -> _Link:
    if address is not None:
        return SocketLink(address, timeout, where)
    from regrow_signals.redis_py_links import RedisPyLink  # slow and large: most URLs do without

    return RedisPyLink(url, timeout, where)
