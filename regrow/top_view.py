"""``regrow top``: what goes on, at one look. Reading is here, and what is made of two looks; both are drawn elsewhere.

The counters and the nodes are read for each look. The census of all agents is taken again only when its last one was
twenty times as long ago as it took: with a hundred thousand agents it may be some seconds old, and says so.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from regrow.metrics.catalogue import parse_field
from regrow.pool_view import PoolView, read_pool
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.census import Census, take_census
from regrow_signals.connection import Connection
from regrow_signals.keys import Keys

__all__ = ["Frame", "Look", "Looker", "TypeRow", "frame"]

SHARE: Final = 20
"""The census takes one part of so many of the time, at most."""

RATES: Final = {
    "accepted": "signals_accepted_total",
    "applied": "signals_applied_total",
    "emitted": "emits_total",
    "dead": "signals_dead_total",
    "ends": "exits_total",
    "restarts": "restarts_total",
}
"""What is told for a second, and the counter that it comes from."""

LAST: Final = 10
"""Ends and dead letters that are named."""

NEWS: Final = frozenset(
    {"exited", "dead_letter", "parked", "shutdown", "node_lost", "supervisor_crashed", "leader_elected"}
)


@dataclass(frozen=True, slots=True)
class Look:
    """What was read at one instant. ``census_age``: seconds since the census was taken."""

    at_ms: int
    leader: bool
    counters: Mapping[str, int]
    nodes: Sequence[Mapping[str, str]]
    pool: PoolView
    census: Census
    census_age: float
    events: Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One agent type; ``applied`` is for a second."""

    type: str
    agents: int
    applied: float
    backlog: int
    dead: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One picture: rates are for a second, between two looks."""

    at_ms: int
    seconds: float
    leader: bool
    rates: Mapping[str, float]
    statuses: Mapping[str, int]
    types: Sequence[TypeRow]
    busiest: Sequence[Mapping[str, Any]]
    nodes: Sequence[Mapping[str, str]]
    slots: Mapping[str, int]
    queues: Mapping[str, int]
    news: Sequence[Mapping[str, str]]
    census_age: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)


def frame(before: Look, after: Look) -> Frame:
    """What two looks come to; pure. A counter that went back (Redis did) counts from zero."""
    seconds = max(0.001, (after.at_ms - before.at_ms) / 1000)
    risen = {
        name: count - before.counters.get(name, 0) if count >= before.counters.get(name, 0) else count
        for name, count in after.counters.items()
    }
    sums: Counter[str] = Counter()
    applied: Counter[str] = Counter()
    for field, count in risen.items():
        name, labels = parse_field(field)
        sums[name] += count
        if name == RATES["applied"]:
            applied[labels.get("type", "?")] += count
    by_type = after.census.by("type")
    rows = [
        TypeRow(kind or "?", tally.agents, round(applied[kind] / seconds, 1), tally.backlog, tally.dead)
        for (kind,), tally in by_type.items()
    ]
    return Frame(
        at_ms=after.at_ms,
        seconds=round(seconds, 3),
        leader=after.leader,
        rates={word: round(sums[counter] / seconds, 1) for word, counter in RATES.items()},
        statuses={
            status or "?": tally.agents for (status,), tally in sorted(after.census.by("status").items())
        },
        types=sorted(rows, key=lambda row: (-row.applied, -row.backlog, row.type)),
        busiest=[
            {
                "agent": seen.agent,
                "type": seen.type,
                "status": seen.status,
                "backlog": seen.backlog,
                "slot": seen.worker,
            }
            for seen in after.census.busiest
        ],
        nodes=[
            {
                name: node.get(name, "")
                for name in ("id", "kind", "status", "host", "pid", "load", "slots", "stuck")
            }
            for node in after.nodes
        ],
        slots={"slots": after.pool.slots, "stuck": after.pool.stuck, "in_hand": after.pool.in_hand},
        queues=dict(after.pool.queues.most_common(LAST)),
        news=[event for event in after.events if event.get("event") in NEWS][-LAST:],
        census_age=round(after.census_age, 1),
    )


class Looker:
    """Reads one look after the other over one connection. ``clock``: seconds, monotonic."""

    def __init__(
        self, connection: Connection, keys: Keys, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._clock = clock
        self._census = Census()
        self._taken = 0.0
        self._due = float("-inf")

    def look(self) -> Look:
        """Raises a StoreError when Redis cannot be asked."""
        connection, keys = self._connection, self._keys
        self._count()
        at_ms = connection.command(
            Command(("TIME",), lambda reply: int(reply[0]) * 1000 + int(reply[1]) // 1000)
        )
        counters = connection.command(views.counters(keys))
        token = connection.command(views.leader(keys))
        ids = connection.command(views.node_ids(keys))
        records = connection.pipeline([views.node_record(keys, node) for node in ids])
        events = connection.command(views.events(keys, count=10 * LAST, newest=True))
        return Look(
            at_ms=at_ms,
            leader=bool(token),
            counters=counters,
            nodes=[
                {"id": node, **(record if isinstance(record, dict) else {"status": "unreadable"})}
                for node, record in zip(ids, records, strict=True)
            ],
            pool=read_pool(connection, keys, self._census.queues),
            census=self._census,
            census_age=self._clock() - self._taken,
            events=[fields for _, fields in events],
        )

    def _count(self) -> None:
        began = self._clock()
        if began < self._due:
            return
        self._census = self._connection.run(take_census(self._keys))
        self._taken = self._clock()
        self._due = self._taken + SHARE * (self._taken - began)
