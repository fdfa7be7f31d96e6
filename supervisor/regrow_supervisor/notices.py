"""Who is told what of a turn: notices about lives to the agents themselves, to parents and to watchers. Pure.

A parent hears of a life's start once it was told to have begun, and of its end only then; and once, at last, that a
child is gone (``will_restart`` false), also of one that never lived.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from regrow_signals.decisions import Bond, Down
from regrow_signals.notices import ADOPTED, ORPHANED, Notice
from regrow_supervisor.leader_view import LeaderView
from regrow_supervisor.orders import LifeEnded, NotSpawned
from regrow_supervisor.states import ChildState, touched_ids
from regrow_supervisor.turn import Turn
from regrow_workers.lifecycle import AgentDown, AgentRestarted, ChildExit, ChildStarted

__all__ = ["Told", "tell"]

_LIVED: Final = ("running", "stopping")


@dataclass(frozen=True, slots=True)
class Told:
    """Parts of the step: see ``DecisionCommit``."""

    notices: tuple[Notice, ...]
    bonds: tuple[Bond, ...]
    downs: tuple[Down, ...]
    ended: tuple[str, ...]
    """Ephemeral children that have ended for good."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A child's record before and after; ``before`` None: it is new, ``after`` None: it is gone."""

    before: ChildState | None
    after: ChildState | None

    @property
    def spec(self) -> Mapping[str, Any]:
        """The one that counted while it lived: an orphan's last end is not told to whom it had before."""
        record = self.after or self.before
        return {} if record is None else record.spec


def tell(
    view: LeaderView, turn: Turn, restarted: Iterable[tuple[str, str]], unstarted: Iterable[str]
) -> Told:
    """``restarted``: (path, agent) of successful restarts. ``unstarted``: agents that were not even put on record."""
    lives = {(end.child, end.incarnation): end for end in turn.ended}
    notices = [*_to_itself(view, turn, restarted), *_orphans(turn), *_adopted(view, turn)]
    bonds: list[Bond] = []
    ended: list[str] = []
    for change in _changes(view, turn):
        spec = change.spec
        if "parent" in spec:
            notices += _to_parent(view, turn, change, lives)
            bonds += _bond(change)
        if change.after is None and spec.get("ephemeral"):
            ended.append(str(spec["id"]))
    for none in turn.unspawned:
        notices += _never(view, turn, none)
        bonds.append(Bond(none.parent, none.tag, none.child, False))
    bonds += [Bond(*one.before, one.child, False) for one in turn.adoptions if one.before is not None]
    bonds += [
        Bond(one.parent, _tag_before(view, one.path, one.child), one.child, False) for one in turn.orphaned
    ]
    downs = [_down(end.child, end.reason) for end in turn.ended]
    downs += [_down(agent, "noproc") for agent in unstarted]
    return Told(tuple(notices), tuple(bonds), tuple(downs), tuple(ended))


def _changes(view: LeaderView, turn: Turn) -> Iterator[_Change]:
    """Of agents alone."""
    for path, state in turn.states.items():
        before = view.states.get(path)
        known = {} if before is None else before.children
        for id_ in state.touched if before is None else touched_ids(before, state):
            old, new = known.get(id_), state.children.get(id_)
            record = new or old
            if record is not None and not record.is_supervisor:
                yield _Change(old, new)
    for path in turn.removed & view.states.keys():
        for child in view.states[path].children.values():
            if not child.is_supervisor:
                yield _Change(child, None)


def _to_itself(view: LeaderView, turn: Turn, restarted: Iterable[tuple[str, str]]) -> Iterator[Notice]:
    kind = AgentRestarted.signal_type
    for path, agent in restarted:
        child = turn.states[path].children[agent]
        if _wants(child, kind):
            data = {
                "id": agent,
                "incarnation": child.incarnation,
                "restarts": child.restarts,
                "reason": view.states[path].children[agent].reason,
            }
            yield Notice(agent, f"{agent}#{child.incarnation}:restarted", kind, data)


def _orphans(turn: Turn) -> Iterator[Notice]:
    """To every orphan, whatever it asks for: from then on it has no parent."""
    for one in turn.orphaned:
        data = {"id": one.child, "parent": one.parent}
        yield Notice(one.child, f"{one.child}#{one.incarnation}:orphaned", ORPHANED, data)


def _adopted(view: LeaderView, turn: Turn) -> Iterator[Notice]:
    """To every adopted child: from then on it has that parent. To the parent, of the life that it has got."""
    for one in turn.adoptions:
        data = {"id": one.child, "parent": one.parent, "tag": one.tag}
        yield Notice(one.child, f"{one.request}:adopted", ADOPTED, data)
        parent, child = _record(view, turn, one.parent), _record(view, turn, one.child)
        if parent is None or child is None or child.status != "running":
            continue
        if _wants(parent, ChildStarted.signal_type):
            begun: dict[str, Any] = {"tag": one.tag, "id": one.child, "incarnation": child.incarnation}
            yield Notice(one.parent, f"{one.request}:started", ChildStarted.signal_type, begun)


def _to_parent(
    view: LeaderView, turn: Turn, change: _Change, lives: Mapping[tuple[str, int], LifeEnded]
) -> Iterator[Notice]:
    before, after, spec = change.before, change.after, change.spec
    parent = _record(view, turn, str(spec["parent"]))
    if parent is None:
        return
    agent = str(spec["id"])
    told: dict[str, Any] = {"tag": spec["tag"], "id": agent}
    exit_ = _exit(before, after, lives)
    if exit_ is not None and _wants(parent, ChildExit.signal_type):
        incarnation, reason, again = exit_
        data = {**told, "incarnation": incarnation, "reason": reason, "will_restart": again}
        yield Notice(parent.id, f"{agent}#{incarnation}:exit", ChildExit.signal_type, data)
    if after is not None and _began(before, after) and _wants(parent, ChildStarted.signal_type):
        data = {**told, "incarnation": after.incarnation}
        yield Notice(parent.id, f"{agent}#{after.incarnation}:started", ChildStarted.signal_type, data)


def _began(before: ChildState | None, after: ChildState) -> bool:
    """Whether the life that runs is one that the parent has not heard of. A pooled one begins as the last one ends."""
    if after.status != "running":
        return False
    return before is None or before.status == "starting" or before.incarnation != after.incarnation


def _never(view: LeaderView, turn: Turn, none: NotSpawned) -> Iterator[Notice]:
    """To the parent: a child that it asked for will not be."""
    parent = _record(view, turn, none.parent)
    if parent is not None and _wants(parent, ChildExit.signal_type):
        told = {"tag": none.tag, "id": none.child, "incarnation": 0}
        data = {**told, "reason": f"not_{none.asked}:{none.reason}", "will_restart": False}
        yield Notice(none.parent, f"{none.child}#0:exit", ChildExit.signal_type, data)


def _exit(
    before: ChildState | None, after: ChildState | None, lives: Mapping[tuple[str, int], LifeEnded]
) -> tuple[int, str, bool] | None:
    """(incarnation, reason, whether another life comes) of an end that the parent is to hear of."""
    if before is None:
        return None
    life = lives.get((before.id, before.incarnation))
    gone = after is None or after.status == "parked"
    if life is not None and before.status in _LIVED:
        return before.incarnation, life.reason, life.again and not gone
    if gone and before.status != "parked":
        stopped = "shutdown" if after is None else after.reason
        return before.incarnation, stopped if life is None else life.reason, False
    return None


def _bond(change: _Change) -> Iterator[Bond]:
    spec, after = change.spec, change.after
    if after is None or change.before is None:
        yield Bond(str(spec["parent"]), str(spec["tag"]), str(spec["id"]), after is not None)


def _tag_before(view: LeaderView, path: str, child: str) -> str:
    state = view.states.get(path)
    record = None if state is None else state.children.get(child)
    return "" if record is None else str(record.spec.get("tag", ""))


def _down(agent: str, reason: str) -> Down:
    return Down(agent, AgentDown.signal_type, {"id": agent, "reason": reason})


def _record(view: LeaderView, turn: Turn, agent: str) -> ChildState | None:
    """The record of an agent after this turn, if a supervisor has it."""
    known = view.agents.get(agent)
    if known is None or known.path in turn.removed:
        return None
    state = turn.states.get(known.path) or view.states.get(known.path)
    return None if state is None else state.children.get(agent)


def _wants(child: ChildState, kind: str) -> bool:
    return kind in child.spec["start"].get("wants", ())
