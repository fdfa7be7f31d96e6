"""All that a worker node looks after: agents with a process of their own (``Roster``), and slots (``PoolRoster``)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from regrow_signals.calls import Call
from regrow_signals.keys import Keys
from regrow_workers.lives import Life, Pauses
from regrow_workers.node_messages import Order
from regrow_workers.pool_roster import PoolRoster
from regrow_workers.priority_watch import PriorityWatch
from regrow_workers.reasons import Killed
from regrow_workers.roster import Roster
from regrow_workers.settings import NodeSettings
from regrow_workers.spawner_process import SpawnerProcess

__all__ = ["WorkerRoster"]


class WorkerRoster(Roster):
    """Both, as one roster for the node's main loop. Slots are looked at more often than agents' own processes."""

    def __init__(
        self, settings: NodeSettings, keys: Keys, hand_in: Callable[[Call[Any]], None], *, every: float
    ) -> None:
        super().__init__(settings, keys, hand_in)
        self._pool = PoolRoster(settings, keys, hand_in, counted=self._counted)
        self._every = every
        self._priority = PriorityWatch(settings.lower_after, every)
        self._judge_at = 0.0
        self._running: list[tuple[str, int]] = []

    def __len__(self) -> int:
        return super().__len__() + len(self._pool)

    @property
    def slots(self) -> tuple[int, int] | None:
        return self._pool.counts

    def pids(self) -> list[int]:
        return [*super().pids(), *self._pool.pids()]

    def next_due(self) -> float:
        return min(super().next_due(), self._pool.next_due(), self._priority.next_due(len(self)))

    def use(self, spawner: SpawnerProcess, types: Collection[str]) -> None:
        super().use(spawner, types)
        self._pool.use(spawner)

    def spawner_died(self) -> None:
        super().spawner_died()
        self._pool.spawner_died()

    def forked(self, key: str, pid: int) -> None:
        if key in self._pool:
            self._pool.forked(key, pid)
        else:
            super().forked(key, pid)

    def not_forked(self, key: str, error: str) -> None:
        if key in self._pool:
            self._pool.not_forked(key, error)
        else:
            super().not_forked(key, error)

    def exited(self, key: str, status: int) -> None:
        if key in self._pool:
            self._pool.exited(key, status)
        else:
            super().exited(key, status)

    def pool(self, order: Order) -> None:
        del order
        self._pool.want()

    def end_all_unreported(self) -> None:
        super().end_all_unreported()
        self._pool.end_all_unreported()

    def joined(self, node: str, *, pooled: bool) -> None:
        super().joined(node, pooled=pooled)
        self._pool.joined(node, pooled=pooled)

    def drain(self, within: float) -> None:
        super().drain(within)
        self._pool.drain(within)

    def kill_all(self, why: Killed) -> None:
        super().kill_all(why)
        self._pool.kill_all(why)

    def judge(self, now: float, pauses: Pauses) -> list[tuple[str, int]]:
        self._priority.look((*self._lives.values(), *self._pool.lives), now)
        self._pool.judge(now, pauses)
        if now >= min(self._judge_at, super().next_due()):
            self._judge_at = now + self._every
            self._running = super().judge(now, pauses)
        return self._running

    def _counted(self, life: Life, pauses: Pauses, now: float) -> Pauses:
        return self._priority.counted(life, pauses, now)
