"""Starting: a supervisor with its children, and one child; and what each outcome of a start means.

A start has a *why*: ``init`` (the supervisor itself starts), ``one`` (its own restart), ``group`` (a restart of
several), ``wake`` (a node came), ``spawn`` (an agent's child), or a call: ``call`` (start_child), ``restart``
(restart_child, unhold, revive).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from regrow_supervisor.children import (
    add_child,
    child_path,
    forget_child,
    numbers_from,
    park_child,
    set_child,
)
from regrow_supervisor.definition import SpecError, full_children, full_flags
from regrow_supervisor.events import Started
from regrow_supervisor.orders import Start
from regrow_supervisor.retrying import schedule_retry
from regrow_supervisor.states import ChildState, SupervisorState
from regrow_supervisor.world import World

__all__ = ["begin_start", "next_up", "ready", "start_outcome", "start_supervisor"]

#: Starts of which the supervisor counts the success as a restart, for people to see.
_RESTARTS = ("one", "group")


def start_supervisor(
    world: World,
    path: str,
    definition: Mapping[str, Any],
    *,
    parent: str = "",
    incarnation: int = 1,
    starter: str = "",
) -> None:
    """Make a supervisor's record anew and begin to start its children. Numbers and holds of before are kept."""
    old = world.get(path)
    s = world.put(
        SupervisorState(
            path=path,
            parent=parent,
            definition=definition,
            incarnation=incarnation,
            starter=starter,
            pauses=0 if old is None else old.pauses,
            held=old is not None and old.held,
            spent=numbers_from(world.get(parent), path.removeprefix(f"{parent}/"))
            if old is None
            else dict(old.spent),
            version=world.version(path),
        )
    )
    world.wake(path)
    try:
        error = _refusal(definition)
        if not error:
            _take_children(world, s, old)
    except SpecError as problem:
        error = str(problem)
    if error:
        s.plan = (["exit", error, "start", ""],)
    elif "owner" in s.definition:
        # A family's supervisor is ready at once: whoever starts it is not to wait for the spawned.
        s.plan = (["up", -1, "spawn"], ["ready"])
    else:
        s.plan = (["ready"], ["up", -1, "init"])


def _refusal(definition: Mapping[str, Any]) -> str:
    """The reason for which the supervisor does not even look at its children; empty: none."""
    match definition.get("returns", "ok"):
        case "ok":
            return ""
        case "ignore":
            return "ignore"
        case "raise":
            return "raise"
        case other:
            return f"bad_return:{other}"


def _take_children(world: World, s: SupervisorState, old: SupervisorState | None) -> None:
    try:
        flags = full_flags(s.definition)
    except SpecError as error:
        raise SpecError(f"supervisor_data:{error}") from None
    s.definition = flags
    if flags["strategy"] == "simple_one_for_one" and len(flags["children"]) != 1:
        raise SpecError("bad_start_spec")
    try:
        specs = full_children(flags)
    except SpecError as error:
        raise SpecError(f"start_spec:{error}") from None
    before = {} if old is None else dict(old.children)
    for spec in [] if s.is_dynamic else specs:
        known = before.pop(spec["id"], None)
        add_child(
            s,
            spec,
            incarnation=0 if known is None else known.incarnation,
            held=known is not None and known.held,
        )
    for child in before.values():
        if _comes_back(flags, child):
            add_child(s, child.spec, incarnation=child.incarnation, held=child.held)
        elif child.is_supervisor:
            world.remove_branch(child_path(s, child.id))


def _comes_back(flags: Mapping[str, Any], child: ChildState) -> bool:
    """Whether a child that the definition does not name is there again after its supervisor's restart."""
    if child.is_supervisor and "owner" in child.spec["supervisor"]:
        return True
    unborn = "owner" in flags and not child.started_ms
    return bool(flags.get("keep")) and (child.restart != "temporary" or unborn)


def ready(world: World, s: SupervisorState) -> None:
    """All children were asked: the supervisor runs, and whoever started it hears of it."""
    s.status = "running"
    s.started_ms = world.now_ms
    world.report(s, "started")
    world.reply(s.starter, {"child": s.path, "incarnation": s.incarnation, "info": None})
    s.starter = ""
    if s.parent:
        world.deliver(Started(path=s.parent, child=s.name, incarnation=s.incarnation))


def next_up(world: World, s: SupervisorState, after: int, why: str) -> None:
    """Start the next child of the order whose place is greater than ``after``; the plan remembers where it is."""
    for child in _beyond(s, after):
        if child.place <= after or not (child.status == "waiting" if why == "wake" else not child.alive):
            continue
        if not child.pooled or child.held:
            s.plan = (*s.plan, ["up", child.place, why])
            begin_start(world, s, child, why)
            return
        if world.at_once <= 0:
            # The rest with the next tick: a decision is one step of Redis, and must stay a short one.
            s.plan = (*s.plan, ["up", child.place - 1, why])
            return
        begin_start(world, s, child, why)


def _beyond(s: SupervisorState, place: int) -> list[ChildState]:
    """Children from the one after ``place`` on; of a supervisor that has lost some on the way, more than these."""
    skipped = place + 1 if len(s.children) == s.next_place else 0
    return list(islice(s.children.values(), skipped, None))


#: How the reason of a child begins that waits for a node: it is no end, and forgotten once the child runs.
_WAITING = "waiting: "


def begin_start(world: World, s: SupervisorState, child: ChildState, why: str, request: str = "") -> None:
    """Order the child's next life, or decline in its name if it is held or parked."""
    if child.held or (child.status == "parked" and why != "restart"):
        declined: dict[str, Any] = {"for": "start", "why": why, "request": request, "child": child.id}
        start_outcome(world, s, {**declined, "result": ["declined"]})
        return
    child = set_child(s, child, status="starting", incarnation=child.incarnation + 1, idle=False)
    s.waiting = {
        "for": "start",
        "child": child.id,
        "incarnation": child.incarnation,
        "why": why,
        "request": request,
        "result": None,
    }
    if child.is_supervisor:
        start_supervisor(
            world,
            child_path(s, child.id),
            child.spec["supervisor"],
            parent=s.path,
            incarnation=child.incarnation,
        )
    else:
        start = child.spec["start"]
        world.say(Start(path=s.path, child=child.id, incarnation=child.incarnation, start=start))
        if child.pooled:
            world.at_once -= 1
            start_outcome(world, s, {**s.waiting, "result": ["started", None]})


def start_outcome(world: World, s: SupervisorState, waiting: Mapping[str, Any]) -> None:
    """Go on with what became of a start."""
    s.waiting = None
    child = s.children[waiting["child"]]
    why, request, (word, *rest) = waiting["why"], waiting["request"], waiting["result"]
    match word:
        case "started":
            restarts = child.restarts + (why in _RESTARTS)
            reason = "" if child.reason.startswith(_WAITING) else child.reason
            child = set_child(
                s, child, status="running", started_ms=world.now_ms, restarts=restarts, reason=reason
            )
            world.report(s, "progress", child)
            world.reply(request, _life(child, child.incarnation, rest[0]))
        case "declined":
            world.reply(request, _life(child, None, None))
            _declined(world, s, child, why)
        case "unplaced":
            # No life began under this number: the next start takes it again.
            reason = _WAITING + rest[0]
            set_child(s, child, status="waiting", reason=reason, incarnation=child.incarnation - 1)
            world.report(s, "waiting", child, rest[0])
            world.reply(request, _life(child, None, rest[0]))
        case "unreadable":
            # As one that ran first: no failed start, and those that start after it do.
            world.life_ended(s, child, rest[0], again=False)
            park_child(world, s, child, rest[0])
            world.reply(request, _life(child, None, rest[0]))
        case "lost":
            # Not its fault: the same start again, with a new number.
            world.life_ended(s, child, rest[0], again=True)
            begin_start(world, s, set_child(s, child, status="stopped", reason=rest[0]), why, request)
        case _:
            world.life_ended(s, child, rest[0], again=why not in ("call", "restart"))
            if why in ("call", "restart"):
                world.reply(request, error="start_failed", detail=rest[0])
            _failed(world, s, child, why, rest[0])


def _life(child: ChildState, incarnation: int | None, info: Any) -> dict[str, Any]:
    return {"child": child.id, "incarnation": incarnation, "info": info}


def _declined(world: World, s: SupervisorState, child: ChildState, why: str) -> None:
    if child.status == "parked":
        return
    if not child.held and (s.is_dynamic or (child.restart == "temporary" and why != "restart")):
        forget_child(world, s, child)
    else:
        set_child(s, child, status="stopped")


def _failed(world: World, s: SupervisorState, child: ChildState, why: str, reason: str) -> None:
    if why == "call":
        forget_child(world, s, child)
        return
    child = set_child(s, child, status="stopped", reason=reason)
    if why == "restart":
        return
    world.report(s, "start_error", child, reason)
    if why == "init":
        failure = f"shutdown:failed_to_start_child({child.id},{reason})"
        s.plan = (["exit", failure, "start", ""], ["down", s.next_place, 0, "end"])
        return
    if why == "group":
        # The rest of the group stays down until the retry.
        s.plan = s.plan[:-1]
    schedule_retry(world, s, child)
