"""A turn as the one step that Redis takes for it: pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from regrow_signals.errors import BadInput
from regrow_signals.leadership import (
    AgentUpdate,
    DecisionCommit,
    NodeOrder,
    Register,
    StartOrder,
    SupervisorWrite,
)
from regrow_signals.nodes import ExitReport, exit_kind
from regrow_supervisor.codec import changes, to_fields
from regrow_supervisor.created import split_answers
from regrow_supervisor.decide import SupervisorCrashed
from regrow_supervisor.leader_view import LeaderView, changed_children, forgotten_children
from regrow_supervisor.notices import tell
from regrow_supervisor.orders import Kill, Report, Start, Stop
from regrow_supervisor.pooling import fences, pooled_start
from regrow_supervisor.requests import agents_of, answer_json
from regrow_supervisor.states import ChildState, SupervisorState, touched_ids
from regrow_supervisor.turn import Placed, Turn
from regrow_workers.stored_child import InitialState, bounds_of, register_agent, subscriptions_of

__all__ = ["Extras", "next_versions", "plan_commit", "registrations"]

TREES_FIELD = "trees"
"""Beside the codec's fields in a root's record: JSON list of the digests of its trees, the last one in force."""


@dataclass(slots=True, kw_only=True)
class Extras:
    """What goes into the step besides the decision itself."""

    exits_entry: str = ""
    more_entries: Sequence[str] = ()
    """Further entries of the watchdog's mailbox that this step answers."""

    lost: Sequence[ExitReport] = ()
    lost_nodes: Sequence[str] = ()
    orders: Sequence[NodeOrder] = ()
    pool: Sequence[NodeOrder] = ()
    """For nodes that are to keep slots from now on."""

    replies: Sequence[tuple[str, str]] = ()
    events: Sequence[Mapping[str, str]] = ()
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    deletions: Sequence[str] = ()
    """Idle agents, which this event takes off their supervisor's record."""

    register: Sequence[Register] = ()
    trees: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    definitions: Sequence[tuple[str, Mapping[str, Any]]] = ()
    """(path, definition) of trees whose agents are all registered now."""


def plan_commit(
    view: LeaderView, turn: Turn, extras: Extras, token: str, initial: InitialState
) -> DecisionCommit:
    """Everything that follows from one event, for ``commit_decision``. ``view`` is that from before the turn."""
    restarts = _restarted(view, turn)
    counters = Counter(extras.counters)
    answers = [*((reply.request, answer_json(reply)) for reply in turn.replies), *extras.replies]
    replies, failures = split_answers(answers)
    unstarted = [failed for failed in failures if not _on_record(view, turn, failed.agent)]
    for path, child in restarts:
        counters[f"restarts_total|supervisor={path}|reason={exit_kind(_last_reason(view, path, child))}"] += 1
    for report in turn.reports:
        if report.context in ("shutdown", "paused", "parked"):
            counters[f"supervisor_{_COUNTED[report.context]}_total|supervisor={report.path}"] += 1
    told = tell(view, turn, restarts, [failed.agent for failed in unstarted])
    return DecisionCommit(
        token=token,
        exits_entry=extras.exits_entry,
        more_entries=tuple(extras.more_entries),
        supervisors=_supervisor_writes(view, turn, extras.trees),
        register=tuple(extras.register),
        starts=tuple(_start_order(placed, initial) for placed in turn.starts),
        pooled=tuple(
            pooled_start(start, _fresh(start, initial), bounds_of(start.start)) for start in turn.pooled
        ),
        fences=tuple(fence for fence in fences(turn) if fence.agent not in view.corrupt),
        orders=(
            *(_stop_order(view, stop, node) for stop, node in turn.stops),
            *_reachable(view, extras.orders),
            *extras.pool,
        ),
        agent_updates=[
            update
            for update in (*_agent_updates(view, turn), *(failed.update() for failed in unstarted))
            if update.agent not in view.corrupt
        ],
        lost=[report for report in extras.lost if report.agent not in view.corrupt],
        lost_nodes=tuple(extras.lost_nodes),
        replies=tuple(replies),
        events=(
            *(event for report in turn.reports if (event := _event(report))),
            *(_crash_event(crash) for crash in turn.crashes),
            *(failed.event(_path_of(view, failed.agent)) for failed in unstarted),
            *extras.events,
        ),
        counters=dict(counters),
        deletions=[
            agent
            for agent in extras.deletions
            if agent not in view.corrupt and not _on_record(view, turn, agent)
        ],
        restarts=[child for _, child in restarts if child not in view.corrupt],
        ended=[agent for agent in told.ended if agent not in view.corrupt],
        bonds=[bond for bond in told.bonds if bond.parent not in view.corrupt],
        notices=told.notices,
        downs=told.downs,
    )


def _reachable(view: LeaderView, orders: Iterable[NodeOrder]) -> Iterator[NodeOrder]:
    """Without those to a node whose stream cannot be written."""
    return (order for order in orders if order.node not in view.nodes or view.reachable(order.node))


def _path_of(view: LeaderView, agent: str) -> str:
    known = view.agents.get(agent)
    return "" if known is None else known.path


def _on_record(view: LeaderView, turn: Turn, agent: str) -> bool:
    """Whether its supervisor has it as a child after this turn: then its status tells how it is."""
    path = _path_of(view, agent)
    state = turn.states.get(path) or view.states.get(path)
    return state is not None and path not in turn.removed and agent in state.children


_COUNTED = {"shutdown": "gave_up", "paused": "paused", "parked": "parked"}


def registrations(
    view: LeaderView,
    turn: Turn,
    initial: InitialState,
    definitions: Sequence[tuple[str, Mapping[str, Any]]] = (),
) -> list[Register]:
    """Agents that come on record with this turn, those of whole ``definitions`` (path, definition) included.

    An agent is registered before anything of it runs, so that signals to it are accepted while it waits for a node.
    """
    wanted: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for path, definition in definitions:
        for agent, of, child in agents_of(definition, path):
            wanted[agent] = (of, child)
    for path, state in turn.states.items():
        for record in changed_children(view.states.get(path), state):
            if not record.is_supervisor:
                wanted[record.id] = (path, record.spec)
    found: list[Register] = []
    for agent, (path, spec) in wanted.items():
        known = view.agents.get(agent)
        is_new = known is None or known.path != path
        if agent not in view.corrupt and (is_new or _subscribes_anew(view, agent, path, spec)):
            found.append(register_agent(agent, path, spec, initial))
    return found


def _subscribes_anew(view: LeaderView, agent: str, path: str, spec: Mapping[str, Any]) -> bool:
    """Its spec has it subscribe to something else than the one on record, whose word ended with it if it is gone."""
    state = view.states.get(path)
    before = state.children.get(agent) if state is not None else None
    said = [] if before is None else subscriptions_of(before.spec["start"])
    return said != subscriptions_of(spec["start"])


def _supervisor_writes(
    view: LeaderView, turn: Turn, trees: Mapping[str, tuple[str, ...]]
) -> tuple[SupervisorWrite, ...]:
    writes: list[SupervisorWrite] = []
    for path, state in turn.states.items():
        old = view.states.get(path)
        base = old.version if old is not None else 0
        deleted: tuple[str, ...] = ()
        if old is None:
            fields = dict(to_fields(state))
            base, junk = view.junk.get(path, (0, ()))
            deleted = tuple(name for name in junk if name not in fields and name != "version")
        else:
            change = changes(old, state, touched_ids(old, state))
            fields, deleted = dict(change.set), tuple(change.delete)
        fields.pop("version", None)
        if path in trees:
            fields[TREES_FIELD] = json.dumps(trees[path])
        if fields or deleted or old is None:
            writes.append(
                SupervisorWrite(path=path, base_version=base, set=fields, delete=deleted, remove=False)
            )
    for path in trees.keys() - turn.states.keys():
        old = view.states.get(path)
        if old is not None:
            fields = {TREES_FIELD: json.dumps(trees[path])}
            writes.append(
                SupervisorWrite(path=path, base_version=old.version, set=fields, delete=(), remove=False)
            )
    for path in sorted(turn.removed & view.states.keys()):
        base = view.states[path].version
        writes.append(SupervisorWrite(path=path, base_version=base, set={}, delete=(), remove=True))
    return tuple(writes)


def _start_order(placed: Placed, initial: InitialState) -> StartOrder:
    """What node and worker are told: every plain value of the child's ``start``; the rest is in the agent's record."""
    start = placed.start
    fields = {
        name: _plain(value)
        for name, value in start.start.items()
        if isinstance(value, (str, int, float, bool))
    }
    fields |= {
        "order": "start",
        "type": placed.type,
        "agent": start.child,
        "incarnation": str(start.incarnation),
        "supervisor": start.path,
    }
    if placed.keep:
        fields["keep"] = placed.keep
    return StartOrder(
        agent=start.child,
        incarnation=start.incarnation,
        node=placed.node,
        fields=fields,
        fresh=_fresh(start, initial),
        bounds=bounds_of(start.start),
    )


def _fresh(start: Start, initial: InitialState) -> tuple[str, int] | None:
    """The state that this life begins with; None: with the stored one."""
    if start.start.get("resume") != "fresh":
        return None
    init = cast("Mapping[str, Any]", start.start.get("init") or {})
    try:
        return initial(str(start.start.get("type", "")), init)
    except BadInput:
        # It fitted once. Its worker makes the state, and is the one to fail, not whoever decides for all.
        return "", 1


def _plain(value: str | float | bool) -> str:
    return ("1" if value else "0") if isinstance(value, bool) else str(value)


def _stop_order(view: LeaderView, stop: Stop | Kill, node: str) -> NodeOrder:
    """Without ``shutdown_ms`` where the child's spec left it out: then the node's own setting counts."""
    fields = {"order": "stop", "agent": stop.child, "incarnation": str(stop.incarnation)}
    state = view.states.get(stop.path)
    child = state.children.get(stop.child) if state is not None else None
    if child is None or not child.shutdown_left_out or stop.shutdown_ms != child.shutdown_ms:
        fields["shutdown_ms"] = str(stop.shutdown_ms)
    return NodeOrder(node=node, fields=fields)


def _agent_updates(view: LeaderView, turn: Turn) -> list[AgentUpdate]:
    """The status that people see follows the decision; starting is written by the order, running by the claim."""
    updates: list[AgentUpdate] = []
    for path, state in turn.states.items():
        before = view.states.get(path)
        for child in changed_children(before, state):
            if child.is_supervisor or child.status in ("starting", "running"):
                continue
            old = before.children.get(child.id) if before is not None else None
            if old is not None and (old.status, old.held) == (child.status, child.held):
                continue
            stopping = child.status == "stopping"
            updates.append(
                AgentUpdate(
                    agent=child.id,
                    fields={"status": _status(child)},
                    incarnation=child.incarnation if stopping else None,
                )
            )
        gone = forgotten_children(before, state)
        updates += [_forgotten(child) for child in gone if not child.is_supervisor]
    for path in sorted(turn.removed & view.states.keys()):
        children = view.states[path].children.values()
        updates += [_forgotten(child) for child in children if not child.is_supervisor]
    return updates


def _status(child: ChildState) -> str:
    return "held" if child.held and child.status in ("stopped", "waiting") else child.status


def _forgotten(child: ChildState) -> AgentUpdate:
    """Off its supervisor's record; the agent itself stays registered until it is deleted."""
    subscribes = bool(subscriptions_of(child.spec["start"]))
    return AgentUpdate(agent=child.id, fields={"status": "stopped"}, incarnation=None, unsubscribe=subscribes)


def _restarted(view: LeaderView, turn: Turn) -> list[tuple[str, str]]:
    """(path, agent) of each successful restart by a supervisor."""
    found: list[tuple[str, str]] = []
    for path, state in turn.states.items():
        before = view.states.get(path)
        if before is None:
            continue
        for child in changed_children(before, state):
            old = before.children.get(child.id)
            if old is not None and not child.is_supervisor and child.restarts > old.restarts:
                found.append((path, child.id))
    return found


def _last_reason(view: LeaderView, path: str, child: str) -> str:
    return view.states[path].children[child].reason


_OWN_LIFE = frozenset({"started", "exited", "start_failed", "declined", "paused"})


def _event(report: Report) -> dict[str, str] | None:
    """A report as an entry of ``{ns}:events``; an agent's start is written by its claim already."""
    if report.context == "progress":
        return None
    own = not report.child and report.context in _OWN_LIFE
    event = {"event": f"supervisor_{report.context}" if own else report.context, "supervisor": report.path}
    if report.child:
        event["agent"] = report.child
    if report.incarnation:
        event["incarnation"] = str(report.incarnation)
    if report.reason:
        event["reason"] = report.reason[:500]
    if report.count:
        event["detail"] = f"{report.count} children"
    return event


def _crash_event(crash: SupervisorCrashed) -> dict[str, str]:
    return {"event": "supervisor_crashed", "supervisor": crash.path, "reason": str(crash.cause)[:300]}


def next_versions(
    view: LeaderView, turn: Turn, writes: Sequence[SupervisorWrite]
) -> dict[str, SupervisorState]:
    """Every record that was decided about or written, with the version that the step gave it."""
    written = {write.path: write.base_version + 1 for write in writes if not write.remove}
    states = dict(turn.states)
    for path in written.keys() - states.keys():
        states[path] = view.states[path].fork()
    for path, state in states.items():
        old = view.states.get(path)
        state.version = written.get(path, old.version if old is not None else 0)
    return states
