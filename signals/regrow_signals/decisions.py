"""The commit of one decision of the watchdog: supervisors, registrations, orders, verdicts, in one step or not at all.

The plan goes to ``lua/decision.lua`` as JSON whose only values are strings, lists and objects, so that cjson changes
nothing (it would round numbers). Key names in it are built here and declared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from regrow_signals.answers import answer, cut, entry_id
from regrow_signals.calls import Call
from regrow_signals.errors import BadInput
from regrow_signals.ids import check_id, new_id
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.nodes import ExitReport, exit_kind
from regrow_signals.notices import Notice, created_notice
from regrow_signals.scripts import declare

__all__ = [
    "AgentBounds",
    "AgentUpdate",
    "Bond",
    "DecisionCommit",
    "Down",
    "Fence",
    "NodeOrder",
    "PooledStart",
    "Register",
    "StartOrder",
    "SupervisorWrite",
    "commit_decision",
    "registration",
    "spec_subscriptions",
]

DECISION: Final = declare(
    "decision",
    keys=["leader", "exits", "agents", "nodes", "supervisors", "counters", "events", "classes", "class_bell"],
    key_tail="others",
    args=["token", "max_events", "plan"],
)

FENCED: Final = frozenset({
    "incarnation", "owner", "version", "cursor", "state", "birth", "trying", "careful_until", "clean", "ended",
})  # fmt: skip
"""Fields that only claim, commit, exit and start write: no update may touch them."""


@dataclass(frozen=True, slots=True)
class SupervisorWrite:
    """Changes of one supervisor's record; its field ``version`` is ``base_version`` (0: no record) and rises by one."""

    path: str
    base_version: int
    set: Mapping[str, str] = field(default_factory=dict[str, str])
    delete: Sequence[str] = ()
    remove: bool = False


class AgentBounds(NamedTuple):
    """Limits that stand in an agent's record, for whoever sends to it or runs it; None: that one's setting."""

    max_mailbox: int | None = None
    max_attempts: int | None = None
    max_kills: int | None = None
    max_state: int | None = None
    guard: str | None = None

    def to_fields(self) -> dict[str, str]:
        return {
            name: "" if bound is None else str(bound) for name, bound in zip(self._fields, self, strict=True)
        }


_UNBOUNDED: Final = AgentBounds()


@dataclass(frozen=True, slots=True)
class Register:
    """An agent that a child spec wants. One that is registered keeps its state, birth, version and cursor."""

    agent: str
    type: str
    supervisor: str
    init: str = "{}"
    state: str = ""
    schema: int = 1
    bounds: AgentBounds = _UNBOUNDED
    parent: str = ""
    """The agent that spawned it, and by which tag it knows it."""

    tag: str = ""
    told: bool = False
    """Its type asks for the notice ``agent.created``."""

    subscribe: tuple[tuple[str, int, str], ...] = ()
    """What its spec has it subscribe to: pattern, priority, policy; all that an earlier spec said besides ends."""

    birth: str = field(default_factory=new_id)

    def first_entry(self) -> dict[str, str]:
        """What a new registration's mailbox begins with; empty: nothing."""
        return created_notice(self.agent, self.birth, self.parent).fields() if self.told else {}


@dataclass(frozen=True, slots=True)
class StartOrder:
    """Start ``agent`` on ``node`` as ``incarnation``, which must be higher than the stored one. Empties the owner.

    ``bounds``: what the child's spec says by now, into the record; None leaves the record's.
    ``fresh``: the life begins from this state (JSON; '' lets its worker make it from ``init``) and schema instead of
    the stored one. Mailbox and cursor stay; the version rises, since versions never run twice.
    """

    agent: str
    incarnation: int
    node: str
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    fresh: tuple[str, int] | None = None
    bounds: AgentBounds | None = None


@dataclass(frozen=True, slots=True)
class PooledStart:
    """Begin life ``incarnation`` of a pooled agent: it is queued if signals wait, and some slot takes it up.

    ``placement`` is its class, ``fields`` what slots must know of it; ``fresh`` and ``bounds`` as in ``StartOrder``.
    """

    agent: str
    incarnation: int
    placement: str
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    fresh: tuple[str, int] | None = None
    bounds: AgentBounds | None = None


@dataclass(frozen=True, slots=True)
class Fence:
    """End this life of a pooled agent now: a slot that has it in hand can commit nothing more. Before the starts."""

    agent: str
    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """Any other order: ``fields`` as they are."""

    node: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AgentUpdate:
    """Fields for people to read (status and the like). With an ``incarnation``: written only while that is current,
    before the starts of the same decision. An agent that is gone is not made again."""

    agent: str
    fields: Mapping[str, str]
    incarnation: int | None = None
    unsubscribe: bool = False
    """It is off its supervisor's record: what the spec had it subscribe to ends."""


@dataclass(frozen=True, slots=True)
class Bond:
    """``child`` holds this tag in its parent's record, or does not any more."""

    parent: str
    tag: str
    child: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Down:
    """A life of ``agent`` is over: whoever monitors it gets this notice, once."""

    agent: str
    type: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCommit:
    """One decision. ``exits_entry`` is the event that it answers, '' for a tick or a verdict.

    ``more_entries``: others that are answered in the same step.
    """

    token: str
    exits_entry: str = ""
    more_entries: Sequence[str] = ()
    supervisors: Sequence[SupervisorWrite] = ()
    register: Sequence[Register] = ()
    starts: Sequence[StartOrder] = ()
    pooled: Sequence[PooledStart] = ()
    fences: Sequence[Fence] = ()
    orders: Sequence[NodeOrder] = ()
    agent_updates: Sequence[AgentUpdate] = ()
    lost: Sequence[ExitReport] = ()
    lost_nodes: Sequence[str] = ()
    replies: Sequence[tuple[str, str]] = ()
    events: Sequence[Mapping[str, str]] = ()
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    restarts: Sequence[str] = ()
    deletions: Sequence[str] = ()
    """Idle agents, forgotten for good; ``NotIdle`` (and nothing is written) if one has anything to do, or a process."""
    ended: Sequence[str] = ()
    """Agents that are forgotten too, but for those that have anything to do, or a process."""
    bonds: Sequence[Bond] = ()
    notices: Sequence[Notice] = ()
    downs: Sequence[Down] = ()


def commit_decision(keys: Keys, limits: Limits, decision: DecisionCommit) -> Call[int]:
    """Write the decision whole; the value is Redis's time in ms. Stops (``orders``) go out before the starts.

    Raises ``NotLeader``, or ``Conflict`` when a supervisor's version, an incarnation or the exits entry is not what the
    decision was made from. Not repeatable: after an unknown fate the leader reads again and sees whether it landed.
    """
    plan = _plan(keys, limits, decision)
    names = [
        keys.leader, keys.exits, keys.agents, keys.nodes, keys.supervisors, keys.counters, keys.events,
        keys.classes, keys.class_bell, *_named(plan),
    ]  # fmt: skip
    args = (decision.token, limits.max_events, json.dumps(plan, ensure_ascii=True, separators=(",", ":")))
    return Call(DECISION, names, args, lambda reply: int(answer(reply, "decision")[1]), hint="decision")


def _plan(keys: Keys, limits: Limits, decision: DecisionCommit) -> dict[str, Any]:
    entries = [entry for entry in (decision.exits_entry, *decision.more_entries) if entry]
    for entry in entries:
        entry_id(entry, "exits entry")
    return {
        "exits_entries": entries,
        "supervisors": [_supervisor(keys, write) for write in decision.supervisors],
        "register": [_register(keys, limits, new) for new in decision.register],
        "updates": [_update(keys, update) for update in decision.agent_updates],
        "lost": [_lost(keys, report) for report in decision.lost],
        "orders": [
            *(_order(keys, order.node, order.fields) for order in decision.orders),
            *(_start(keys, start) for start in decision.starts),
        ],
        "pooled": [_pooled(keys, start) for start in decision.pooled],
        "fences": [
            {
                "key": keys.agent(fence.agent),
                "agent": fence.agent,
                "incarnation": str(fence.incarnation),
                "reason": fence.reason,
            }
            for fence in decision.fences
        ],
        "lost_nodes": [
            {
                "node": node,
                "key": keys.node(node),
                "control": keys.control(node),
                "claims": keys.pool_claims(node),
                "prefix": f"{keys.tag}:",
            }
            for node in decision.lost_nodes
        ],
        "deletions": [
            *(_deletion(keys, agent, "idle") for agent in decision.deletions),
            *(_deletion(keys, agent, "ended") for agent in decision.ended),
        ],
        "bonds": [_bond(keys, bond) for bond in decision.bonds],
        "notices": [_notice(notice) for notice in decision.notices],
        "downs": [
            {"agent": down.agent, "type": down.type, "data": json.dumps(down.data)} for down in decision.downs
        ],
        "max_mailbox": str(limits.max_mailbox),
        "notice_room": str(limits.extra_room),
        "restarts": [keys.agent(agent) for agent in decision.restarts],
        "replies": [{"key": keys.reply(request), "json": text} for request, text in decision.replies],
        "counters": [[name, str(by)] for name, by in decision.counters.items()],
        "events": [_flat(event) for event in decision.events],
    }


def _supervisor(keys: Keys, write: SupervisorWrite) -> dict[str, Any]:
    return {
        "key": keys.supervisor(write.path),
        "path": write.path,
        "base": str(write.base_version),
        "set": _flat(write.set),
        "delete": list(write.delete),
        "remove": write.remove,
    }


def registration(new: Register) -> tuple[dict[str, str], dict[str, str]]:
    """(what a record that is not there yet begins with, what is written in any case)."""
    check_id(new.agent, "agent")
    fresh = {
        "birth": new.birth, "state": new.state, "schema": str(new.schema), "version": "0", "cursor": "0-0",
        "incarnation": "0", "owner": "", "status": "registered", "restarts": "0", "trying": "", "careful_until": "",
        "clean": "1", "ended": "", "charge": "none", "handled": "0", "failed": "0", "blocked": "0",
    }  # fmt: skip
    if new.parent:
        fresh["parent"] = new.parent
    fields = {"type": new.type, "supervisor": new.supervisor, "init": new.init}
    if new.parent:
        fields["tag"] = new.tag
    return fresh, {**fields, **new.bounds.to_fields()}


def spec_subscriptions(new: Register, limits: Limits) -> dict[str, list[str]]:
    """Pattern, priority and policy in turn, and what bounds them."""
    bounds = limits.max_subscribers, limits.max_patterns, limits.max_events
    return {
        "subscribe": [str(word) for one in new.subscribe for word in one],
        "bounds": [str(bound) for bound in bounds],
    }


def _register(keys: Keys, limits: Limits, new: Register) -> dict[str, Any]:
    fresh, fields = registration(new)
    return {
        "key": keys.agent(new.agent), "agent": new.agent, "fresh": _flat(fresh), "fields": _flat(fields),
        "mailbox": keys.mailbox(new.agent), "first": _flat(new.first_entry()), **spec_subscriptions(new, limits),
    }  # fmt: skip


def _deletion(keys: Keys, agent: str, why: str) -> dict[str, str]:
    return {
        "agent": agent, "why": why,
        "key": keys.agent(agent), "mailbox": keys.mailbox(agent), "outbox": keys.outbox(agent),
        "dead": keys.dead(agent), "journal": keys.journal(agent), "seen": keys.seen(agent),
        "seen_old": keys.seen_old(agent), "fate": keys.fate(agent), "held": keys.held,
        "timers_of": keys.timers_of(agent),
    }  # fmt: skip


def _bond(keys: Keys, bond: Bond) -> dict[str, str]:
    return {
        "key": keys.agent(bond.parent), "tag": bond.tag, "child": bond.child, "holds": str(int(bond.holds))
    }  # fmt: skip


def _notice(notice: Notice) -> dict[str, Any]:
    return {"agent": notice.agent, "type": notice.type, "fields": _flat(notice.fields())}


def _update(keys: Keys, update: AgentUpdate) -> dict[str, Any]:
    if wrong := FENCED & update.fields.keys():
        raise BadInput(f"{update.agent}: {', '.join(sorted(wrong))} cannot be written by an update")
    plan: dict[str, Any] = {"key": keys.agent(update.agent), "fields": _flat(update.fields)}
    if update.incarnation is not None:
        plan["incarnation"] = str(update.incarnation)
    if update.unsubscribe:
        plan["unsubscribe"] = update.agent
    return plan


def _lost(keys: Keys, report: ExitReport) -> dict[str, str]:
    return {
        "key": keys.agent(report.agent),
        "agent": report.agent,
        "incarnation": str(report.incarnation),
        "node": report.node,
        "reason": cut(report.reason, 500),
        "kind": exit_kind(report.reason),
        "charge": report.charge,
        "error": cut(report.error),
        "in_hand": report.in_hand,
    }


def _order(keys: Keys, node: str, fields: Mapping[str, str]) -> dict[str, Any]:
    return {"control": keys.control(node), "node_key": keys.node(node), "node": node, "fields": _flat(fields)}


def _start(keys: Keys, start: StartOrder) -> dict[str, Any]:
    fields = {
        **start.fields,
        "order": "start",
        "agent": start.agent,
        "incarnation": str(start.incarnation),
    }
    plan = {
        **_order(keys, start.node, fields),
        "key": keys.agent(start.agent),
        "agent": start.agent,
        "incarnation": str(start.incarnation),
        "bounds": [] if start.bounds is None else _flat(start.bounds.to_fields()),
    }
    if start.fresh is not None:
        state, schema = start.fresh
        plan["fresh"] = {"state": state, "schema": str(schema)}
    return plan


def _pooled(keys: Keys, start: PooledStart) -> dict[str, Any]:
    if wrong := FENCED & start.fields.keys():
        raise BadInput(f"{start.agent}: {', '.join(sorted(wrong))} cannot be written by a start")
    plan: dict[str, Any] = {
        "key": keys.agent(start.agent),
        "mailbox": keys.mailbox(start.agent),
        "agent": start.agent,
        "incarnation": str(start.incarnation),
        "class": start.placement,
        "fields": _flat({**start.fields, **({} if start.bounds is None else start.bounds.to_fields())}),
    }
    if start.fresh is not None:
        state, schema = start.fresh
        plan["fresh"] = {"state": state, "schema": str(schema)}
    return plan


def _flat(fields: Mapping[str, str]) -> list[str]:
    return [str(word) for pair in fields.items() for word in pair]


def _named(plan: Mapping[str, Any]) -> list[str]:
    """Every key that the plan names, once."""
    named: dict[str, None] = dict.fromkeys(plan["restarts"])
    for item in plan["deletions"]:
        named.update((key, None) for name, key in item.items() if name not in ("agent", "why"))
    names = ("key", "control", "node_key", "mailbox", "claims")
    for listed in (
        "supervisors", "register", "updates", "lost", "orders", "pooled", "fences", "lost_nodes", "replies",
        "bonds",
    ):  # fmt: skip
        for item in plan[listed]:
            named.update((item[name], None) for name in names if name in item)
    return list(named)
