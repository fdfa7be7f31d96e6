"""Changing a supervisor's children, so that the parts of its record that copy each other agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regrow_supervisor.states import ChildState, SupervisorState
from regrow_supervisor.world import World

__all__ = ["add_child", "child_path", "forget_child", "numbers_from", "park_child", "set_child"]


def child_path(s: SupervisorState, child_id: str) -> str:
    return f"{s.path}/{child_id}"


def set_child(s: SupervisorState, child: ChildState, **changes: Any) -> ChildState:
    """Put a changed child on record. Any change of status ends a backoff that the change does not set."""
    if "status" in changes and "due_ms" not in changes:
        changes["due_ms"] = 0
    changed = child.but(**changes)
    s.children[child.id] = changed
    s.touched[child.id] = None
    if changed.due_ms:
        s.dues[child.id] = changed.due_ms
    else:
        s.dues.pop(child.id, None)
    return changed


def park_child(world: World, s: SupervisorState, child: ChildState, reason: str) -> ChildState:
    """It stays down, whatever its restart type, and sits out group restarts, until somebody revives it."""
    child = set_child(s, child, status="parked", reason=reason)
    world.report(s, "parked", child, reason)
    return child


def add_child(
    s: SupervisorState, spec: Mapping[str, Any], *, incarnation: int = 0, held: bool = False
) -> ChildState:
    """A new child at the end of the order. ``incarnation`` is the greatest number known to be used."""
    known = max(incarnation, int(spec.get("incarnation", 0)), s.spent.pop(spec["id"], 0))
    child = ChildState(id=spec["id"], spec=spec, place=s.next_place, incarnation=known, held=held)
    s.next_place += 1
    s.children[child.id] = child
    s.touched[child.id] = None
    return child


def forget_child(world: World, s: SupervisorState, child: ChildState) -> None:
    """Take a child that does not run off the record, and the records of a supervisor's whole branch with it.

    The definition may bring the id back at the supervisor's next start: its number is kept for that, and those of
    the branch's children.
    """
    del s.children[child.id]
    s.touched[child.id] = None
    s.dues.pop(child.id, None)
    defined = child.id in _defined_ids(s)
    if defined and child.incarnation:
        s.spent[child.id] = child.incarnation
    if child.is_supervisor:
        path = child_path(s, child.id)
        if defined:
            s.spent.update(_numbers_below(world, s, path))
        world.remove_branch(path)


def numbers_from(parent: SupervisorState | None, name: str) -> dict[str, int]:
    """What a parent remembers of a branch whose records are gone."""
    if parent is None:
        return {}
    prefix = f"{name}/"
    return {known.removeprefix(prefix): n for known, n in parent.spent.items() if known.startswith(prefix)}


def _numbers_below(world: World, s: SupervisorState, path: str) -> dict[str, int]:
    """Last numbers in a branch, by path below ``s``; of those children only that its definitions bring back."""
    numbers: dict[str, int] = {}
    for known in world.paths():
        below = world.get(known)
        if below is None or not f"{known}/".startswith(f"{path}/"):
            continue
        defined = _defined_ids(below)
        used = {child.id: child.incarnation for child in below.children.values() if child.id in defined}
        for child_id, number in {**below.spent, **used}.items():
            numbers[f"{known}/{child_id}".removeprefix(f"{s.path}/")] = number
    return numbers


def _defined_ids(s: SupervisorState) -> set[str]:
    listed = s.definition.get("children", ())
    return {given["id"] for given in listed if isinstance(given, dict) and "id" in given}
