"""The node: parent of a host's workers (``regrow worker``); ``effects_node.py`` has the one of executors.

The main thread is a loop over the spawner's link, the inbox of its own threads, operating-system signals and a tick. It
never speaks to Redis: deadlines bite and children are reaped while Redis is frozen. Its duties:

1. Hand start orders to the spawner; keep a ``Life`` for each until its end was reported.
2. Ask, wait, kill: stop orders, operator's kills, superseded lives, the drain.
3. End what is over its deadline, not up in time, or makes no progress.
4. Tell every end once, with its reason, to the reporter, which repeats it until Redis has it.
5. A dead spawner is the end of all its workers, uncharged; the next one is started at once.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from regrow_signals import nodes
from regrow_signals.connection import Connection
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_workers import log
from regrow_workers.first_process import reap_orphans
from regrow_workers.inbox import Inbox
from regrow_workers.lives import Pauses
from regrow_workers.node_messages import Declared, Fatal, Joined, NodeMessage, Order, Stale
from regrow_workers.node_orders import OrderReader
from regrow_workers.node_parts import NodeHelper, NodeRoster
from regrow_workers.node_relay import Relay
from regrow_workers.node_reports import NodeIdentity, Reporter
from regrow_workers.os_signals import (
    TOLD_TO_END,
    WRAPPER_ENDED,
    SignalInbox,
    die_with_parent,
    most_descriptors,
)
from regrow_workers.process_tree import adopt_orphans, end_sessions
from regrow_workers.reasons import Killed
from regrow_workers.settings import NodeSettings
from regrow_workers.spawner import UNLOADABLE
from regrow_workers.spawner_link import LinkClosed, Message
from regrow_workers.spawner_process import SpawnerProcess
from regrow_workers.worker_config import WorkerConfig
from regrow_workers.worker_roster import WorkerRoster

__all__ = ["Node", "NodeExit", "run_node"]

_LOG = logging.getLogger(__name__)

TICK = 0.2
NOTED = 0.05
LATE = 0.5
REPORTING_TIME = 0.7
SPAWNER_PAUSES = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)
FIRST_SPAWNER_TRIES = 3
SWITCH_INTERVAL = 0.0001


class NodeExit:
    """Exit codes of ``regrow worker``."""

    DRAINED = 0
    STORE = 69
    SPAWNER = 70
    UNREPORTED = 75
    UNLOADABLE = UNLOADABLE


def run_node(
    settings: NodeSettings,
    *,
    url: str,
    namespace: str,
    application: str,
    limits: Limits | None = None,
    version: str = "",
) -> int:
    """Run a node until it is told to end; returns the process's exit code. Main thread only."""
    if settings.die_with_parent:
        die_with_parent()
    # A thread that has something to tell waits for the interpreter lock at most so long, not five milliseconds.
    sys.setswitchinterval(SWITCH_INTERVAL)
    node = Node(
        settings, url=url, namespace=namespace, application=application, limits=limits, version=version
    )
    return node.run()


class Node:
    """State of the main loop. Only ``run`` is for callers; another kind of node has another roster and helper."""

    kind = "worker"

    def __init__(
        self,
        settings: NodeSettings,
        *,
        url: str,
        namespace: str,
        application: str,
        limits: Limits | None,
        version: str,
    ) -> None:
        self._settings = settings
        self._keys = Keys(namespace)
        self._limits = limits or Limits()
        self._url = url
        self._config = WorkerConfig(
            application, url, namespace, self._limits, settings, self.kind, most_descriptors()
        )
        self._version = version
        self._id = ""
        self._types: Mapping[str, Mapping[str, Any]] = {}
        self._code: int | None = None
        self._drain_until: float | None = None
        self._is_hurried_by_next = True
        """While it drains: whether one more signal is a second request."""
        self._pauses = Pauses()
        self._tick_at = time.monotonic() + TICK
        self._spawner: SpawnerProcess | None = None
        self._spawn_at: float | None = None
        self._spawner_failures = 0
        self._orphaned: set[int] = set()
        """Sessions that a dead spawner left behind."""
        self._inbox: Inbox[NodeMessage] = Inbox()
        self._signals = SignalInbox()
        self._selector = selectors.DefaultSelector()
        self._reporter = Reporter(self._opener("reports"), self._keys, self._inbox, settings.heartbeat)
        self._orders = OrderReader(self._opener("orders"), self._keys, self._inbox)
        self._roster = self._make_roster()
        self._helper = self._make_helper()

    def _make_roster(self) -> NodeRoster:
        return WorkerRoster(self._settings, self._keys, self._reporter.hand_in, every=TICK)

    def _make_helper(self) -> NodeHelper:
        return Relay(self._opener("relay"), self._keys, self._limits)

    def _opener(self, what: str) -> Callable[[], Connection]:
        return lambda: Connection.open(self._url, name=f"regrow:node:{what}")

    def run(self) -> int:
        adopt_orphans()
        self._signals.install((*TOLD_TO_END, signal.SIGCHLD))
        self._selector.register(self._signals, selectors.EVENT_READ, self._on_signals)
        self._selector.register(self._inbox, selectors.EVENT_READ, self._on_inbox)
        self._start_spawner()
        try:
            while self._code is None:
                self._step()
        finally:
            self._leave()
        return self._code

    def _step(self) -> None:
        for key, _ in self._selector.select(max(0.0, self._next_due() - time.monotonic())):
            handle: Callable[[], None] = key.data
            handle()
        now = time.monotonic()
        if self._spawn_at is not None and now >= self._spawn_at:
            self._start_spawner()
        if self._code is None and now >= self._next_due():
            self._tick(now)

    def _next_due(self) -> float:
        return min(self._tick_at, self._roster.next_due(), self._spawn_at or float("inf"))

    # Time.

    def _tick(self, now: float) -> None:
        if now >= self._tick_at:
            late = now - self._tick_at
            if late > NOTED:
                self._pauses.note(self._tick_at, now)
            if late > LATE:
                log.event(_LOG, "node_was_paused", level=logging.WARNING, seconds=round(late, 3))
            self._tick_at = now + TICK
            self._watch_spawner(now)
        running = self._roster.judge(now, self._pauses)
        self._reporter.set_running(running, load=self._roster.load, slots=self._roster.slots)
        if self._drain_until is not None:
            self._go_on_draining(now)

    def _watch_spawner(self, now: float) -> None:
        """A spawner that does not answer (stopped, or stuck) cannot reap: end it, as if it had died."""
        spawner = self._spawner
        if spawner is None or not spawner.ready:
            return
        silent = self._pauses.spent(spawner.heard_at or now, now)
        if silent > self._settings.node_timeout:
            log.event(_LOG, "spawner_silent", level=logging.ERROR, pid=spawner.pid, seconds=round(silent, 1))
            spawner.kill()
        elif silent > self._settings.heartbeat:
            spawner.say({"do": "ping"})

    # The spawner.

    def _start_spawner(self) -> None:
        self._spawn_at = None
        self._spawner = SpawnerProcess(self._config.to_message(), self._settings.max_workers)
        self._selector.register(self._spawner.link, selectors.EVENT_READ, self._on_link)

    def _on_link(self) -> None:
        spawner = self._spawner
        if spawner is None:
            return
        try:
            spawner.link.flush()
            for message in spawner.link.receive():
                spawner.heard_at = time.monotonic()
                self._on_message(message)
        except LinkClosed:
            self._on_spawner_end()

    def _on_message(self, message: Message) -> None:
        match message["is"]:
            case "ready":
                self._on_ready(message)
            case "unloadable":
                log.event(_LOG, "application_unloadable", level=logging.ERROR, error=message["error"])
                self._code = NodeExit.UNLOADABLE
            case "forked":
                self._roster.forked(message["key"], message["pid"])
            case "not_forked":
                self._roster.not_forked(message["key"], message["error"])
            case "exited":
                self._roster.exited(message["key"], message["status"])
                if self._drain_until is not None:
                    self._go_on_draining(time.monotonic())
            case _:
                return

    def _on_ready(self, message: Message) -> None:
        if self._spawner is None:
            return
        self._spawner.ready = True
        self._spawner.awaits = message["awaits"]
        self._spawner_failures = 0
        self._types = message["types"]
        for warning in message["warnings"]:
            instead = "fresh interpreters, slower to start"
            log.event(_LOG, "fork_unsafe", level=logging.WARNING, reason=warning, instead=instead)
        if not self._id:
            self._join()
            self._helper.start()
        self._roster.use(self._spawner, self._types)

    def _on_spawner_end(self) -> None:
        """Its workers get the kernel's parent-death signal; one that still lives for a moment is fenced soon."""
        spawner, self._spawner = self._spawner, None
        if spawner is None:
            return
        self._selector.unregister(spawner.link)
        status = spawner.wait(1.0)
        self._orphaned = {spawner.pid, *self._roster.pids()}
        self._reap_orphans()
        if self._code is not None:
            spawner.close()
            return
        log.event(
            _LOG, "spawner_lost", level=logging.ERROR, pid=spawner.pid, status=status, lives=len(self._roster)
        )
        self._roster.spawner_died()
        spawner.close()
        self._spawner_failures += 1
        if not self._id and self._spawner_failures >= FIRST_SPAWNER_TRIES:
            log.event(
                _LOG, "spawner_keeps_dying", level=logging.ERROR, tries=self._spawner_failures, status=status
            )
            self._code = NodeExit.SPAWNER
        elif self._drain_until is None:
            pause = SPAWNER_PAUSES[min(self._spawner_failures - 1, len(SPAWNER_PAUSES) - 1)]
            self._spawn_at = time.monotonic() + pause

    # What the threads say.

    def _on_inbox(self) -> None:
        for message in self._inbox.take():
            match message:
                case Order():
                    self._on_order(message)
                case Stale(lives):
                    for agent, incarnation in lives:
                        self._roster.end_stale(agent, incarnation)
                case Joined(node, pooled):
                    if node == self._id:
                        self._roster.joined(node, pooled=pooled)
                case Declared(node):
                    self._begin_anew(node)
                case Fatal(error):
                    log.event(_LOG, "store_unusable", level=logging.ERROR, error=error)
                    self._code = NodeExit.STORE

    def _on_order(self, order: Order) -> None:
        if order.node != self._id:
            return
        try:
            self._obey(order)
        except (KeyError, ValueError) as error:
            # Nobody of ours writes such an order; it must not cost this node its agents.
            log.event(_LOG, "bad_order", level=logging.ERROR, order=dict(order.fields), error=repr(error))

    def _obey(self, order: Order) -> None:
        match order.fields.get("order"):
            case "start":
                self._roster.start(order)
            case "stop":
                self._roster.stop(order)
            case "kill":
                self._roster.kill(order)
            case "pool":
                self._roster.pool(order)
            case "drain":
                if self._drain_until is None:  # ordered twice is no hurry; a second signal is
                    self._drain("order")
            case unknown:
                log.event(_LOG, "unknown_order", level=logging.WARNING, order=unknown)

    def _join(self) -> None:
        self._id = f"{socket.gethostname()[:60]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        identity = NodeIdentity(
            node=self._id,
            host=socket.gethostname(),
            pid=os.getpid(),
            labels=dict(self._settings.labels),
            types=self._types,
            version=self._version,
            kind=self.kind,
        )
        self._reporter.join_as(identity)
        self._orders.follow(self._id)
        log.event(_LOG, "node_joins", node=self._id, types=",".join(sorted(self._types)))

    def _begin_anew(self, declared: str) -> None:
        """Declared lost, or Redis went back: others may own our agents. End them all and come back as a new node."""
        if declared != self._id or self._drain_until is not None:
            return
        log.event(_LOG, "node_not_known", level=logging.WARNING, node=declared, lives=len(self._roster))
        self._roster.end_all_unreported()
        self._join()

    # The end.

    def _on_signals(self) -> None:
        for number in self._signals.take():
            if number == signal.SIGCHLD:
                self._reap_orphans()
            elif number == WRAPPER_ENDED:
                if self._drain_until is None:
                    self._drain(signal.Signals(number).name)
                    self._is_hurried_by_next = False
            else:
                # Of two that wait the kernel has the later one handled first: the launcher's comes behind the shell's.
                if self._drain_until is None or self._is_hurried_by_next:
                    self._drain(signal.Signals(number).name)
                self._is_hurried_by_next = True

    def _reap_orphans(self) -> None:
        """Those of a dead spawner's workers end; others, which process 1 inherits from anybody, go on."""
        if self._orphaned:
            end_sessions(self._orphaned)
        reap_orphans(() if self._spawner is None else (self._spawner.pid,))

    def _drain(self, why: str) -> None:
        now = time.monotonic()
        if self._drain_until is not None:
            self._drain_until = now
            self._tick_at = now
            return
        log.event(_LOG, "node_drains", node=self._id, why=why, lives=len(self._roster))
        self._drain_until = now + self._settings.drain
        if not self._id:
            self._code = NodeExit.DRAINED
            return
        self._reporter.hand_in(nodes.node_event(self._keys, self._id, "draining"))
        self._roster.drain(self._settings.drain)
        self._go_on_draining(now)

    def _go_on_draining(self, now: float) -> None:
        """Leave once the last life is reported, or a moment after the rest was killed."""
        if self._code is not None:
            return
        end = now if self._drain_until is None else self._drain_until
        if len(self._roster) and self._spawner is not None:
            if now >= end:
                self._roster.kill_all(Killed.DRAINED)
            if now < end + REPORTING_TIME:
                return
        self._reporter.hand_in(nodes.node_event(self._keys, self._id, "left"))
        self._code = NodeExit.DRAINED if self._reporter.finish(REPORTING_TIME) else NodeExit.UNREPORTED

    def _leave(self) -> None:
        self._orders.end()
        self._helper.end()
        if self._spawner is not None:
            self._spawner.close()
        self._selector.close()
        log.event(_LOG, "node_ended", node=self._id, code=self._code)
