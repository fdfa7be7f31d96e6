"""Children that an agent has spawned: under a dynamic supervisor of its own, which comes and goes with them. Pure.

    helpdesk/desk                      the parent's supervisor S
        boss                           the parent
        boss.children                  the family's supervisor F, with ``owner`` in its definition
            boss/w-1                   a child; its spec has ``parent``, ``tag``, ``on_parent_death``, ``ephemeral``

``Spawn`` puts the child on F's record at once, past all queues, and F on S's where it is not there yet; what starts
them is a message. If that message is lost with the end of S or F, their next start starts the child too: F keeps its
children, and S keeps F.

A parent that a supervisor will start again has not ended: only one that is off the record, parked, or stopped with
nothing under way that starts it. Then each child meets its ``on_parent_death``. F goes when it is empty and the parent
has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from regrow_signals.families import children_path
from regrow_supervisor.children import add_child, child_path, forget_child, set_child
from regrow_supervisor.definition import full_child, full_flags
from regrow_supervisor.events import SpawnChild
from regrow_supervisor.orders import NotSpawned, Orphaned
from regrow_supervisor.starting import begin_start
from regrow_supervisor.states import ChildState, SupervisorState
from regrow_supervisor.world import World

__all__ = ["family_of", "has_ended", "settle_families", "spawn", "start_branch", "start_spawned"]

_PARENT_ENDED: Final = "parent_ended"
_BOND: Final = ("parent", "tag", "on_parent_death")


def spawn(world: World, event: SpawnChild) -> None:
    """Put a spawned child on record and see to its start. Errors: noproc, parent_gone, tag_in_use, the event's."""
    above, family = world.get(event.path.rpartition("/")[0]), world.get(event.path)
    refusal = event.refusal or _refusal(above, family, event)
    if refusal or above is None:
        world.reply(event.request, error=refusal)
        world.say(
            NotSpawned(child=event.child["id"], parent=event.owner, tag=event.child["tag"], reason=refusal)
        )
        return
    family = family_of(world, above.path, event.owner)
    spec = full_child(event.child, family.definition)
    if spec["id"] not in family.children:
        add_child(family, spec)
    if family.alive:
        world.post(family.path, ["spawned", spec["id"]])
    elif above.alive:
        world.post(above.path, ["branch", family.name])
    world.reply(event.request, {"child": spec["id"], "incarnation": None, "info": None})


def _refusal(above: SupervisorState | None, family: SupervisorState | None, event: SpawnChild) -> str:
    child = event.child
    if above is None:
        return "noproc"
    if child["on_parent_death"] == "stop" and has_ended(above, event.owner):
        return "parent_gone"
    for other in family.children.values() if family is not None else ():
        bond = (other.spec.get("parent"), other.spec.get("tag"))
        if other.id != child["id"] and bond == (event.owner, child["tag"]):
            return "tag_in_use"
    return ""


def family_of(world: World, above_path: str, owner: str) -> SupervisorState:
    """The family's record, made where there is none; it starts with whatever starts it."""
    above, path = world.draft(above_path), children_path(above_path, owner)
    name = path.rpartition("/")[2]
    if world.get(path) is None:
        world.put(
            SupervisorState(
                path=path,
                parent=above_path,
                definition=full_flags(_definition(owner)),
                status="exited",
                version=world.version(path),
            )
        )
    if name not in above.children:
        spec = {
            "id": name,
            "restart": "permanent",
            "start": {},
            "type": "supervisor",
            "supervisor": _definition(owner),
        }
        add_child(above, full_child(spec, {"strategy": "dynamic"}))
    return world.draft(path)


def _definition(owner: str) -> dict[str, Any]:
    return {
        "strategy": "dynamic",
        "max_restarts": 3,
        "max_seconds": 5,
        "children": [],
        "keep": True,
        "limit": {"max_restarts": 3, "max_seconds": 5, "on_exceeded": "park"},
        "owner": owner,
    }


def start_branch(world: World, s: SupervisorState, name: str) -> None:
    """The turn of S: start the family's supervisor, which then starts whoever is on its record."""
    child = s.children.get(name)
    if child is not None and child.status == "stopped" and not child.held:
        begin_start(world, s, child, "restart")
    elif child is not None and child.alive:
        # It has come up by itself since: what was put on its record meanwhile is to be started.
        family = world.draft(child_path(s, name))
        for one in family.children.values():
            if one.status == "stopped":
                world.post(family.path, ["spawned", one.id])


def start_spawned(world: World, s: SupervisorState, child_id: str) -> None:
    """The turn of F: start a spawned child that does not run. One that its parent asks for again is revived."""
    child = s.children.get(child_id)
    if child is None or child.held or child.status not in ("stopped", "parked"):
        return
    if child.status == "parked":
        child = set_child(s, child, status="stopped", stamps=(), failures=0)
    begin_start(world, s, child, "spawn")


def has_ended(s: SupervisorState | None, agent: str) -> bool:
    """Whether nothing will start this agent again but a person or another ``Spawn``."""
    child = None if s is None else s.children.get(agent)
    if s is None or child is None or child.status == "parked":
        return child is None or not child.held
    if child.status != "stopped" or child.held or child.idle or s.status not in ("starting", "running"):
        return False
    if any(step[0] == "up" and step[1] < child.place for step in s.plan):
        return False
    # Stopped with a brother whose restart waits for its backoff: it comes back with it.
    group = s.strategy in ("one_for_all", "rest_for_one")
    return not (
        group
        and any(
            other.status == "restarting" and (s.strategy == "one_for_all" or other.place < child.place)
            for other in s.children.values()
        )
    )


def settle_families(world: World, states: Mapping[str, SupervisorState]) -> None:
    """After a decision: parents that have ended with it, and families that nobody needs any more."""
    for path, s in list(world.drafts.items()):
        before = states.get(path)
        if before is not None and s.touched:
            _settle_parents(world, before, s)
    for s in list(world.drafts.values()):
        _dissolve(world, s)


def _settle_parents(world: World, before: SupervisorState, s: SupervisorState) -> None:
    for agent in list(s.touched):
        old = before.children.get(agent)
        if old is None or old.is_supervisor or not has_ended(s, agent):
            continue
        family = world.get(children_path(s.path, agent))
        if family is None or family.definition.get("owner") != agent:
            continue
        record = s.children.get(family.name)
        elsewhere: dict[str, str] = {} if record is None else record.spec["supervisor"].get("adopted", {})
        for path in dict.fromkeys((family.path, *elsewhere.values())):
            if world.get(path) is not None:
                _parent_ended(world, world.draft(path), agent)


def _parent_ended(world: World, family: SupervisorState, parent: str) -> None:
    """Each child of this parent meets its policy. Who was asked to stop already is not asked once more."""
    asked = {
        message[3]["child"]
        for message in family.queue.values()
        if message[:2] == ["call", "terminate_child"] and message[3].get("reason") == _PARENT_ENDED
    }
    for child in list(family.children.values()):
        match child.spec.get("on_parent_death") if child.spec.get("parent") == parent else None:
            case "stop":
                if child.id not in asked:
                    _stop(world, family, child)
            case "orphan":
                spec = {name: value for name, value in child.spec.items() if name not in _BOND}
                set_child(family, child, spec=spec)
                world.say(
                    Orphaned(path=family.path, child=child.id, incarnation=child.incarnation, parent=parent)
                )
            case _:
                pass


def _stop(world: World, family: SupervisorState, child: ChildState) -> None:
    if not family.alive:
        forget_child(world, family, child)
        return
    args = {"child": child.id, "handle": None, "alive": False, "reason": _PARENT_ENDED}
    world.post(family.path, ["call", "terminate_child", "", args])


def _dissolve(world: World, family: SupervisorState) -> None:
    """An empty family's supervisor goes when its owner has ended, unless somebody waits for it."""
    if family.children or "owner" not in family.definition:
        return
    above = world.get(family.parent)
    record = None if above is None else above.children.get(family.name)
    if above is None or record is None or not has_ended(above, str(family.definition["owner"])):
        return
    busy = family.plan or family.waiting is not None or family.queue
    awaited = above.waiting is not None and above.waiting.get("child") == record.id
    if busy or awaited or family.status not in ("running", "exited") or above.status != "running":
        return
    family = world.draft(family.path)
    family.status = "exited"
    world.report(family, "exited", reason="no child is left, and its owner has ended")
    above = world.draft(above.path)
    forget_child(world, above, record)
    _dissolve(world, above)
