"""A plain socket to a server, logged in: what ``Connection`` opens for a URL that asks for nothing more.

redis-py could do it too, but importing it is a tenth of a second and ten megabytes of each process, pages that every
fork of a worker copies the tables of. So URLs with options and TLS are left to it (``redis_py_links.py``).
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final, cast

import hiredis

from regrow_signals.calls import Arg
from regrow_signals.errors import StoreError, StoreUnavailable, WrongServer
from regrow_signals.server_url import Address
from regrow_signals.store_errors import store_error

__all__ = ["SocketLink", "cannot_be_reached", "refused_at_the_door"]

RECEIVE_BYTES: Final = 4096
KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))

# hiredis takes a tuple of any length; its stub says one.
_pack = cast("Callable[[tuple[Arg, ...]], bytes]", hiredis.pack_command)  # pyright: ignore[reportUnknownMemberType]


class SocketLink:
    """Not connected until ``connect``. The socket's name is told to nobody but who asks by ``raw_socket``."""

    def __init__(self, address: Address, timeout: float, where: str) -> None:
        self._address = address
        self._timeout = timeout
        self._where = where
        self._socket: socket.socket | None = None

    def connect(self) -> None:
        """Raises ``StoreUnavailable`` or ``WrongServer``; then nothing is left open.

        Login and database are answered for before anything else is sent: a command must never run as somebody else.
        """
        try:
            self._socket = _open(self._address, self._timeout)
            words = _login(self._address)
            if words:
                self._log_in(self._socket, words)
        except OSError as error:
            self.disconnect()
            raise cannot_be_reached(error, self._where) from None
        except BaseException:
            self.disconnect()
            raise

    def disconnect(self) -> None:
        """Close our descriptor; a parent's, in a forked child, stays open."""
        link, self._socket = self._socket, None
        if link is not None:
            with contextlib.suppress(OSError):  # a handler has closed its descriptor
                link.close()

    def raw_socket(self) -> socket.socket:
        """The connected socket. Sending and receiving on it is the caller's from then on."""
        if self._socket is None:
            raise OSError("not connected")
        return self._socket

    def _log_in(self, link: socket.socket, words: list[tuple[Arg, ...]]) -> None:
        link.sendall(b"".join(map(_pack, words)))
        reader = hiredis.Reader()
        for word in words:
            answer: Any = reader.gets()
            while answer is False:
                data = link.recv(RECEIVE_BYTES)
                if not data:
                    raise OSError("the server closed the connection")
                reader.feed(data)
                answer = reader.gets()
            if isinstance(answer, hiredis.ReplyError):
                raise refused_at_the_door(str(answer), str(word[0]), self._where)


def cannot_be_reached(error: BaseException, where: str) -> StoreUnavailable:
    """No connection: why, in the system's words."""
    return StoreUnavailable(f"Redis at {where} cannot be reached: {str(error)[:300] or type(error).__name__}")


def refused_at_the_door(text: str, what: str, where: str) -> StoreError:
    """The typed error for the server's answer ``text`` to a command of the login."""
    found = store_error(text, what, where)
    return found if type(found) is not StoreError else WrongServer(str(found))


def _login(address: Address) -> list[tuple[Arg, ...]]:
    words: list[tuple[Arg, ...]] = []
    if address.username or address.password:
        user = (address.username,) if address.username else ()
        words.append(("AUTH", *user, address.password))
    if address.db:
        words.append(("SELECT", address.db))
    return words


def _open(address: Address, timeout: float) -> socket.socket:
    if address.path:
        return _opened(socket.AF_UNIX, address.path, timeout)
    last: OSError = OSError(f"{address.host} has no address")
    for family, _, _, _, place in socket.getaddrinfo(address.host, address.port, 0, socket.SOCK_STREAM):
        try:
            return _opened(family, place, timeout)
        except OSError as error:
            last = error
    raise last


def _opened(family: int, place: Any, timeout: float) -> socket.socket:
    link = socket.socket(family, socket.SOCK_STREAM)
    try:
        link.settimeout(timeout)
        if family != socket.AF_UNIX:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEPALIVE:
                if hasattr(socket, name):  # macOS has not all of them
                    link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        link.connect(place)
    except BaseException:
        link.close()
        raise
    return link
