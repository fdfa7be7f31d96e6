"""A node's life: join, beat, report how its processes ended, drain, leave. All may be repeated."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from regrow_signals.answers import answer, cut, nothing
from regrow_signals.calls import Arg, Call
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.scripts import declare

__all__ = [
    "BeatReply",
    "ExitReport",
    "beat",
    "exit_kind",
    "join",
    "node_event",
    "report_exit",
    "report_start_failed",
]

MAX_EVENTS: Final = Limits().max_events

KINDS: Final = frozenset({
    "normal", "shutdown", "exception", "exit", "signal", "deadline", "frozen", "memory", "processes", "start_timeout",
    "start_failed", "killed", "node_lost", "spawner_lost", "drained", "operator", "superseded", "lost",
    "no_room", "unreadable_state", "newer_code",
})  # fmt: skip
"""Kinds of exit reasons: the counter's label has no other values."""

JOIN: Final = declare(
    "join",
    keys=["node", "nodes", "exits", "events", "classes"],
    args=["node_id", "kind", "host", "pid", "labels", "types", "version", "max_events"],
)
BEAT: Final = declare(
    "beat",
    keys=["node", "nodes", "agents"],
    key_tail="running",
    args=["node_id", "load", "slots", "stuck"],
    arg_tail="lives",
)
REPORT_EXIT: Final = declare(
    "report_exit",
    keys=["agent", "exits", "counters", "events"],
    args=[
        "agent_id", "incarnation", "node", "reason", "kind", "charge", "charged", "error", "in_hand", "max_events",
        "detail", "token",
    ],
)  # fmt: skip
NODE_EVENT: Final = declare(
    "node_event",
    keys=["node", "nodes", "control", "exits", "events"],
    args=["node_id", "news", "max_events"],
)

Charge = Literal["attempt", "kill", "none"]
Recorded = Literal["recorded", "known", "stale"]


@dataclass(frozen=True, slots=True)
class BeatReply:
    """``known`` False: this node was declared lost, or Redis went back: end all workers and begin anew."""

    known: bool
    stale: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class ExitReport:
    """How one incarnation ended. ``reason`` is ``kind`` or ``kind:detail``; ``in_hand`` an acceptance id or empty."""

    node: str
    agent: str
    incarnation: int
    reason: str
    charge: Charge
    charged: bool
    """Does it count towards the restart intensity?"""
    error: str = ""
    in_hand: str = ""


def join(
    keys: Keys,
    node: str,
    *,
    kind: str,
    host: str,
    pid: int,
    labels: Mapping[str, str],
    types: Mapping[str, Mapping[str, Any]],
    version: str,
) -> Call[bool]:
    """Begin as a node of a new id; the watchdog hears of it. The value: are there pooled agents?"""
    args = (
        node, kind, host, pid, _json(labels), _json({name: dict(about) for name, about in types.items()}), version,
        MAX_EVENTS,
    )  # fmt: skip
    names = (keys.node(node), keys.nodes, keys.exits, keys.events, keys.classes)
    return Call(JOIN, names, args, lambda reply: answer(reply, node)[1] == "1", repeatable=True, hint=node)


def beat(
    keys: Keys,
    node: str,
    running: Sequence[tuple[str, int]],
    *,
    load: int,
    slots: tuple[int, int] | None = None,
) -> Call[BeatReply]:
    """Beat for the node and for each (agent, incarnation) that moved; the answer names those no longer current.

    ``slots``: how many slots the node keeps, and how many of them are stuck; None: it keeps none.
    """
    names = [keys.node(node), keys.nodes, keys.agents, *(keys.agent(agent) for agent, _ in running)]
    args: list[Arg] = [node, load, *(("", "") if slots is None else slots)]
    for life in running:
        args += life
    return Call(BEAT, names, args, lambda reply: _beat(reply, node), repeatable=True, hint=node)


def report_exit(keys: Keys, report: ExitReport, *, token: str = "") -> Call[Recorded]:
    """Tell the watchdog how an incarnation ended: ``stale`` if it is not current, ``known`` if it was told before.

    ``token``: of the claim that ends with it, for a pooled agent: one life goes through many hands.

    An end as ``superseded`` is stale as long as somebody owns the agent: that process does not.
    """
    agent = report.agent
    args = (
        agent, report.incarnation, report.node, cut(report.reason, 500), exit_kind(report.reason), report.charge,
        int(report.charged), cut(report.error), report.in_hand, MAX_EVENTS, cut(report.error, 500),
        token,
    )  # fmt: skip
    names = (keys.agent(agent), keys.exits, keys.counters, keys.events)
    return Call(REPORT_EXIT, names, args, lambda reply: _recorded(reply, agent), repeatable=True, hint=agent)


def report_start_failed(keys: Keys, node: str, agent: str, incarnation: int, reason: str) -> Call[Recorded]:
    """The ordered start came to nothing: no process claimed. Counts towards the restart intensity."""
    return report_exit(
        keys,
        ExitReport(
            node,
            agent,
            incarnation,
            f"start_failed:{reason}",
            charge="none",
            charged=True,
            error=reason,
        ),
    )


def node_event(keys: Keys, node: str, event: Literal["draining", "left"]) -> Call[None]:
    """The node drains (no new start), or has left: its record and its orders go."""
    names = (keys.node(node), keys.nodes, keys.control(node), keys.exits, keys.events)
    return Call(NODE_EVENT, names, (node, event, MAX_EVENTS), nothing(node), repeatable=True, hint=node)


def exit_kind(reason: str) -> str:
    """The reason's kind, of a bounded set (``other`` for what is not in it)."""
    kind = reason.partition(":")[0]
    return kind if kind in KINDS else "other"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _beat(reply: Any, node: str) -> BeatReply:
    word, *stale = answer(reply, node)
    if word == "unknown":
        return BeatReply(known=False, stale=[])
    lives = zip(stale[::2], map(int, stale[1::2]), strict=True)
    return BeatReply(known=True, stale=list(lives))


def _recorded(reply: Any, agent: str) -> Recorded:
    return cast("Recorded", answer(reply, agent)[0])
