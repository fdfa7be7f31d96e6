"""The lives of a node: started, asked, judged, killed, and each reported once at its end."""

from __future__ import annotations

import logging
import secrets
import signal
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from regrow_signals import nodes
from regrow_signals.calls import Call
from regrow_signals.keys import Keys
from regrow_workers import log
from regrow_workers.lives import Life, Pauses, in_words, is_progressing, is_stopped, must_end
from regrow_workers.memory_limit import MemoryWatch
from regrow_workers.node_messages import Order
from regrow_workers.priority_watch import let_end
from regrow_workers.reasons import (
    ExitReason,
    Killed,
    Knowledge,
    WorkerExit,
    explain,
    is_expected,
    spawner_lost,
)
from regrow_workers.settings import NodeSettings
from regrow_workers.shares import over_share
from regrow_workers.slots import Phase, Reading
from regrow_workers.spawner_link import life_key
from regrow_workers.spawner_process import SpawnerProcess

__all__ = ["Roster"]

_LOG = logging.getLogger(__name__)

NO_ROOM = "no_room"
"""Reason of a life that never began since all slots are taken: not its fault, and the watchdog asks another node."""


class Roster:
    """Belongs to the node's main loop; speaks to the spawner and hands reports in, and never waits for either.

    A start order that comes while no spawner is ready waits here; once it was handed to a spawner there is a ``Life``
    for it, until its end was handed in as a report.
    """

    def __init__(self, settings: NodeSettings, keys: Keys, hand_in: Callable[[Call[Any]], None]) -> None:
        self._settings = settings
        self._keys = keys
        self._hand_in = hand_in
        self._lives: dict[str, Life] = {}
        self._waiting: dict[str, Order] = {}
        self._spawner: SpawnerProcess | None = None
        self._types: Collection[str] = ()
        self._memory = MemoryWatch()
        self.draining = False

    def __len__(self) -> int:
        return len(self._lives)

    @property
    def load(self) -> int:
        return len(self._lives) + len(self._waiting)

    @property
    def slots(self) -> tuple[int, int] | None:
        """Slots for pooled agents, and how many of them are stuck; None: it keeps none."""
        return None

    def pids(self) -> list[int]:
        return [life.pid for life in self._lives.values() if life.pid is not None]

    def next_due(self) -> float:
        """When the first shutdown time runs out, monotonic; infinity if none runs."""
        due = (
            each.kill_at for each in self._lives.values() if each.kill_at is not None and each.killed is None
        )
        return min(due, default=float("inf"))

    # The spawner came, went, or told.

    def use(self, spawner: SpawnerProcess, types: Collection[str]) -> None:
        """A spawner is ready: start what waited for it."""
        self._spawner = spawner
        self._types = types
        waiting, self._waiting = self._waiting, {}
        for order in waiting.values():
            self.start(order)

    def spawner_died(self) -> None:
        """Its workers get the kernel's parent-death signal; one that still lives for a moment will be fenced."""
        self._spawner = None
        for life in self._lives.values():
            self._report(life, life.slot.read(), spawner_lost())
        self._lives.clear()

    def forked(self, key: str, pid: int) -> None:
        life = self._lives.get(key)
        if life is None:
            return
        life.pid = pid
        life.forked_at = time.monotonic()
        log.event(
            _LOG,
            "worker_forked",
            level=logging.DEBUG,
            agent=life.agent,
            incarnation=life.incarnation,
            pid=pid,
        )

    def not_forked(self, key: str, error: str) -> None:
        life = self._lives.pop(key, None)
        if life is not None:
            self._give_slot_back(life)
            self._refuse(life.node, life.agent, life.incarnation, f"no process could be started: {error}")

    def exited(self, key: str, status: int) -> None:
        """``status``: exit code, or minus the number of the signal that ended it."""
        life = self._lives.get(key)
        if life is None:
            return
        reading = life.slot.read()
        if status == WorkerExit.RECYCLED and reading.phase is Phase.RECYCLED and self._goes_on(life):
            log.event(
                _LOG, "worker_recycled", agent=life.agent, incarnation=life.incarnation, reason=reading.said
            )
            life.renew(reading.said.partition(":")[0])
            self._hand_over(life)
            return
        del self._lives[key]
        known = Knowledge(life.killed, self.draining, life.asked, life.was_stopped, life.why)
        self._report(life, reading, explain(status, reading, known))
        self._give_slot_back(life)

    # Orders.

    def start(self, order: Order) -> None:
        """At most once for each incarnation that is still in hand; the cursor of the orders sees to the rest."""
        agent, incarnation = _life_of(order)
        key = life_key(agent, incarnation)
        if key in self._lives or key in self._waiting:
            return
        if self.draining:
            self._never_ran(order, Killed.DRAINED)
            return
        if self._spawner is None:
            self._waiting[key] = order
            return
        if order.fields["type"] not in self._types:
            known = ", ".join(sorted(self._types)) or "none"
            reason = f"this node's application has no agent type {order.fields['type']!r}; it has: {known}"
            self._refuse(order.node, agent, incarnation, reason)
            return
        for other in self._lives.values():
            if other.agent == agent and other.incarnation < incarnation:
                self._kill(other, Killed.SUPERSEDED)
        self._hand_to(self._spawner, order, agent, incarnation)

    def stop(self, order: Order) -> None:
        life = self._lives.get(life_key(*_life_of(order)))
        if life is None:
            self._waiting.pop(life_key(*_life_of(order)), None)
            # If it ran and ended, its own report stands and this one changes nothing.
            self._never_ran(order, "shutdown")
            return
        within = _seconds(order.fields.get("shutdown_ms"), self._settings.shutdown)
        if within == 0:
            self._kill(life, Killed.SHUTDOWN_TIME)
        else:
            self._ask(life, within)

    def kill(self, order: Order) -> None:
        """An operator's order: SIGKILL, not charged."""
        life = self._lives.get(life_key(*_life_of(order)))
        if life is not None:
            self._kill(life, Killed.OPERATOR)
            return
        self._waiting.pop(life_key(*_life_of(order)), None)
        self._never_ran(order, Killed.OPERATOR)

    def end_stale(self, agent: str, incarnation: int) -> None:
        """A beat's answer says that this life is not current any more."""
        life = self._lives.get(life_key(agent, incarnation))
        if life is not None:
            self._kill(life, Killed.SUPERSEDED)

    def joined(self, node: str, *, pooled: bool) -> None:
        """Redis knows the node. Its orders come by themselves, so there is nothing to do for it."""

    def end_all_unreported(self) -> None:
        """This node was declared lost, or Redis went back: their ends mean nothing to anybody any more."""
        self._waiting.clear()
        for life in self._lives.values():
            life.forgotten = True
            self._kill(life, Killed.SUPERSEDED)

    def drain(self, within: float) -> None:
        """Ask all to stop; from now on nothing is started."""
        self.draining = True
        for order in self._waiting.values():
            self._never_ran(order, Killed.DRAINED)
        self._waiting.clear()
        for life in self._lives.values():
            self._ask(life, within)

    def kill_all(self, why: Killed) -> None:
        for life in self._lives.values():
            self._kill(life, why)

    # Time.

    def judge(self, now: float, pauses: Pauses) -> list[tuple[str, int]]:
        """Look at every slot, end what has to be ended; returns the lives that make progress, for the next beat."""
        running: list[tuple[str, int]] = []
        self._memory.begin(now)
        for life in self._lives.values():
            reading = life.look(now)
            counted = self._counted(life, pauses, now)
            why = must_end(
                life,
                reading,
                now,
                start_timeout=self._settings.start_timeout,
                node_timeout=self._settings.node_timeout,
                pauses=counted,
                is_stopped=partial(is_stopped, life),
            )
            if why is None:
                why = over_share(self._memory, life, reading)
            else:
                life.why = in_words(why, life, self._settings)
            if why is not None:
                self._kill(life, Killed.DRAINED if self.draining and why is Killed.SHUTDOWN_TIME else why)
            if is_progressing(life, reading, now, self._settings.heartbeat, counted):
                running.append((life.agent, life.incarnation))
        return running

    # Below: what the above is made of.

    def _counted(self, life: Life, pauses: Pauses, now: float) -> Pauses:
        """The time that counts against a life."""
        del life, now
        return pauses

    def _hand_to(self, spawner: SpawnerProcess, order: Order, agent: str, incarnation: int) -> None:
        slot = spawner.slots.take()
        if slot is None:
            log.event(_LOG, "no_room", level=logging.WARNING, agent=agent, workers=self._settings.max_workers)
            self._never_ran(order, NO_ROOM)
            return
        deadline = _seconds(order.fields.get("deadline_ms"), self._settings.deadline)
        # The token is made here, so that a fresh process of the same life can have it, too.
        life = Life(
            agent=agent,
            incarnation=incarnation,
            node=order.node,
            slot=slot,
            deadline=float("inf") if deadline is None else deadline,
            max_memory=int(order.fields.get("max_memory") or self._settings.max_memory),
            max_processes=int(order.fields.get("max_processes") or self._settings.max_processes),
            order={**order.fields, "token": secrets.token_hex(16)},
        )
        self._lives[life.key] = life
        self._hand_over(life)

    def _hand_over(self, life: Life) -> None:
        """Have the spawner make a process for it."""
        assert self._spawner is not None, "without one nothing is handed over"
        self._spawner.say(
            {
                "do": "start",
                "key": life.key,
                "slot": life.slot.index,
                "node": life.node,
                "order": dict(life.order),
            }
        )

    def _goes_on(self, life: Life) -> bool:
        """Nobody wants it to end, and there is somebody to make its next process."""
        ending = life.asked or life.killed is not None or life.forgotten
        return not (ending or self.draining or self._spawner is None)

    def _ask(self, life: Life, within: float | None) -> None:
        """Ask to stop; it is killed when ``within`` seconds have gone by (None: waits for ever)."""
        life.asked = True
        if within is not None:
            life.kill_at = min(life.kill_at or float("inf"), time.monotonic() + within)
        self._send_signal(life, signal.SIGTERM)

    def _kill(self, life: Life, why: Killed) -> None:
        if life.killed is not None:
            return
        life.killed = why
        # A process that somebody stopped (SIGSTOP) is no evidence against the signal in its hand.
        life.was_stopped = is_stopped(life)
        let_end(life)
        self._send_signal(life, signal.SIGKILL)

    def _send_signal(self, life: Life, number: signal.Signals) -> None:
        if self._spawner is not None:
            self._spawner.say({"do": "signal", "key": life.key, "signal": int(number)})

    def _give_slot_back(self, life: Life) -> None:
        if self._spawner is not None:
            self._spawner.slots.give_back(life.slot)

    def _report(self, life: Life, reading: Reading, reason: ExitReason) -> None:
        if not life.forgotten:
            self._hand_in(
                nodes.report_exit(
                    self._keys,
                    nodes.ExitReport(
                        node=life.node,
                        agent=life.agent,
                        incarnation=life.incarnation,
                        reason=reason.reason,
                        charge=reason.charge,
                        charged=reason.charged,
                        error=reason.error,
                        in_hand=reading.entry,
                    ),
                )
            )
        log.event(
            _LOG,
            "worker_exited",
            level=logging.WARNING if reason.charged and not is_expected(reason.reason) else logging.INFO,
            agent=life.agent,
            incarnation=life.incarnation,
            pid=life.pid,
            reason=reason.reason,
            in_hand=reading.entry,
        )

    def _never_ran(self, order: Order, reason: str) -> None:
        agent, incarnation = _life_of(order)
        report = nodes.ExitReport(
            node=order.node, agent=agent, incarnation=incarnation, reason=str(reason),
            charge="none", charged=False, error="", in_hand="",
        )  # fmt: skip
        self._hand_in(nodes.report_exit(self._keys, report))

    def _refuse(self, node: str, agent: str, incarnation: int, reason: str) -> None:
        log.event(
            _LOG, "start_failed", level=logging.ERROR, agent=agent, incarnation=incarnation, reason=reason
        )
        self._hand_in(nodes.report_start_failed(self._keys, node, agent, incarnation, reason))


def _life_of(order: Order) -> tuple[str, int]:
    return order.fields["agent"], int(order.fields["incarnation"])


def _seconds(ms: str | None, default: float) -> float | None:
    """Milliseconds of an order's field as seconds; -1 is for ever (None)."""
    if ms is None or ms == "":
        return default
    return None if int(ms) < 0 else int(ms) / 1000
