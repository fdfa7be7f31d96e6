"""The decision: OTP's supervisors, one event at a time. Pure: no I/O, no clock.

Each supervisor is one sequential actor. An event is put where it is awaited or into a queue; then whoever has
something to do goes on, until all wait or are idle. So one event is one step, through any number of supervisors:

    waiting for a start or a stop    nothing else happens; later messages queue
    in the middle of a plan          the next step of it
    otherwise                        the next message of the queue
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regrow_supervisor.calls import answer_call
from regrow_supervisor.ending import end, terminate
from regrow_supervisor.events import Batch, Event, KillSupervisor, NodeAvailable, Tick
from regrow_supervisor.families import settle_families, start_branch, start_spawned
from regrow_supervisor.inbox import feed
from regrow_supervisor.orders import Decision
from regrow_supervisor.restarting import child_exited, retry
from regrow_supervisor.starting import next_up, ready, start_outcome
from regrow_supervisor.states import SupervisorState, is_changed
from regrow_supervisor.stopping import absorb_stops, next_down, stop_all, stop_outcome
from regrow_supervisor.world import World

__all__ = ["SupervisorCrashed", "decide", "decide_safely"]


class SupervisorCrashed(Exception):
    """The decision of one supervisor raised: a defect of ours or junk in its record. ``path`` says whose."""

    def __init__(self, path: str, cause: Exception) -> None:
        super().__init__(f"supervisor {path!r}: {type(cause).__name__}: {cause}")
        self.path = path
        self.cause = cause


def decide(states: Mapping[str, SupervisorState], event: Event, now_ms: int) -> Decision:
    """What follows from ``event`` at ``now_ms``. ``states`` and its values are left as they are.

    Raises ``SupervisorCrashed`` if one supervisor's part cannot be decided.
    """
    world = World(states, now_ms)
    try:
        feed(world, event)
    except Exception as cause:
        raise SupervisorCrashed(getattr(event, "path", ""), cause) from cause
    while True:
        while world.runnable:
            path = world.runnable.popleft()
            try:
                _advance(world, path)
            except Exception as cause:
                raise SupervisorCrashed(path, cause) from cause
        settle_families(world, states)
        if not world.runnable:
            break
    return Decision(
        states={path: s for path, s in world.drafts.items() if is_changed(states.get(path), s)},
        removed=tuple(path for path in world.removed if path in states),
        output=tuple(world.output),
    )


def decide_safely(
    states: Mapping[str, SupervisorState], event: Event, now_ms: int
) -> tuple[Decision, SupervisorCrashed | None]:
    """As ``decide``; but a supervisor whose decision raises is ended, alone: its parent applies its strategy to it.

    The event that it could not handle is gone with it, as a message is with the process that crashed on it; one that
    concerns others too is decided again for them. Raises ``SupervisorCrashed`` only where even that cannot be
    decided: its parent's record is unusable too.
    """
    try:
        return decide(states, event, now_ms), None
    except SupervisorCrashed as crash:
        ended = _end_crashed(states, crash, now_ms)
        if isinstance(event, (Batch, NodeAvailable, Tick)) and crash.path in states:
            return _for_the_others(states, ended, event, now_ms), crash
        return ended, crash


def _for_the_others(
    states: Mapping[str, SupervisorState], ended: Decision, event: Event, now_ms: int
) -> Decision:
    """Decide the event again after a crash; each further crash ends one supervisor more, each at most once."""
    for _ in states:
        after = {path: s for path, s in states.items() if path not in ended.removed} | dict(ended.states)
        try:
            return _joined(ended, decide(after, event, now_ms))
        except SupervisorCrashed as crash:
            if crash.path not in after:
                break
            ended = _joined(ended, _end_crashed(after, crash, now_ms))
    return ended


def _joined(first: Decision, second: Decision) -> Decision:
    """Two decisions in a row as one."""
    states = {path: s for path, s in first.states.items() if path not in second.removed} | dict(second.states)
    for path in first.states.keys() & second.states.keys():
        states[path].touched = {**first.states[path].touched, **states[path].touched}
    removed = [path for path in (*first.removed, *second.removed) if path not in states]
    return Decision(
        states=states, removed=tuple(dict.fromkeys(removed)), output=(*first.output, *second.output)
    )


def _end_crashed(states: Mapping[str, SupervisorState], crash: SupervisorCrashed, now_ms: int) -> Decision:
    """End it by its own record; where that is too broken even for this, by its parent's."""
    reason = f"crash:{type(crash.cause).__name__}"
    try:
        return decide(states, KillSupervisor(path=crash.path, reason=reason), now_ms)
    except SupervisorCrashed:
        broken = states[crash.path]
        numbers = {
            child.id: child.incarnation for child in broken.children.values() if not child.is_supervisor
        }
        others = {path: s for path, s in states.items() if path != crash.path}
        end = KillSupervisor(path=crash.path, reason=reason, incarnations=numbers)
        return decide(others, end, now_ms)


def _advance(world: World, path: str) -> None:
    """Let one supervisor go on until it waits, has nothing to do, or has ended."""
    if world.get(path) is None:
        return
    s = world.draft(path)
    while s.alive and world.get(path) is s:
        if s.waiting is not None:
            if not _resume(world, s, s.waiting):
                return
        elif s.plan:
            if world.at_once <= 0:
                return
            *rest, step = s.plan
            s.plan = tuple(rest)
            _take_step(world, s, step)
        elif s.queue:
            _handle(world, s, s.queue.pop(next(iter(s.queue))))
        else:
            return


def _resume(world: World, s: SupervisorState, waiting: Mapping[str, Any]) -> bool:
    """Go on if what is awaited has come."""
    if waiting["for"] == "stops":
        return absorb_stops(world, s)
    if waiting["result"] is None:
        return False
    if waiting["for"] == "start":
        start_outcome(world, s, waiting)
    else:
        stop_outcome(world, s, waiting)
    return True


def _take_step(world: World, s: SupervisorState, step: list[Any]) -> None:
    match step:
        case ["up", after, why]:
            next_up(world, s, after, why)
        case ["down", below, lowest, mode]:
            next_down(world, s, below, lowest, mode)
        case ["all"]:
            stop_all(world, s)
        case ["ready"]:
            ready(world, s)
        case ["reply", request]:
            world.reply(request)
        case ["exit", reason, origin, request]:
            end(world, s, reason, origin, request)
        case _:
            raise ValueError(f"no such step: {step!r}")


def _handle(world: World, s: SupervisorState, message: list[Any]) -> None:
    match message:
        case ["exit", child, incarnation, reason, charged]:
            child_exited(world, s, child, incarnation=incarnation, reason=reason, charged=charged)
        case ["retry", child, charged]:
            retry(world, s, child, charged)
        case ["call", op, request, args]:
            answer_call(world, s, op, request, args)
        case ["stop", reason, request, origin]:
            terminate(s, reason, origin, request)
        case ["spawned", child]:
            start_spawned(world, s, child)
        case ["branch", name]:
            start_branch(world, s, name)
        case ["wake"]:
            s.plan = (*s.plan, ["up", -1, "wake"])
        case _:
            raise ValueError(f"no such message: {message!r}")
