"""What node and spawner say to each other: one JSON object a line, over a socket pair that only they hold.

node to spawner:   {"do": "configure", ...}          once, first: application, url, limits, settings
                   {"do": "start", "key", "slot", "order"}
                   {"do": "signal", "key", "signal"}
spawner to node:   {"is": "ready", "types", "warnings", "fresh"}   {"is": "unloadable", "error"}
                   {"is": "forked", "key", "pid"}     {"is": "not_forked", "key", "error"}
                   {"is": "exited", "key", "pid", "status"}     exit code, or minus the signal's number

``key`` names one life: ``agent#incarnation``. The other side's end closes the link; nothing is sent again.
"""

from __future__ import annotations

import json
import socket
from collections import deque
from typing import Any, cast

__all__ = ["LinkClosed", "Message", "SpawnerLink", "life_key"]

Message = dict[str, Any]

_CHUNK = 1 << 16


class LinkClosed(Exception):
    """The other side is gone."""


def life_key(agent: str, incarnation: int) -> str:
    """Unique among a node's lives; ``#`` is in no id."""
    return f"{agent}#{incarnation}"


class SpawnerLink:
    """One end. Sending never blocks: what the other side does not take yet waits here, for ``flush``."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._received = bytearray()
        self._unsent: deque[bytes] = deque()

    @classmethod
    def pair(cls) -> tuple[SpawnerLink, socket.socket]:
        """Our end, and the other side's raw socket, to be inherited."""
        ours, theirs = socket.socketpair()
        return cls(ours), theirs

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def wants_to_write(self) -> bool:
        return bool(self._unsent)

    def send(self, message: Message) -> None:
        """Raises LinkClosed when the other side is known to be gone."""
        self._unsent.append(json.dumps(message).encode() + b"\n")
        self.flush()

    def flush(self) -> None:
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent[0])
            except BlockingIOError:
                return
            except OSError as error:
                raise LinkClosed(str(error)) from error
            if sent < len(self._unsent[0]):
                self._unsent[0] = self._unsent[0][sent:]
            else:
                self._unsent.popleft()

    def receive(self) -> list[Message]:
        """Whole messages that have arrived, maybe none. Raises LinkClosed at the end, after all that was said."""
        closed = False
        while not closed:
            try:
                chunk = self._socket.recv(_CHUNK)
            except BlockingIOError:
                break
            except OSError:
                chunk = b""
            closed = not chunk
            self._received += chunk
        lines = self._received.split(b"\n")
        self._received = lines.pop()
        messages = [cast(Message, json.loads(line)) for line in lines]
        if closed and not messages:
            raise LinkClosed("the other side closed the link")
        return messages

    def take_no_more(self) -> None:
        """From now on the other side's ``send`` raises LinkClosed; what it sent before can be received still."""
        self._socket.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        self._socket.close()
