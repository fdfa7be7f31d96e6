"""Adoption: an orphan gets another parent. Pure.

It stays under the supervisor that it was born under; its spec has the new bond. The record of the new parent's family
says where such children live, so that they meet the policy of its end too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from regrow_supervisor.children import set_child
from regrow_supervisor.events import AdoptChild
from regrow_supervisor.families import family_of, has_ended
from regrow_supervisor.orders import Adopted, NotSpawned
from regrow_supervisor.states import ChildState, SupervisorState
from regrow_supervisor.world import World

__all__ = ["adopt"]

_HAS_IT: Final = "has_it"


def adopt(world: World, event: AdoptChild) -> None:
    """Give an orphan another parent. It stays where it is; the new parent's family remembers where that is."""
    home, above = world.get(event.path), world.get(event.above)
    child = None if home is None else home.children.get(event.child)
    refusal = event.refusal
    if not refusal:
        refusal = "not_found" if home is None or child is None else _cannot_adopt(world, home, child, event)
    if refusal or child is None or above is None:
        if refusal != _HAS_IT:
            refused = {"child": event.child, "parent": event.owner, "tag": event.tag, "reason": refusal}
            world.say(NotSpawned(**refused, asked="adopted"))
        return
    home = world.draft(event.path)
    before = child.spec
    bond = {"parent": event.owner, "tag": event.tag, "on_parent_death": event.on_parent_death}
    set_child(home, child, spec={**before, **bond})
    _remember(world, event)
    former = (str(before["parent"]), str(before["tag"])) if "parent" in before else None
    world.say(
        Adopted(
            path=event.path,
            child=event.child,
            request=event.request,
            parent=event.owner,
            tag=event.tag,
            before=former,
        )
    )


def _cannot_adopt(world: World, home: SupervisorState, child: ChildState, event: AdoptChild) -> str:
    """Why not; empty: nothing is in the way."""
    parent = child.spec.get("parent")
    if parent == event.owner:
        return _HAS_IT if child.spec.get("tag") == event.tag else "has_parent"
    if parent is not None:
        former = world.get(event.former)
        ended = former is None or has_ended(former, str(parent))
        if not ended or child.spec.get("on_parent_death") == "stop":
            return "has_parent"
    if "owner" not in home.definition:
        return "not_an_orphan"
    if child.status in ("stopped", "parked"):
        return "not_running"
    above = world.get(event.above)
    return "parent_gone" if above is None or has_ended(above, event.owner) else ""


def _remember(world: World, event: AdoptChild) -> None:
    """On the record of the new parent's family: which children live elsewhere, and where."""
    family = family_of(world, event.above, event.owner)
    above = world.draft(event.above)
    record = above.children[family.name]
    known: Mapping[str, str] = record.spec["supervisor"].get("adopted", {})
    elsewhere = {child: path for child, path in known.items() if _is_child(world, path, child, event.owner)}
    elsewhere[event.child] = event.path
    spec = {**record.spec, "supervisor": {**record.spec["supervisor"], "adopted": elsewhere}}
    set_child(above, record, spec=spec)
    if above.alive:
        world.post(above.path, ["branch", family.name])


def _is_child(world: World, path: str, child_id: str, parent: str) -> bool:
    home = world.get(path)
    child = None if home is None else home.children.get(child_id)
    return child is not None and child.spec.get("parent") == parent
