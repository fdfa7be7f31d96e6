"""The end of a supervisor: by its own decision, by its parent's or a caller's order. The root may pause instead."""

from __future__ import annotations

from regrow_supervisor.backoff import pause_ms
from regrow_supervisor.events import Declined, Exited
from regrow_supervisor.states import SupervisorState
from regrow_supervisor.world import World

__all__ = ["answer_queue", "end", "pause_or_exit", "terminate"]

_LONGEST_PAUSE_MS = 60_000


def terminate(s: SupervisorState, reason: str, origin: str, request: str = "") -> None:
    """Stop all children, then end with ``reason``. ``origin``: self (gave up), auto, parent, call, start."""
    s.status = "stopping"
    last = ["exit", reason, origin, request]
    s.plan = (last, ["all"] if s.is_dynamic else ["down", s.next_place, 0, "end"])


def end(world: World, s: SupervisorState, reason: str, origin: str, request: str = "") -> None:
    """All children are stopped: tell whoever waits, and the parent."""
    starting = s.started_ms == 0
    declined = starting and reason == "ignore"
    pause_or_exit(world, s, "normal" if declined else reason, origin)
    if starting:
        world.report(s, "declined" if declined else "start_failed", reason="" if declined else reason)
        if declined:
            world.reply(s.starter, {"child": s.path, "incarnation": None, "info": None})
        else:
            world.reply(s.starter, error="start_failed", detail=reason)
    s.starter = ""
    answer_queue(world, s, reason)
    world.reply(request)
    if not s.parent:
        return
    if declined:
        world.deliver(Declined(path=s.parent, child=s.name, incarnation=s.incarnation))
    else:
        world.deliver(Exited(path=s.parent, child=s.name, incarnation=s.incarnation, reason=reason))


def pause_or_exit(world: World, s: SupervisorState, reason: str, origin: str) -> None:
    """Mark the end. A root that gave up, could not start or was killed pauses, if its definition says so."""
    s.plan, s.waiting, s.reason = (), None, reason
    s.dues.clear()
    pause = s.definition.get("pause")
    if s.parent or pause is None or origin not in ("self", "start", "killed"):
        s.status = "exited"
        world.report(s, "exited", reason=reason)
        return
    longest = int(pause.get("longest_ms", _LONGEST_PAUSE_MS))
    if s.started_ms and world.now_ms - s.started_ms >= longest:
        s.pauses = 0
    s.pauses += 1
    wait = pause_ms(pause, s.pauses)
    s.status, s.due_ms = "paused", world.now_ms + wait
    world.report(s, "paused", reason=f"{reason}; starts again in {wait} ms")


def answer_queue(world: World, s: SupervisorState, reason: str) -> None:
    """Nobody waits for ever: calls that were queued fail with the reason of the end; all else is dropped."""
    for message in s.queue.values():
        if message[0] == "call":
            world.reply(message[2], error="call_exit", detail=reason)
        elif message[0] == "stop":
            world.reply(message[2])
    s.queue.clear()
