"""The node's thread that speaks to Redis: joins, reports exits at once, beats."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regrow_signals import nodes
from regrow_signals.calls import Call
from regrow_signals.connection import Connection
from regrow_signals.errors import CorruptKey, Refused, RegrowError, StoreError, WrongServer
from regrow_signals.keys import Keys
from regrow_signals.server_check import check_server
from regrow_workers import log
from regrow_workers.inbox import Inbox
from regrow_workers.node_messages import Declared, Fatal, Joined, NodeMessage, Stale
from regrow_workers.store_watch import StoreWatch

__all__ = ["NodeIdentity", "Reporter"]

_LOG = logging.getLogger(__name__)
PIPELINED = 100
LAST_TRIES = 0.05


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """What a node announces of itself."""

    node: str
    host: str
    pid: int
    labels: Mapping[str, str]
    types: Mapping[str, Mapping[str, Any]]
    version: str
    kind: str = "worker"


@dataclass(frozen=True, slots=True)
class _Handed:
    """A call to be sent; once it was taken, the thread beats as ``joined_as``."""

    call: Call[Any]
    joined_as: str = ""


class Reporter(threading.Thread):
    """1. Everything handed in is sent in order, at once, and again with the same content until Redis has taken it.
    2. Twice each heartbeat one command says which lives make progress; its answer goes to the main loop. (Twice: a node
       that is frozen for two seconds just before a beat must still be heard within its timeout of three.)

    While Redis is away the queue grows by at most one report a life. Nothing here ends a life: the main loop does.
    """

    def __init__(
        self,
        open_connection: Callable[[], Connection],
        keys: Keys,
        inbox: Inbox[NodeMessage],
        heartbeat: float,
    ) -> None:
        super().__init__(name="regrow-reports", daemon=True)
        self._open = open_connection
        self._keys = keys
        self._inbox = inbox
        self._heartbeat = heartbeat / 2
        # Not a SimpleQueue: its get(timeout) waits for ever when a signal comes after the time has run out (as
        # SIGCHLD does to a node that was stopped and continued).
        self._handed: Inbox[_Handed] = Inbox()
        self._pending: deque[_Handed] = deque()
        self._running: Sequence[tuple[str, int]] = ()
        self._load = 0
        self._slots: tuple[int, int] | None = None
        self._node = ""
        self._looked = False
        self._give_up_at: float | None = None
        self._watch = StoreWatch(_LOG, "reports")

    # Called by the main thread.

    def join_as(self, identity: NodeIdentity) -> None:
        """Announce the node; from then on, beat as this node."""
        call = nodes.join(
            self._keys,
            identity.node,
            kind=identity.kind,
            host=identity.host,
            pid=identity.pid,
            labels=identity.labels,
            types=identity.types,
            version=identity.version,
        )
        self._handed.post(_Handed(call, identity.node))
        if not self.is_alive():
            self.start()

    def hand_in(self, call: Call[Any]) -> None:
        self._handed.post(_Handed(call))

    def set_running(
        self, running: Sequence[tuple[str, int]], load: int, slots: tuple[int, int] | None = None
    ) -> None:
        """What the next beats say; replaced whole, so the thread sees the old or the new."""
        self._running = running
        self._load = load
        self._slots = slots

    def finish(self, within: float) -> bool:
        """Send what is pending and end; False if Redis has not taken all of it in time."""
        self._give_up_at = time.monotonic() + within
        self._handed.wake()
        if self.is_alive():
            self.join(within + 0.2)
        return not self.is_alive() and not self._pending

    # The thread.

    def run(self) -> None:
        connection = self._open()
        beat_at = time.monotonic() + self._heartbeat
        while True:
            self._collect(beat_at)
            try:
                self._look_at_server(connection)
                self._send(connection)
                if time.monotonic() >= beat_at and self._give_up_at is None:
                    beat_at = time.monotonic() + self._heartbeat
                    self._beat(connection)
                self._watch.answered()
            except StoreError as error:
                if not self._node and isinstance(error, WrongServer | CorruptKey):
                    self._inbox.post(Fatal(str(error)))
                    break
                # Once joined, a server that refuses us is a server that cannot be asked: nobody ends for it.
                self._wait(self._watch.failed(error))
            if self._give_up_at is not None and (
                not (self._pending or self._handed) or time.monotonic() >= self._give_up_at
            ):
                break
        connection.close()

    def _look_at_server(self, connection: Connection) -> None:
        """Before the first word to it: a server that regrow cannot stand on is refused at the door.

        What the check warns of is the watchdog's to tell, once for all.
        """
        if not self._looked:
            connection.run(check_server())
            self._looked = True

    def _collect(self, beat_at: float) -> None:
        """Wait for something to send, until the next beat is due; take all that is there."""
        if not self._pending and self._give_up_at is None:
            self._handed.wait(beat_at - time.monotonic())
        self._pending.extend(self._handed.take())

    def _send(self, connection: Connection) -> None:
        while self._pending:
            batch = [self._pending[index] for index in range(min(len(self._pending), PIPELINED))]
            answers = connection.pipeline([each.call for each in batch])
            for handed, answer in zip(batch, answers, strict=True):
                hopeless = isinstance(answer, CorruptKey | Refused) and not handed.joined_as
                if isinstance(answer, RegrowError) and not hopeless:
                    raise answer
                if hopeless:
                    # One agent's unreadable record must not keep back what is told of the others.
                    script = handed.call.script
                    log.event(_LOG, "report_refused", level=logging.ERROR, script=script, error=str(answer))
                if handed.joined_as:
                    self._node = handed.joined_as
                    self._inbox.post(Joined(self._node, pooled=answer is True))
                self._pending.popleft()

    def _beat(self, connection: Connection) -> None:
        node = self._node
        if not node:
            return
        try:
            reply = connection.call(
                nodes.beat(self._keys, node, self._running, load=self._load, slots=self._slots)
            )
        except CorruptKey as error:
            log.event(_LOG, "beat_refused", level=logging.ERROR, node=node, error=str(error))
            return
        if not reply.known:
            self._inbox.post(Declared(node))
        elif reply.stale:
            self._inbox.post(Stale(tuple(reply.stale)))

    def _wait(self, seconds: float) -> None:
        """Before the next try; a request to finish ends the wait, after it the tries come closer."""
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0 and self._give_up_at is None:
            self._handed.wait(rest)
            self._pending.extend(self._handed.take())
        if self._give_up_at is not None:
            time.sleep(LAST_TRIES)
