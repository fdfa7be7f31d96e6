"""The stored tree rules: what a tree that is handed in comes to, pure.

A tree not seen before is carried out as calls: new children start, removed ones are terminated and deleted (their
agents' state is kept), the others run on. The definitions on record become the new ones, so that a restart of a
supervisor follows the new tree. Every digest is remembered: a tree that was replaced does not come back when a
watchdog with older code starts or takes over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from regrow_supervisor.definition import SpecError, full_child, full_children, full_flags
from regrow_supervisor.events import Batch, DeleteChild, Event, StartChild, StartTree, TerminateChild
from regrow_supervisor.leader_view import LeaderView
from regrow_supervisor.requests import BadRequest, TreeAsked, agents_of
from regrow_supervisor.spec_check import check_tree
from regrow_supervisor.states import SupervisorState
from regrow_workers.stored_child import type_names

__all__ = ["REMEMBERED", "TreeChange", "change_tree", "digest_of"]

REMEMBERED: Final = 1_000
"""Digests kept of one root's trees."""


@dataclass(slots=True, kw_only=True)
class TreeChange:
    """What to do: ``adopted`` are records with their definitions replaced; ``said`` is for people, in order."""

    event: Event | None = None
    adopted: dict[str, SupervisorState] = field(default_factory=dict[str, SupervisorState])
    trees: tuple[str, ...] = ()
    said: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _Calls:
    """First all ends, then all starts."""

    terminate: list[Event] = field(default_factory=list[Event])
    start: list[Event] = field(default_factory=list[Event])


def digest_of(definition: Mapping[str, Any]) -> str:
    """A tree's name for remembering: equal for equal trees."""
    text = json.dumps(definition, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def change_tree(view: LeaderView, asked: TreeAsked) -> TreeChange:
    """Compare with what is on record; ``BadRequest`` refuses it whole."""
    root, digest = asked.name, digest_of(asked.definition)
    if root in view.unreadable:
        raise BadRequest(
            "corrupt_record", f"the record of supervisor {root} cannot be read: {view.unreadable[root]}"
        )
    try:
        check_tree(asked.definition, root)
    except SpecError as error:
        raise BadRequest("bad_tree", str(error)) from None
    seen = view.trees.get(root, ())
    state = view.states.get(root)
    if asked.absent and state is not None:
        return TreeChange(trees=seen)
    if state is None or state.status == "exited":
        return _start(view, asked, seen, digest)
    if seen and seen[-1] == digest:
        return TreeChange(trees=seen, said=[f"tree {root} ({digest}) is in force: nothing to do"])
    if digest in seen and not asked.force:
        return TreeChange(
            trees=seen,
            said=[
                f"tree {root} ({digest}) was replaced by ({seen[-1]}) before: it does not come back by itself",
                "(`regrow rollback MODULE:TREE` carries it out)",
            ],
        )
    _check_agents(view, asked)
    change = TreeChange(trees=_remember(seen, digest))
    calls = _Calls()
    _compare(view, root, asked.definition, change, calls)
    change.said += _changed_schedules(state.definition, asked.definition)
    events = [*calls.terminate, *calls.start]
    change.event = Batch(events=tuple(events)) if events else None
    if not change.said:
        change.said.append(f"tree {root} ({digest}): no child added or removed")
    return change


def _changed_schedules(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    old: Mapping[str, Any] = before.get("schedules") or {}
    new: Mapping[str, Any] = after.get("schedules") or {}
    kinds = sorted(kind for kind in {*old, *new} if old.get(kind) != new.get(kind))
    return [f"the timers that agents of type {kind} declare are other ones" for kind in kinds]


def _start(view: LeaderView, asked: TreeAsked, seen: tuple[str, ...], digest: str) -> TreeChange:
    _check_agents(view, asked)
    agents = [agent for agent, _, _ in agents_of(asked.definition, asked.name)]
    known = {agent: view.agents[agent].incarnation for agent in agents if agent in view.agents}
    return TreeChange(
        event=StartTree(path=asked.name, definition=asked.definition, incarnations=known),
        trees=_remember(seen, digest),
        said=[f"tree {asked.name} ({digest}) starts with {len(agents)} agents"],
    )


def _remember(seen: tuple[str, ...], digest: str) -> tuple[str, ...]:
    return (*(old for old in seen if old != digest), digest)[-REMEMBERED:]


def _check_agents(view: LeaderView, asked: TreeAsked) -> None:
    """An agent may not be twice in the tree, move between supervisors in one step, or change its type."""
    places: dict[str, str] = {}
    for agent, path, child in agents_of(asked.definition, asked.name):
        if agent in places:
            raise BadRequest("duplicate_agent", f"agent {agent} is under {places[agent]} and under {path}")
        places[agent] = path
        found = view.child_of(agent)
        if found is None:
            continue
        if found[0] != path:
            raise BadRequest(
                "agent_moved",
                f"agent {agent} is under {found[0]}, the tree has it under {path}: take it out in one start, "
                "put it in with the next",
            )
        before, after = _names(found[1].spec), _names(child)
        if before[0] not in after and after[0] not in before:
            raise BadRequest(
                "type_changed",
                f"agent {agent} is of type {before[0]}, the tree says {after[0]}: if the class was renamed, give it "
                f'aliases=("{before[0]}",); else delete the agent first, or give it another id',
            )


def _names(child: Mapping[str, Any]) -> list[str]:
    return type_names(cast("Mapping[str, Any]", child.get("start") or {}))


def _compare(
    view: LeaderView,
    path: str,
    definition: Mapping[str, Any],
    change: TreeChange,
    calls: _Calls,
) -> None:
    """One supervisor that runs already: adopt its new definition, collect the calls for the difference."""
    state = view.states.get(path)
    if state is None:
        return
    flags = full_flags(definition)
    wanted = {child["id"]: child for child in full_children(flags)}
    before = {str(child["id"]) for child in state.definition.get("children", [])}
    children = dict(state.children)
    for id_ in state.children:
        if id_ in before and id_ not in wanted:
            calls.terminate += [TerminateChild(path=path, child=id_), DeleteChild(path=path, child=id_)]
            change.said.append(f"removed {path}/{id_}: it is stopped, its state is kept")
    for id_, child in wanted.items():
        known = children.get(id_)
        if known is None:
            calls.start.append(StartChild(path=path, child=_numbered(view, child)))
            change.said.append(f"added {path}/{id_}")
        elif known.is_supervisor != ("supervisor" in child):
            raise BadRequest(
                "type_changed", f"{path}/{id_} is an agent in one tree and a supervisor in the other"
            )
        else:
            if _unnumbered(known.spec) != _unnumbered(full_child(child, flags)):
                children[id_] = known.but(spec=full_child(child, flags))
                if not known.is_supervisor:
                    change.said.append(f"kept {path}/{id_}: its new spec counts from its next start")
            if known.is_supervisor:
                _compare(view, f"{path}/{id_}", child["supervisor"], change, calls)
    touched = {id_: None for id_, child in children.items() if state.children[id_] is not child}
    change.adopted[path] = replace(state, definition=flags, children=children, touched=touched)


def _unnumbered(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A child's stored form without the numbers that were written into it at some start."""
    plain = {name: value for name, value in spec.items() if name not in ("incarnation", "supervisor")}
    if "supervisor" in spec:
        flags = full_flags(spec["supervisor"])
        plain["supervisor"] = {**flags, "children": [_unnumbered(child) for child in full_children(flags)]}
    return plain


def _numbered(view: LeaderView, child: Mapping[str, Any]) -> dict[str, Any]:
    """The child's stored form with the last number that its agent used."""
    known = view.agents.get(str(child["id"]))
    return {**child, "incarnation": known.incarnation if known is not None else 0}
