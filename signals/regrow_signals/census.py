"""A census of the registered agents: counted in the server, a few hundred in a step, so that nobody waits for it.

What ``tree``, ``doctor``, ``top`` and the metrics say of all agents comes from here. Nothing is kept between two of
them, so nothing can drift; the steps are some milliseconds apart, and so may be what they tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, Final, NamedTuple

from regrow_signals.answers import answer
from regrow_signals.calls import Call, Op
from regrow_signals.keys import Keys
from regrow_signals.scripts import declare
from regrow_signals.views import shown

__all__ = ["AT_ONCE", "NAMED", "Census", "Group", "Seen", "Tally", "take_census"]

AT_ONCE: Final = 250
"""Agents in one step: the server is held for a millisecond or two."""

NAMED: Final = 20
"""Agents that each list of the whole census names."""

CENSUS: Final = declare("census", keys=["agents"], args=["prefix", "cursor", "count", "most"])


class Group(NamedTuple):
    """What agents are counted by. ``status`` is ``unreadable`` where the record is no hash."""

    supervisor: str
    type: str
    status: str


@dataclass(slots=True)
class Tally:
    """Of one group: agents, signals that wait, dead letters, open effects and held emits."""

    agents: int = 0
    backlog: int = 0
    dead: int = 0
    outbox: int = 0
    oldest_ms: int = 0
    """When the oldest of the waiting signals was accepted, Redis ms; 0: none waits."""

    def add(self, other: Tally) -> None:
        """Together with this one."""
        self.agents += other.agents
        self.backlog += other.backlog
        self.dead += other.dead
        self.outbox += other.outbox
        self.oldest_ms = min(filter(None, (self.oldest_ms, other.oldest_ms)), default=0)


@dataclass(frozen=True, slots=True)
class Seen:
    """One agent that the census names. ``worker`` is the slot in whose hands a pooled one is; empty: none."""

    agent: str
    supervisor: str
    type: str
    status: str
    worker: str
    backlog: int
    dead: int


@dataclass(slots=True)
class Census:
    """All groups, and of three kinds of agents a few: most signals waiting, most dead letters, not to run now."""

    groups: dict[Group, Tally] = field(default_factory=dict[Group, Tally])
    queues: Counter[str] = field(default_factory=Counter[str])
    """Pooled agents that wait for a slot, by run queue (class and schema)."""

    busiest: list[Seen] = field(default_factory=list[Seen])
    lettered: list[Seen] = field(default_factory=list[Seen])
    down: list[Seen] = field(default_factory=list[Seen])
    """Parked, waiting for a node, on hold, blocked, stopped: in no order."""

    @property
    def agents(self) -> int:
        return sum(tally.agents for tally in self.groups.values())

    def by(self, *names: str) -> dict[tuple[str, ...], Tally]:
        """The groups taken together by some of their fields: ``by("type")``."""
        found: dict[tuple[str, ...], Tally] = {}
        for group, tally in self.groups.items():
            sums = found.setdefault(tuple(getattr(group, name) for name in names), Tally())
            sums.add(tally)
        return found


def take_census(keys: Keys, *, at_once: int = AT_ONCE, named: int = NAMED) -> Op[Census]:
    """Count all agents, ``at_once`` in a step; each list names ``named`` at most.

    An agent that is registered all the while is counted once (twice if Redis makes its index larger just then).
    """
    census, cursor = Census(), "0"
    while True:
        args = (f"{keys.tag}:", cursor, at_once, named)
        reply: list[Any] = yield Call(
            CENSUS,
            (keys.agents,),
            args,
            lambda reply: answer(reply, "census"),
            repeatable=True,
            hint="census",
        )
        _, cursor, groups, queues, busiest, lettered, down = reply
        for supervisor, kind, status, *numbers in groups:
            group = Group(shown(supervisor), shown(kind), shown(status))
            census.groups.setdefault(group, Tally()).add(Tally(*map(int, numbers)))
        census.queues.update({shown(queue): int(count) for queue, count in queues})
        census.busiest = nlargest(named, [*census.busiest, *_seen(busiest)], key=lambda each: each.backlog)
        census.lettered = nlargest(named, [*census.lettered, *_seen(lettered)], key=lambda each: each.dead)
        census.down = [*census.down, *_seen(down)][:named]
        if cursor == "0":
            return census


def _seen(rows: Sequence[Sequence[Any]]) -> list[Seen]:
    found: list[Seen] = []
    for row in rows:
        agent, supervisor, kind, status, worker = map(shown, row[:5])
        found.append(Seen(agent, supervisor, kind, status, worker, int(row[5]), int(row[6])))
    return found
