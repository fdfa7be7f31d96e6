"""The watchdog (``regrow watchdog``): any number may run, one leads.

1. Not leading: try for the lease every twelfth of it. 2. Leading: ``Reign.work``, again and again; the lease is renewed
with each look at the beats, and kept by a thread in between. 3. Not renewed in time, or told that another leads: step
down and forget everything. 4. Redis away: wait; nobody is declared dead, one log line when it goes and one when it is
back. 5. SIGTERM or SIGINT: resign and end at once; the workers go on.
"""

from __future__ import annotations

import gc
import logging
import select
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from regrow_signals.connection import Connection, Interrupted
from regrow_signals.errors import Conflict, FateUnknown, NotLeader, StoreError, WrongServer
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.server_check import check_server
from regrow_supervisor.leader import Lease, Standing
from regrow_supervisor.lease_keeper import LeaseKeeper
from regrow_supervisor.loading import run_id_command
from regrow_supervisor.reign import Reign
from regrow_supervisor.timekeeper import TimerThread
from regrow_supervisor.tree_request import TreeRequest
from regrow_supervisor.watchdog_settings import WatchdogSettings
from regrow_workers import application as applications
from regrow_workers import log
from regrow_workers.agent import Agent
from regrow_workers.application import Application
from regrow_workers.first_process import let_orphans_go
from regrow_workers.os_signals import TOLD_TO_END, SignalInbox, die_with_parent, leave_at_once
from regrow_workers.state import encode_state
from regrow_workers.store_watch import StoreWatch
from regrow_workers.stored_child import InitialState

__all__ = ["Watchdog", "WatchdogExit", "WatchdogSettings", "run_watchdog"]

_LOG = logging.getLogger(__name__)


class WatchdogExit:
    """Exit codes of ``regrow watchdog``."""

    ENDED = 0
    STORE = 69


def run_watchdog(
    settings: WatchdogSettings,
    *,
    url: str,
    namespace: str,
    application: str | None,
    limits: Limits | None = None,
    say: Callable[[str], None] = print,
    die_with_parent_process: bool = False,
) -> int:
    """Run a watchdog until it is told to end; the process's exit code. Main thread only.

    ``application`` is ``module:attribute`` of the tree to hand in; None: only what is stored is carried on.
    Raises ``ApplicationError`` when it cannot be loaded, before anything is connected.
    """
    if die_with_parent_process:
        die_with_parent()
    let_orphans_go()
    # Loading may take long, and until then nothing was begun that would have to be ended in order.
    leave_at_once(TOLD_TO_END)
    loaded = applications.load(application) if application is not None else None
    # What was loaded stays: collections of the heap's old part would be pauses in the way of a restart.
    gc.collect()
    gc.freeze()
    inbox = SignalInbox()
    inbox.install(TOLD_TO_END)
    connection = Connection.open(
        url, name="regrow:watchdog", timeout=settings.lease, interrupt_fd=inbox.fileno()
    )
    keys = Keys(namespace)
    watchdog = Watchdog(connection, keys, settings=settings, limits=limits, application=loaded, say=say)
    timers = TimerThread(
        lambda: Connection.open(url, name="regrow:timers", timeout=settings.lease),
        keys,
        limits or Limits(),
        lambda: watchdog.token,
    )
    timers.start()
    keeper = LeaseKeeper(
        lambda: Connection.open(url, name="regrow:lease", timeout=settings.lease),
        watchdog.lease,
        every=settings.poll_ms / 1000,
    )
    keeper.start()
    try:
        return watchdog.run(inbox)
    finally:
        keeper.end()
        timers.end()


class Watchdog:
    """One watchdog over one connection. ``run_once`` is one round, ``run`` is ``run_once`` in a loop."""

    def __init__(
        self,
        connection: Connection,
        keys: Keys,
        *,
        settings: WatchdogSettings | None = None,
        limits: Limits | None = None,
        application: Application | None = None,
        say: Callable[[str], None] = print,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings or WatchdogSettings()
        self._connection = connection
        self._keys = keys
        self._limits = limits or Limits()
        types: Mapping[str, type[Agent[Any]]] = application.agent_types if application is not None else {}
        self._initial = _initial_states(types)
        self._schemas = {name: kind.definition.schema for name, kind in types.items()}
        self._tree = None
        if application is not None:
            tree: Any = application.tree
            self._tree = TreeRequest(keys, tree.name, tree.definition(), say)
        self._clock = clock
        self.lease = Lease(keys, self.settings.lease_ms, clock)
        self._store = StoreWatch(_LOG, "watchdog")
        self._generation: int = 0
        self._run_id = ""
        self._served = False
        """Whether a round went well: the server can be stood on."""

        self._doubtful = False
        self._store_restarted = False
        self._reloads = 0
        self.reign: Reign | None = None

    @property
    def leading(self) -> bool:
        return self.reign is not None

    @property
    def token(self) -> str:
        """Of our reign; '' while another leads."""
        return self.lease.token

    def run(self, inbox: SignalInbox) -> int:
        """Until a signal comes in ``inbox``."""
        log.event(_LOG, "watchdog_started", store=self._connection.where)
        poller = select.poll()
        poller.register(inbox.fileno(), select.POLLIN)
        block_ms = max(1, self.settings.lease_ms // 4)
        code = WatchdogExit.ENDED
        while not inbox.take():
            try:
                counts = self.run_once(block_ms)
            except Interrupted:
                continue
            except WrongServer as error:
                log.event(_LOG, "store_unusable", level=logging.ERROR, error=str(error))
                code = WatchdogExit.STORE
                break
            if counts["wait_ms"]:
                poller.poll(counts["wait_ms"])
        self.resign()
        log.event(_LOG, "watchdog_ended", code=code)
        return code

    def run_once(self, block_ms: int | None = None) -> Counter[str]:
        """One round; waits for entries up to ``block_ms`` (None: not at all).

        Returns what was done: entries, commits, starts, ticks, lost_nodes, lost_agents, late_starts, junk, reloads;
        ``wait_ms`` is how long the caller should wait before the next round.
        """
        try:
            counts = self._round(block_ms)
        except NotLeader:
            self._step_down("another watchdog leads")
            return Counter(wait_ms=self.settings.poll_ms)
        except (Conflict, FateUnknown) as error:
            return self._doubt(error)
        except WrongServer as error:
            # At the start there is nothing to stand on. Later it is mended where it was broken: a password, a right.
            if not self._served:
                raise
            return self._away(error)
        except StoreError as error:
            return self._away(error)
        self._store.answered()
        self._served = True
        self._reloads = 0
        return counts

    def _away(self, error: StoreError) -> Counter[str]:
        """Redis cannot be asked: wait, and trust nothing that we hold."""
        self._doubtful = True
        if self.reign is not None:
            self.reign.doubt()
        return Counter(wait_ms=max(1, round(self._store.failed(error) * 1000)))

    def resign(self) -> None:
        """Give the lease back, if we lead and Redis can be asked; otherwise it runs out."""
        if self.lease.token:
            try:
                self._connection.call(self.lease.resign_call())
            except StoreError as error:
                log.event(_LOG, "not_resigned", level=logging.WARNING, error=str(error))
        self._step_down("told to end")
        self._connection.close()

    def _round(self, block_ms: int | None) -> Counter[str]:
        self._notice_another_server()
        if self._tree is not None:
            self._tree.step(self._connection)
        if self.reign is not None and self.lease.standing() is Standing.EXPIRED:
            self._step_down("the lease ran out")
        if self.reign is None:
            if not self._acquire():
                return Counter(wait_ms=self.settings.poll_ms)
            self._take_over()
        elif self._doubtful:
            self._reload()
        reign = self.reign
        if reign is None:
            return Counter()
        reign.counts.clear()
        reign.work(block_ms)
        return Counter(reign.counts)

    def _acquire(self) -> bool:
        sent = self._clock()
        if not self._connection.call(self.lease.acquire_call()):
            return False
        self.lease.acquired(sent)
        return True

    def _take_over(self) -> None:
        log.event(_LOG, "leading")
        if self._tree is not None and self._tree.answered:
            self._tree.again()
        self._doubtful = True
        self.reign = Reign(
            self._connection,
            self._keys,
            self.lease,
            limits=self._limits,
            settings=self.settings,
            initial=self._initial,
            clock=self._clock,
            roots=() if self._tree is None else (self._tree.name,),
            schemas=self._schemas,
        )
        self._reload()

    def _reload(self) -> None:
        if self.reign is not None:
            self.reign.load()
            self._doubtful = False
            if (
                self._tree is not None
                and self._tree.answered
                and self._tree.name not in self.reign.view.states
            ):
                self._tree.again()  # somebody deleted its record: nobody else would bring it back
            if self._store_restarted:
                self.reign.note_store_restarted(self._run_id)
                self._store_restarted = False

    def _step_down(self, why: str) -> None:
        if self.reign is not None:
            log.event(_LOG, "not_leading", reason=why)
        self.reign = None
        self.lease.drop()

    def _doubt(self, error: Exception) -> Counter[str]:
        """What we hold may not be what Redis holds: read everything again. The same doubt again and again waits.

        A first conflict leaves the verdicts' clocks alone, or it would cost each lost node one timeout more; a second
        one resets them, so that a verdict which cannot be written does not keep us from everything else.
        """
        self._doubtful = True
        self._reloads += 1
        if self.reign is not None and (self._reloads > 1 or not isinstance(error, Conflict)):
            self.reign.doubt()
        log.event(_LOG, "reload", level=logging.WARNING, reason=str(error))
        wait_ms = 0 if self._reloads == 1 else min(1000, 10 * 2 ** min(self._reloads, 10))
        return Counter(reloads=1, wait_ms=wait_ms)

    def _notice_another_server(self) -> None:
        """After a reconnect: the same server's life, or another one, which may have lost writes?"""
        if self._run_id and self._connection.generation == self._generation and self._connection.fileno():
            return
        run_id = self._ask_run_id()
        self._generation = self._connection.generation
        self._doubtful = True
        if self.reign is not None:
            self.reign.doubt()
        if self._run_id and run_id != self._run_id:
            log.event(_LOG, "store_restarted", level=logging.WARNING, run_id=run_id)
            if self._tree is not None:
                self._tree.again()
            self._store_restarted = True
        if run_id != self._run_id:
            for warning in self._connection.run(check_server()).warnings:
                log.event(_LOG, "store_warning", level=logging.WARNING, reason=warning)
        self._run_id = run_id

    def _ask_run_id(self) -> str:
        """A user who may not ask ``INFO`` has one run for ever: a restart is then only seen as a lost connection."""
        try:
            return self._connection.command(run_id_command())
        except WrongServer:
            return "unknown"


def _initial_states(types: Mapping[str, type[Agent[Any]]]) -> InitialState:
    """The first state of a new agent, made by the application's class; without one its worker makes it."""

    def initial(type_name: str, init: Mapping[str, Any]) -> tuple[str, int]:
        agent_type = types.get(type_name)
        if agent_type is None:
            return "", 1
        state = agent_type.initial_state(dict(init))
        return encode_state(state), agent_type.definition.schema

    return initial
