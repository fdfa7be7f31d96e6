"""A supervisor killed outright: its children die with it, nobody waits for them, its parent learns of it."""

from __future__ import annotations

from regrow_supervisor.children import child_path, set_child
from regrow_supervisor.definition import with_incarnations
from regrow_supervisor.ending import answer_queue, pause_or_exit
from regrow_supervisor.events import Exited, KillSupervisor
from regrow_supervisor.orders import Kill, LifeEnded
from regrow_supervisor.states import SupervisorState
from regrow_supervisor.world import World, dead_in_queue

__all__ = ["kill_supervisor", "kill_unreadable"]


def kill_supervisor(world: World, path: str, reason: str, *, charged: bool) -> None:
    """End the supervisor now. Supervisors below lose their parent: they ask their own children to stop."""
    s = world.draft(path)
    _fall(world, s, reason, brutal=True)
    if s.parent:
        world.deliver(
            Exited(path=s.parent, child=s.name, incarnation=s.incarnation, reason=reason, charged=charged)
        )


def _fall(world: World, s: SupervisorState, reason: str, *, brutal: bool) -> None:
    dead = dead_in_queue(s)
    pause_or_exit(world, s, reason, "killed")
    if s.starter:
        world.reply(s.starter, error="start_failed", detail=reason)
        s.starter = ""
    answer_queue(world, s, reason)
    for child in list(s.children.values()):
        if child.alive:
            world.life_ended(s, child, "killed", again=child.restart != "temporary")
        if not child.alive or (child.id, child.incarnation) in dead:
            set_child(s, child, status="parked" if child.status == "parked" else "stopped")
            continue
        set_child(s, child, status="stopped", reason="killed")
        path = child_path(s, child.id)
        below = world.get(path) if child.is_supervisor else None
        if below is not None and below.alive:
            _fall(world, world.draft(path), reason, brutal=False)
        elif not child.is_supervisor:
            world.say(
                Kill(
                    path=s.path,
                    child=child.id,
                    incarnation=child.incarnation,
                    shutdown_ms=0 if brutal else child.shutdown_ms,
                    pooled=child.pooled,
                )
            )


def kill_unreadable(world: World, event: KillSupervisor) -> bool:
    """End a supervisor of which there is no readable record: what its parent knows must do. False: no such one."""
    for parent_path in world.paths():
        child_id = event.path.removeprefix(f"{parent_path}/")
        parent = world.get(parent_path)
        child = None if parent is None else parent.children.get(child_id)
        if child is None or child_id == event.path or not child.is_supervisor or not child.alive:
            continue
        parent = world.draft(parent_path)
        nested = with_incarnations(child.spec["supervisor"], event.incarnations)
        child = set_child(parent, child, spec={**child.spec, "supervisor": nested})
        for known in world.paths():
            below = world.get(known)
            if below is not None and known.startswith(f"{event.path}/") and below.alive:
                _fall(world, world.draft(known), event.reason, brutal=False)
        for agent, incarnation in event.incarnations.items():
            world.say(Kill(path=event.path, child=agent, incarnation=incarnation))
            end = LifeEnded(
                path=event.path, child=agent, incarnation=incarnation, reason=event.reason, again=True
            )
            world.say(end)
        world.deliver(
            Exited(
                path=parent_path,
                child=child_id,
                incarnation=child.incarnation,
                reason=event.reason,
                charged=event.charged,
            )
        )
        return True
    return False
