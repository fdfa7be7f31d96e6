"""The executors of an effects node: kept at their number, judged, and each one's effect given back at its end."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Collection
from typing import Any, Final

from regrow_signals.calls import Call
from regrow_signals.effect_store import abandon, settle_effect
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_workers import log
from regrow_workers.effects.executor_life import (
    ExecutorLife,
    held_in,
    in_hand,
    must_end_executor,
    settle_for_the_dead,
    started_well,
)
from regrow_workers.lives import Pauses
from regrow_workers.node_messages import Order
from regrow_workers.os_signals import process_state
from regrow_workers.reasons import Killed, Knowledge, explain, is_expected
from regrow_workers.settings import NodeSettings
from regrow_workers.slots import Reading
from regrow_workers.spawner_process import SpawnerProcess

__all__ = ["ExecutorRoster"]

_LOG = logging.getLogger(__name__)

START_PAUSES: Final = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)
SECOND_LOOK: Final = 1.0


class ExecutorRoster:
    """Belongs to the node's main loop, as ``Roster`` does; hands reports in, and never waits.

    1. Once Redis knows the node and the spawner is ready, there are ``wanted`` executors: one that ends is replaced at
       once, after a pause only if it did not get as far as its first wait.
    2. The end of each gives back what it held at once, and once more a second later: a claim that was on its way when
       its executor died may reach Redis after the first time.
    """

    def __init__(
        self,
        settings: NodeSettings,
        keys: Keys,
        limits: Limits,
        hand_in: Callable[[Call[Any]], None],
        *,
        wanted: int,
        async_calls: int,
        rq_url: str,
    ) -> None:
        """``async_calls``: places of the asyncio executor, which is there if the application awaits; 0: none."""
        self._settings = settings
        self._keys = keys
        self._max_kills = limits.max_kills
        self._hand_in = hand_in
        self._wanted = wanted
        self._async_calls = async_calls
        self._rq_url = rq_url
        self._lives: dict[str, ExecutorLife] = {}
        self._spawner: SpawnerProcess | None = None
        self._node = ""
        self._count = 0
        self._failures = 0
        self._not_before = 0.0
        self._second_looks: list[tuple[float, str, str]] = []
        self._draining = False

    def __len__(self) -> int:
        return len(self._lives)

    @property
    def load(self) -> int:
        return sum(in_hand(life) for life in self._lives.values())

    @property
    def slots(self) -> None:
        """None: pooled agents are not an effects node's."""
        return

    def pids(self) -> list[int]:
        return [life.pid for life in self._lives.values() if life.pid is not None]

    def next_due(self) -> float:
        """When something has to be done, monotonic: a kill, a start that was put off, a second look."""
        due = [
            each.kill_at for each in self._lives.values() if each.kill_at is not None and each.killed is None
        ]
        due += [at for at, _, _ in self._second_looks[:1]]
        if self._missing():
            due.append(self._not_before)
        return min(due, default=float("inf"))

    # The spawner came, went, or told.

    def use(self, spawner: SpawnerProcess, types: Collection[str]) -> None:
        del types
        self._spawner = spawner
        self._fill()

    def joined(self, node: str, *, pooled: bool) -> None:
        """From now on a claim under this node's name is the claim of a node that Redis knows: not before."""
        del pooled
        self._node = node
        self._fill()

    def spawner_died(self) -> None:
        """Its executors get the kernel's parent-death signal."""
        self._spawner = None
        lives, self._lives = self._lives, {}
        for life in lives.values():
            self._give_back(life)

    def forked(self, key: str, pid: int) -> None:
        life = self._lives.get(key)
        if life is not None:
            life.pid = pid
            life.forked_at = time.monotonic()
            log.event(_LOG, "executor_forked", level=logging.DEBUG, executor=life.agent, pid=pid)

    def not_forked(self, key: str, error: str) -> None:
        life = self._lives.pop(key, None)
        if life is not None:
            log.event(_LOG, "executor_not_forked", level=logging.ERROR, executor=life.agent, error=error)
            self._give_slot_back(life)
            self._put_off()

    def exited(self, key: str, status: int) -> None:
        """``status``: exit code, or minus the number of the signal that ended it."""
        life = self._lives.pop(key, None)
        if life is None:
            return
        reading = life.slot.read()
        self._tell(life, reading, status)
        self._give_back(life)
        self._give_slot_back(life)
        if started_well(life, reading, time.monotonic()):
            self._failures = 0
            self._not_before = 0.0
            self._fill()
        else:
            self._put_off()

    # Orders: nobody orders executors about.

    def start(self, order: Order) -> None:
        log.event(_LOG, "order_ignored", level=logging.WARNING, order=order.fields.get("order"))

    def stop(self, order: Order) -> None:
        self.start(order)

    def kill(self, order: Order) -> None:
        self.start(order)

    def pool(self, order: Order) -> None:
        self.start(order)

    def end_stale(self, agent: str, incarnation: int) -> None:
        """No agent runs here, so none is named in a beat."""

    def end_all_unreported(self) -> None:
        """This node was declared lost, or Redis went back: what it held was given back, or is taken over."""
        self._node = ""
        self._second_looks.clear()
        for life in self._lives.values():
            life.forgotten = True
            self._kill(life, Killed.SUPERSEDED)

    def drain(self, within: float) -> None:
        """Those that wait end at once, those in a call have ``within`` seconds to finish it."""
        self._draining = True
        for life in self._lives.values():
            life.kill_at = time.monotonic() + within
            self._send_signal(life, signal.SIGTERM)

    def kill_all(self, why: Killed) -> None:
        for life in self._lives.values():
            self._kill(life, why)

    # Time.

    def judge(self, now: float, pauses: Pauses) -> list[tuple[str, int]]:
        """Look at every slot, end what has to be ended, start what is missing. No agent's life is beaten for."""
        for life in self._lives.values():
            reading = life.look(now)
            why = must_end_executor(
                life,
                reading,
                now,
                start_timeout=self._settings.start_timeout,
                node_timeout=self._settings.node_timeout,
                pauses=pauses,
            )
            if why is Killed.DEADLINE:
                life.overdue = held_in(reading)
            if why is not None:
                self._kill(life, Killed.DRAINED if self._draining and why is Killed.SHUTDOWN_TIME else why)
        while self._second_looks and now >= self._second_looks[0][0]:
            _, node, executor = self._second_looks.pop(0)
            self._abandon(node, executor)
        self._fill()
        return []

    # Below: what the above is made of.

    def _missing(self) -> int:
        """Places of the executor that is to be started next; 0: all are there, or none can be."""
        spawner = self._spawner
        if spawner is None or self._node == "" or self._draining:
            return 0
        awaiting = sum(life.calls > 1 for life in self._lives.values())
        if spawner.awaits and self._async_calls and not awaiting:
            return self._async_calls
        return int(len(self._lives) - awaiting < self._wanted)

    def _fill(self) -> None:
        while (calls := self._missing()) and time.monotonic() >= self._not_before:
            spawner = self._spawner
            slot = spawner.slots.take() if spawner is not None else None
            if spawner is None or slot is None:
                self._put_off()
                return
            self._count += 1
            name = f"{self._node}.{self._count}"
            life = ExecutorLife(
                agent=name,
                incarnation=self._count,
                node=self._node,
                slot=slot,
                deadline=float("inf"),
                calls=calls,
            )
            self._lives[life.key] = life
            order = {"order": "executor", "executor": name, "rq_url": self._rq_url, "calls": calls}
            spawner.say(
                {"do": "start", "key": life.key, "slot": slot.index, "node": self._node, "order": order}
            )

    def _put_off(self) -> None:
        self._failures += 1
        pause = START_PAUSES[min(self._failures, len(START_PAUSES) - 1)]
        self._not_before = time.monotonic() + pause

    def _tell(self, life: ExecutorLife, reading: Reading, status: int) -> None:
        """Settle for the dead where it is known how the call ended; log the end."""
        reason = explain(
            status, reading, Knowledge(life.killed, self._draining, self._draining, life.was_stopped)
        )
        told = None if life.forgotten else settle_for_the_dead(life, reading, status, reason)
        if told is not None:
            held, outcome = told
            self._hand_in(
                settle_effect(
                    self._keys, held.effect_id, held.token, outcome.outcome, outcome.data,
                    retry_in_ms=outcome.retry_in_ms,
                )
            )  # fmt: skip
        held_then = life.overdue or held_in(reading)
        log.event(
            _LOG,
            "executor_exited",
            level=logging.INFO if is_expected(reason.reason) or self._draining else logging.WARNING,
            executor=life.agent,
            pid=life.pid,
            reason=reason.reason,
            effect=held_then.name if held_then is not None else None,
            effect_id=held_then.effect_id if held_then is not None else None,
            outcome=told[1].outcome if told is not None else None,
        )

    def _give_back(self, life: ExecutorLife) -> None:
        if life.forgotten:
            return
        self._abandon(life.node, life.agent)
        self._second_looks.append((time.monotonic() + SECOND_LOOK, life.node, life.agent))

    def _abandon(self, node: str, executor: str) -> None:
        self._hand_in(abandon(self._keys, node, executor, max_kills=self._max_kills))

    def _kill(self, life: ExecutorLife, why: Killed) -> None:
        if life.killed is not None:
            return
        life.killed = why
        life.was_stopped = life.pid is not None and process_state(life.pid) == "T"
        self._send_signal(life, signal.SIGKILL)

    def _send_signal(self, life: ExecutorLife, number: signal.Signals) -> None:
        if self._spawner is not None:
            self._spawner.say({"do": "signal", "key": life.key, "signal": int(number)})

    def _give_slot_back(self, life: ExecutorLife) -> None:
        if self._spawner is not None:
            self._spawner.slots.give_back(life.slot)
