"""When a strike is mended, and what is wrong at the end: pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from regrow.chaos.look import Agent, Look
from regrow.chaos.plan import Strike

__all__ = [
    "EXPLAINED",
    "WELL",
    "Wound",
    "explained",
    "faults",
    "is_mended",
    "recoveries",
    "twice_owned",
    "unsettled",
]

WELL: Final = frozenset({"running", "idle", "queued", "blocked"})
"""Of an agent that has, or needs, nobody to start it."""

EXPLAINED: Final = frozenset({"held", "parked", "stopped", "exited"})
"""States that somebody wanted, or that its spec leads to; the reason is in its record."""


@dataclass(slots=True)
class Wound:
    """A strike that was dealt, and when it was mended. Times are seconds of one monotonic clock."""

    strike: Strike
    name: str
    pid: int
    at: float
    before: Look
    mended: float | None = None

    @property
    def until(self) -> float:
        """Until then the process is stopped, or has been killed."""
        return self.at + self.strike.frozen

    @property
    def took(self) -> float | None:
        """Seconds from the strike, or from the end of a stop, until it was mended."""
        return None if self.mended is None else max(0.0, self.mended - self.until)


def unsettled(look: Look) -> dict[str, str]:
    """Agents that are on their way somewhere, with their status."""
    return {
        agent.id: agent.status
        for agent in look.agents.values()
        if agent.status not in WELL and agent.status not in EXPLAINED
    }


def is_mended(wound: Wound, look: Look, now: float, lease: float) -> bool:
    """Whether what it has done is undone.

    A worker: its agent has another process. A slot, an executor: there are as many as before. A spawner, a node: there
    is another one of the kind, and every agent is settled. The watchdog: another reign has begun (or the one that was
    struck did not lead: the reign is the same longer than a lease later). Redis: it answers, somebody leads, and every
    agent is settled. After a stop: everybody is settled.
    """
    if now < wound.until:
        return False
    if wound.strike.frozen:
        return bool(look.leader) and not unsettled(look)
    match wound.strike.kind:
        case "worker":
            agent = look.agents.get(wound.name)
            if agent is None or agent.status in EXPLAINED:
                return True
            return agent.status in WELL and agent.pid not in (0, wound.pid)
        case "slot" | "executor":
            there = look.targets.get(wound.strike.kind, {})
            before = wound.before.targets.get(wound.strike.kind, {})
            return wound.name not in there and len(there) >= len(before)
        case "spawner":
            there = look.targets.get("spawner", {})
            gone = all(process.pid != wound.pid for process in there.values())
            return gone and len(there) >= len(wound.before.targets.get("spawner", {})) and not unsettled(look)
        case "node":
            kind = wound.before.nodes[wound.name].kind
            successors = [node for node in look.nodes.values() if node.kind == kind and node.pid != wound.pid]
            return wound.name not in look.nodes and bool(successors) and not unsettled(look)
        case "watchdog":
            if look.leader and look.leader != wound.before.leader:
                return True
            return bool(look.leader) and now - wound.at > 1.5 * lease
        case "redis":
            return bool(look.leader) and not unsettled(look)


def twice_owned(events: Sequence[Mapping[str, str]]) -> list[str]:
    """Lives that more than one process has claimed; of agents with a process of their own."""
    begun = Counter(
        (event.get("agent", ""), event.get("incarnation", ""))
        for event in events
        if event.get("event") == "started"
    )
    return sorted(
        f"{agent}, incarnation {life}: claimed {n} times" for (agent, life), n in begun.items() if n > 1
    )


def explained(look: Look) -> dict[str, str]:
    """Agents that do not run, and why: for people."""
    return {
        agent.id: f"{agent.status} ({agent.exit_reason or 'no life has ended'})"
        for agent in look.agents.values()
        if agent.status in EXPLAINED
    }


def faults(
    *,
    before: Mapping[str, Agent],
    after: Look,
    wounds: Sequence[Wound],
    events: Sequence[Mapping[str, str]],
    lost: Sequence[str],
    waiting: Sequence[str],
    miscounted: Mapping[str, str],
) -> list[str]:
    """What is wrong at the end, a line each; empty: nothing is.

    ``lost``: accepted signals that Redis knows nothing of; ``waiting``: those that are neither applied nor dead yet.
    """
    found = [f"{name}: is {status}, and does not get on" for name, status in unsettled(after).items()]
    found += [f"{name}: is not registered any more" for name in before if name not in after.agents]
    found += [
        f"{name}: had dealt with {was.dealt_with} signals, now with {now.dealt_with}"
        for name, was in before.items()
        if (now := after.agents.get(name)) is not None and now.dealt_with < was.dealt_with
    ]
    found += [f"two owners: {line}" for line in twice_owned(events)]
    found += [f"accepted and lost: signal {each}" for each in lost]
    found += [f"accepted and still waiting: signal {each}" for each in waiting]
    found += [f"{name}: {how}" for name, how in miscounted.items()]
    found += [
        f"strike {wound.strike.number} ({wound.strike.kind} {wound.name}) was not mended"
        for wound in wounds
        if wound.mended is None
    ]
    if not after.leader:
        found.append("nobody leads")
    return found


def recoveries(wounds: Sequence[Wound]) -> dict[str, dict[str, Any]]:
    """By kind: how many, and how long it took, in milliseconds."""
    found: dict[str, dict[str, Any]] = {}
    for kind in dict.fromkeys(wound.strike.kind for wound in wounds):
        of_kind = [wound for wound in wounds if wound.strike.kind == kind]
        took = sorted(1000 * wound.took for wound in of_kind if wound.took is not None)
        row: dict[str, Any] = {
            "killed": sum(not wound.strike.frozen for wound in of_kind),
            "stopped": sum(bool(wound.strike.frozen) for wound in of_kind),
        }
        if took:
            row["median_ms"] = round(statistics.median(took), 1)
            row["p99_ms"] = round(took[min(len(took) - 1, len(took) * 99 // 100)], 1)
            row["max_ms"] = round(took[-1], 1)
        found[kind] = row
    return found
