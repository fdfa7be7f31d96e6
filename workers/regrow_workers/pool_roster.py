"""The slots of a node: kept at their number, judged, and what each held given back at its end."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Collection
from typing import Any, Final

from regrow_signals import pool
from regrow_signals.calls import Call
from regrow_signals.keys import Keys
from regrow_signals.pool import SlotName
from regrow_workers import log
from regrow_workers.lives import Life, Pauses, in_words, is_stopped
from regrow_workers.memory_limit import MemoryWatch
from regrow_workers.pool_hand import InHand
from regrow_workers.pool_lives import (
    SlotLife,
    end_in_hand,
    is_stuck,
    missing_slots,
    must_end_slot,
    started_well,
    superfluous,
)
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
from regrow_workers.spawner_process import SpawnerProcess

__all__ = ["SLOT", "PoolRoster"]

_LOG = logging.getLogger(__name__)

SLOT: Final = "slot"
"""What a spawner is told to start, in place of an agent's worker."""

LOOK_EVERY: Final = 0.05
START_PAUSES: Final = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)
LOOKS_AFTER: Final = (0.1, 1.0)
"""What a slot held is freed at its end, and again after these seconds: a claim may have been on its way."""


class PoolRoster:
    """Belongs to the node's main loop, beside ``Roster``; hands calls in, and never waits.

    1. Once Redis or the watchdog has said that there are pooled agents, Redis knows the node and the spawner is ready,
       there are ``pool_slots`` slots: one that ends is replaced at once, after a pause only if it never served.
    2. A slot that is stuck in one transition loses what it has not begun to others, and while nobody idles it gets a
       stand-in.
    3. The end of a slot is the end of the agent that it had in hand, and of nobody else.
    """

    def __init__(
        self,
        settings: NodeSettings,
        keys: Keys,
        hand_in: Callable[[Call[Any]], None],
        *,
        counted: Callable[[Life, Pauses, float], Pauses] = lambda _life, pauses, _now: pauses,
    ) -> None:
        """``counted``: the time that counts against a life."""
        self._counted = counted
        self._settings = settings
        self._keys = keys
        self._hand_in = hand_in
        self._lives: dict[str, SlotLife] = {}
        self._spawner: SpawnerProcess | None = None
        self._wanted = False
        self._node = ""
        self._count = 0
        self._failures = 0
        self._not_before = 0.0
        self._look_at = 0.0
        self._looks: list[tuple[float, SlotName]] = []
        self._memory = MemoryWatch()
        self._draining = False

    def __len__(self) -> int:
        return len(self._lives)

    def __contains__(self, key: object) -> bool:
        return key in self._lives

    @property
    def lives(self) -> Collection[SlotLife]:
        return self._lives.values()

    @property
    def counts(self) -> tuple[int, int] | None:
        """Slots, and how many of them are stuck, as of the last look; None: the node keeps none."""
        now = time.monotonic()
        stuck = sum(is_stuck(life, now) for life in self._lives.values())
        return (len(self._lives), stuck) if self._wanted else None

    def pids(self) -> list[int]:
        return [life.pid for life in self._lives.values() if life.pid is not None]

    def next_due(self) -> float:
        """When to look again, monotonic; infinity while there are no slots and none are wanted."""
        return self._look_at if self._lives or self._looks or self._is_open() else float("inf")

    # The watchdog, Redis and the spawner.

    def want(self) -> None:
        """There are pooled agents: from now on the node keeps slots."""
        self._wanted = True
        self._fill(time.monotonic())

    def joined(self, node: str, *, pooled: bool) -> None:
        """Redis knows the node under this id, so what its slots take will be freed if it is lost.

        ``pooled``: there are pooled agents already. They need no watchdog to go on, so neither does this node.
        """
        self._node = node
        self._wanted = self._wanted or pooled
        self._fill(time.monotonic())

    def use(self, spawner: SpawnerProcess) -> None:
        self._spawner = spawner
        self._fill(time.monotonic())

    def spawner_died(self) -> None:
        self._spawner = None
        lives, self._lives = self._lives, {}
        for life in lives.values():
            self._ended(life, life.slot.read(), spawner_lost())

    def forked(self, key: str, pid: int) -> None:
        life = self._lives[key]
        life.pid = pid
        life.forked_at = life.busy_at = time.monotonic()
        log.event(_LOG, "slot_forked", level=logging.DEBUG, slot=life.incarnation, pid=pid)

    def not_forked(self, key: str, error: str) -> None:
        life = self._lives.pop(key)
        log.event(_LOG, "slot_not_forked", level=logging.ERROR, slot=life.incarnation, error=error)
        self._give_slot_back(life)
        self._put_off()

    def exited(self, key: str, status: int) -> None:
        """``status``: exit code, or minus the number of the signal that ended it."""
        life = self._lives.pop(key)
        reading = life.slot.read()
        known = Knowledge(life.killed, self._draining, life.asked, life.was_stopped, life.why)
        reason = explain(status, reading, known)
        if status == WorkerExit.RECYCLED and reading.phase is Phase.RECYCLED:
            reason = ExitReason(reading.said, "none", False)
        self._ended(life, reading, reason)
        self._give_slot_back(life)
        if started_well(life, reading, time.monotonic()):
            self._failures, self._not_before = 0, 0.0
            self._fill(time.monotonic())
        else:
            self._put_off()

    # Ends that are wanted.

    def end_all_unreported(self) -> None:
        """This node was declared lost, or Redis went back: what its slots held was freed with that."""
        self._node = ""
        self._looks.clear()
        for life in self._lives.values():
            life.forgotten = True
            self._kill(life, Killed.SUPERSEDED)

    def drain(self, within: float) -> None:
        """Each finishes the slice in hand and gives the rest back."""
        self._draining = True
        for life in self._lives.values():
            self._ask(life, within)

    def kill_all(self, why: Killed) -> None:
        for life in self._lives.values():
            self._kill(life, why)

    # Time.

    def judge(self, now: float, pauses: Pauses) -> None:
        """Look at every slot: end what has to be ended, free what is kept waiting, start what is missing."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY
        self._memory.begin(now)
        for life in self._lives.values():
            life.looked = life.look(now)
            if life.looked.phase is not Phase.IDLE:
                life.busy_at = now
            why = must_end_slot(life, self._settings, now, self._counted(life, pauses, now))
            if why is None:
                why = over_share(self._memory, life, life.looked)
            else:
                life.why = in_words(why, life, self._settings)
            if why is not None:
                self._kill(life, Killed.DRAINED if self._draining and why is Killed.SHUTDOWN_TIME else why)
            elif is_stuck(life, now):
                self._free_the_others(life)
        while self._looks and now >= self._looks[0][0]:
            self._hand_in(pool.free_slot(self._keys, self._looks.pop(0)[1]))
        for life in superfluous(self._lives.values(), self._settings, now):
            self._ask(life, self._settings.drain)
        self._fill(now)

    # Below: what the above is made of.

    def _is_open(self) -> bool:
        return self._wanted and self._spawner is not None and self._node != "" and not self._draining

    def _fill(self, now: float) -> None:
        if not self._is_open() or now < self._not_before:
            return
        for _ in range(missing_slots(self._lives.values(), self._settings, now)):
            if not self._start():
                self._put_off()
                return

    def _start(self) -> bool:
        spawner = self._spawner
        slot = None if spawner is None else spawner.slots.take()
        if spawner is None or slot is None:
            return False
        self._count += 1
        name = SlotName(self._node, self._count)
        life = SlotLife(
            agent=name.worker,
            incarnation=name.number,
            node=self._node,
            slot=slot,
            deadline=float("inf"),
            name=name,
            max_memory=self._settings.max_memory,
            max_processes=self._settings.max_processes,
        )
        self._lives[life.key] = life
        order = {"order": SLOT, "agent": f"slot:{name.number}", "number": str(name.number)}
        spawner.say({"do": "start", "key": life.key, "slot": slot.index, "node": self._node, "order": order})
        return True

    def _put_off(self) -> None:
        self._failures += 1
        self._not_before = time.monotonic() + START_PAUSES[min(self._failures, len(START_PAUSES) - 1)]

    def _free_the_others(self, life: SlotLife) -> None:
        """Once for each transition in which it is stuck."""
        at = (life.looked.holder, life.looked.entry)
        in_hand = InHand.from_text(life.looked.holder)
        if in_hand is None or at == life.freed:
            return
        life.freed = at
        self._hand_in(pool.free_slot(self._keys, life.name, spare=in_hand.agent))

    def _ended(self, life: SlotLife, reading: Reading, reason: ExitReason) -> None:
        ended = end_in_hand(life.node, reading, reason)
        if not life.forgotten:
            self._hand_in(pool.free_slot(self._keys, life.name, ended=ended))
            now = time.monotonic()
            self._looks = sorted([*self._looks, *((now + after, life.name) for after in LOOKS_AFTER)])
        log.event(
            _LOG,
            "slot_exited",
            level=logging.WARNING if reason.charged and not is_expected(reason.reason) else logging.INFO,
            slot=life.incarnation,
            pid=life.pid,
            reason=reason.reason,
            agent=None if ended is None else ended.agent,
            in_hand=reading.entry,
        )

    def _ask(self, life: SlotLife, within: float) -> None:
        life.asked = True
        life.kill_at = min(life.kill_at or float("inf"), time.monotonic() + within)
        self._send_signal(life, signal.SIGTERM)

    def _kill(self, life: SlotLife, why: Killed) -> None:
        if life.killed is not None:
            return
        life.killed = why
        life.was_stopped = is_stopped(life)
        let_end(life)
        self._send_signal(life, signal.SIGKILL)

    def _send_signal(self, life: SlotLife, number: signal.Signals) -> None:
        if self._spawner is not None:
            self._spawner.say({"do": "signal", "key": life.key, "signal": int(number)})

    def _give_slot_back(self, life: SlotLife) -> None:
        if self._spawner is not None:
            self._spawner.slots.give_back(life.slot)
