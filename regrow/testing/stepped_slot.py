"""A real ``PoolSlot`` that is driven round by round, one agent in hand, and may die at each step."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regrow.testing.stepped_worker import Flag, Steps
from regrow_signals import pool
from regrow_signals.agents import Owner
from regrow_signals.connection import Connection
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.pool import Claims, SlotName
from regrow_workers.agent import Agent
from regrow_workers.own_descriptors import OwnDescriptors
from regrow_workers.own_priority import OwnPriority
from regrow_workers.pool_lives import end_in_hand
from regrow_workers.pool_slot import Done, PoolSlot
from regrow_workers.reasons import ExitReason
from regrow_workers.settings import NodeSettings
from regrow_workers.slots import Phase, Reading, Slot

__all__ = ["SteppedSlot"]


class SteppedSlot(PoolSlot):
    """One slot process of a simulated node. ``step`` is one round: whether anything was done."""

    def __init__(
        self,
        *,
        name: SlotName,
        agent_types: Mapping[str, type[Agent[Any]]],
        connection: Connection,
        keys: Keys,
        limits: Limits,
        settings: NodeSettings,
        reach: Callable[[str, int, str], None],
    ) -> None:
        super().__init__(
            name=name,
            agent_types=agent_types,
            connection=connection,
            keys=keys,
            limits=limits,
            settings=settings,
        )
        self.name = name
        self._most = 1
        self.clock = lambda: 0.0  # a slow machine ends no slice early
        self._slot = self.slot = Slot(mmap.mmap(-1, mmap.PAGESIZE), 0)
        self.slot.note(Phase.BOOT)
        self._stop = Flag()
        self._own = OwnDescriptors(-1, connection)
        self._priority = OwnPriority(self._slot)
        self._fail = Steps(self._reached)
        self._tell = reach
        self._claims: Claims | None = None

    def reading(self) -> Reading:
        """As its node reads it, also after its end."""
        return self.slot.read()

    def step(self) -> bool:
        """Claim one agent, apply its signals, commit, let go. Raises ``Died`` where it is to die."""
        self._queues_at = 0.0  # classes may be new at any step
        self._claims = None
        claims = super()._exchange(Done(), claim=True)
        if not (claims.agents or claims.unreadable):
            return claims.waiting
        self._claims = claims
        self._round(claims)
        return True

    def _exchange(self, done: Done, *, let_go: Sequence[Owner] | None = None, claim: bool = False) -> Claims:
        """Without a claim at the end of a round: the next agent is claimed by the next step."""
        del claim
        return super()._exchange(done, let_go=let_go)

    def free(self, reason: ExitReason) -> None:
        """What a node does at the end of this slot's process."""
        ended = end_in_hand(self.name.node, self.reading(), reason)
        self._connection.call(pool.free_slot(self._keys, self.name, ended=ended))

    def _reached(self, step: str) -> None:
        """Steps count for the agent in hand; those between two agents for nobody."""
        if self._claims is not None and self._claims.agents:
            owner = self._claims.agents[0].owner
            self._tell(owner.agent, owner.incarnation, step)
