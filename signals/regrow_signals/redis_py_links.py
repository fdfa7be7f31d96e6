"""redis-py's connections: TLS, the options that a URL may have, and all that is awaited. Imported at first need only.

It connects (addresses, TLS, AUTH, SELECT); sending and receiving on the open socket is ours.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Protocol, cast

from redis import exceptions as redis_errors
from redis.asyncio.connection import Connection as AsyncTCP
from redis.asyncio.connection import SSLConnection as AsyncTLS
from redis.asyncio.connection import UnixDomainSocketConnection as AsyncUnix
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.connection import Connection as PlainConnection
from redis.connection import SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry

from regrow_signals.errors import StoreError, WrongServer
from regrow_signals.server_url import connection_options
from regrow_signals.socket_link import cannot_be_reached, refused_at_the_door
from regrow_signals.store_errors import store_error

__all__ = ["CONNECT_ERRORS", "AsyncLink", "RedisPyLink", "close", "connect_error", "new_async_link"]

CONNECT_ERRORS = (redis_errors.RedisError, OSError)

#: how long a TLS goodbye may take
CLOSE_SECONDS = 1.0


class _Blocking(Protocol):
    def connect(self) -> None: ...

    def disconnect(self) -> None: ...


class RedisPyLink:
    """As ``SocketLink``, by redis-py."""

    def __init__(self, url: str, timeout: float, where: str) -> None:
        self._where = where
        options, wanted = _options(url, timeout)
        kinds: dict[Any, Callable[..., _Blocking]] = {
            SSLConnection: SSLConnection,
            UnixDomainSocketConnection: UnixDomainSocketConnection,
        }
        kind: Callable[..., _Blocking] = kinds.get(wanted, PlainConnection)
        self._link = kind(**options, protocol=2, retry=Retry(NoBackoff(), 0), driver_info=None)

    def connect(self) -> None:
        """Raises ``StoreUnavailable`` or ``WrongServer``; then nothing is left open."""
        try:
            self._link.connect()
        except CONNECT_ERRORS as error:
            self.disconnect()
            raise connect_error(error, self._where) from None
        except BaseException:
            self.disconnect()
            raise

    def disconnect(self) -> None:
        """Close our descriptor."""
        self._link.disconnect()

    def raw_socket(self) -> socket.socket:
        """The connected socket."""
        found: socket.socket | None = attrgetter("_sock")(self._link)
        if found is None:
            raise OSError("not connected")
        return found


class AsyncLink(Protocol):
    """What ``AsyncConnection`` uses of redis-py."""

    async def connect(self) -> None: ...

    async def disconnect(self, nowait: bool = ...) -> None: ...

    async def send(self, data: bytes) -> None: ...

    async def receive(self, count: int) -> bytes: ...

    def at_eof(self) -> bool: ...


class _Streams:
    """redis-py's open streams; sending and receiving on them is ours once it has connected."""

    def at_eof(self) -> bool:
        return _reader(self).at_eof() or _writer(self).is_closing()

    async def send(self, data: bytes) -> None:
        writer = _writer(self)
        writer.write(data)
        await writer.drain()

    async def receive(self, count: int) -> bytes:
        return await _reader(self).read(count)


class _TCPLink(_Streams, AsyncTCP):
    pass


class _TLSLink(_Streams, AsyncTLS):
    pass


class _UnixLink(_Streams, AsyncUnix):
    pass


async def close(link: AsyncLink) -> None:
    """Close and wait until the other side has heard, or for a second; then the socket is dropped all the same."""
    try:
        await asyncio.wait_for(link.disconnect(), CLOSE_SECONDS)
    except (TimeoutError, *CONNECT_ERRORS):
        await link.disconnect(nowait=True)


def new_async_link(url: str, timeout: float) -> AsyncLink:
    """Not connected yet. Its ``connect`` raises redis-py's errors and the system's: see ``connect_error``."""
    options, wanted = _options(url, timeout)
    kinds: dict[Any, Callable[..., AsyncLink]] = {
        SSLConnection: _TLSLink,
        UnixDomainSocketConnection: _UnixLink,
    }
    kind = kinds.get(wanted, _TCPLink)
    return kind(**options, protocol=2, retry=AsyncRetry(NoBackoff(), 0), driver_info=None)


def connect_error(error: BaseException, where: str) -> StoreError:
    """What a failed connect means. redis-py's messages name host, port and cause, and no secret."""
    text = str(error)
    if isinstance(
        error, redis_errors.AuthenticationWrongNumberOfArgsError | redis_errors.AuthenticationError
    ):
        wrong = store_error(text, "AUTH", where)
        return (
            wrong
            if isinstance(wrong, WrongServer)
            else WrongServer(f"Redis at {where}: {_refused_login(text)}")
        )
    if isinstance(error, redis_errors.BusyLoadingError):
        return store_error("LOADING", "connecting", where)
    if isinstance(error, redis_errors.NoPermissionError):
        return store_error(f"NOPERM {text}", "connecting", where)
    if isinstance(error, redis_errors.ResponseError):
        return refused_at_the_door(text, "connecting", where)
    return cannot_be_reached(error, where)


def _options(url: str, timeout: float) -> tuple[dict[str, Any], object]:
    options = connection_options(url)
    wanted = options.pop("connection_class", None)
    options.setdefault("socket_connect_timeout", timeout)
    options["socket_timeout"] = timeout
    return options, wanted


def _refused_login(text: str) -> str:
    return f"login refused: {text[:200]}" if text else "login refused"


def _reader(link: object) -> asyncio.StreamReader:
    return cast("asyncio.StreamReader", attrgetter("_reader")(link))


def _writer(link: object) -> asyncio.StreamWriter:
    return cast("asyncio.StreamWriter", attrgetter("_writer")(link))
