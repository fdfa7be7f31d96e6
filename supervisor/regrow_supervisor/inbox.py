"""Where an event goes: to the supervisor that it names, or to all that it concerns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regrow_supervisor import events as ev
from regrow_supervisor.adoption import adopt
from regrow_supervisor.calls import is_forgettable
from regrow_supervisor.children import forget_child, set_child
from regrow_supervisor.definition import with_incarnations
from regrow_supervisor.families import spawn
from regrow_supervisor.killing import kill_supervisor, kill_unreadable
from regrow_supervisor.retrying import retry_due
from regrow_supervisor.starting import start_supervisor
from regrow_supervisor.states import SupervisorState
from regrow_supervisor.world import World

__all__ = ["feed", "next_due"]


def feed(world: World, event: ev.Event) -> None:
    """Put the event where it belongs; nothing is handled yet, save what needs no supervisor's turn."""
    match event:
        case ev.Batch():
            for one in event.events:
                feed(world, one)
        case ev.Started() | ev.StartFailed() | ev.Declined() | ev.Unplaced() | ev.Exited():
            world.deliver(event)
        case ev.StartTree():
            _start_tree(world, event)
        case ev.StopTree():
            _stop(world, event.path, event.reason, event.request, "parent")
        case ev.StopSupervisor():
            _stop(world, event.path, event.reason, event.request, "call")
        case ev.KillSupervisor():
            _kill(world, event)
        case ev.NodeAvailable():
            for path in world.paths():
                s = world.get(path)
                if s is not None and s.alive and any(c.status == "waiting" for c in s.children.values()):
                    _wake_waiting(world, s)
        case ev.Tick():
            _tick(world)
        case ev.ForgetIdle():
            _forget_idle(world, event)
        case ev.SpawnChild():
            spawn(world, event)
        case ev.AdoptChild():
            adopt(world, event)
        case ev.Hold() | ev.Unhold() | ev.Revive():
            _intent(world, event)
        case _:
            _call(world, event)


def _wake_waiting(world: World, s: SupervisorState) -> None:
    """One such message is enough, however many nodes join while the supervisor is busy."""
    if ["wake"] not in s.queue.values():
        world.post(s.path, ["wake"])


def next_due(states: Mapping[str, SupervisorState]) -> int | None:
    """The earliest time at which a ``Tick`` would do something."""
    dues = [due for s in states.values() for due in _dues(s)]
    return min(dues, default=None)


def _dues(s: SupervisorState) -> list[int]:
    dues = list(s.dues.values())
    if is_unfinished(s):
        dues.append(0)
    if s.status == "paused":
        dues.append(s.due_ms)
    if s.waiting is not None and s.waiting.get("due_ms", 0) and s.waiting["result"] is None:
        dues.append(s.waiting["due_ms"])
    return dues


def is_unfinished(s: SupervisorState) -> bool:
    """In the middle of its plan and waiting for nobody: it had enough for one decision."""
    return s.alive and s.waiting is None and bool(s.plan)


def _tick(world: World) -> None:
    for path in world.paths():
        s = world.get(path)
        if s is None or not any(due <= world.now_ms for due in _dues(s)):
            continue
        if is_unfinished(s):
            world.wake(path)
        if s.status == "paused":
            start_supervisor(world, path, s.definition, incarnation=s.incarnation + 1)
            continue
        for child_id, due in list(s.dues.items()):
            if due <= world.now_ms:
                retry_due(world, path, child_id)
        if s.waiting is not None and 0 < s.waiting.get("due_ms", 0) <= world.now_ms:
            # A nested supervisor's own shutdown time is over: it is killed, as OTP would.
            kill_supervisor(world, f"{path}/{s.waiting['child']}", "killed", charged=True)


def _start_tree(world: World, event: ev.StartTree) -> None:
    s = world.get(event.path)
    if s is not None and s.status != "exited":
        world.reply(event.request, error="already_started", detail=event.path)
        return
    definition = event.definition if event.definition is not None or s is None else s.definition
    if definition is None:
        world.reply(event.request, error="noproc")
        return
    definition = with_incarnations(definition, event.incarnations)
    if s is not None and s.held:
        world.draft(event.path).definition = definition
        world.reply(event.request, {"child": event.path, "incarnation": None, "info": "held"})
        return
    incarnation = 1 if s is None else s.incarnation + 1
    start_supervisor(world, event.path, definition, incarnation=incarnation, starter=event.request)


def _stop(world: World, path: str, reason: str, request: str, origin: str) -> None:
    s = world.get(path)
    if s is not None and s.alive:
        world.post(path, ["stop", reason, request, origin])
    elif s is None or origin == "call":
        world.reply(request, error="noproc")
    else:
        _leave_pause(world, path)
        world.reply(request)


def _leave_pause(world: World, path: str) -> None:
    s = world.draft(path)
    s.status, s.due_ms = "exited", 0


def _kill(world: World, event: ev.KillSupervisor) -> None:
    s = world.get(event.path)
    if s is not None and s.alive:
        kill_supervisor(world, event.path, event.reason, charged=event.charged)
        world.reply(event.request)
    elif s is None and kill_unreadable(world, event):
        world.reply(event.request)
    else:
        world.reply(event.request, error="noproc")


def _call(world: World, event: ev.Call) -> None:
    s = world.get(event.path)
    if s is None or not s.alive:
        world.reply(event.request, error="noproc")
        return
    world.post(event.path, ["call", *_message(event)])


def _message(event: ev.Call) -> tuple[str, str, dict[str, Any]]:
    match event:
        case ev.StartChild():
            return "start_child", event.request, {"child": event.child}
        case ev.TerminateChild() | ev.GetChildSpec():
            args = {"child": event.child, "handle": event.handle, "alive": event.alive}
            if isinstance(event, ev.GetChildSpec):
                return "get_childspec", event.request, args
            return (
                "terminate_child",
                event.request,
                {**args, **({"reason": event.reason} if event.reason else {})},
            )
        case ev.StopIdle():
            return "stop_idle", event.request, {"child": event.child, "incarnation": event.incarnation}
        case ev.WhichChildren():
            return "which_children", event.request, {}
        case ev.CountChildren():
            return "count_children", event.request, {}
        case _:
            return _OPS[type(event)], event.request, {"child": event.child}


_OPS: Mapping[type, str] = {
    ev.RestartChild: "restart_child",
    ev.DeleteChild: "delete_child",
    ev.Hold: "hold",
    ev.Unhold: "unhold",
    ev.Revive: "revive",
    ev.WakeIdle: "wake_idle",
}


def _forget_idle(world: World, event: ev.ForgetIdle) -> None:
    """At once, past the queue: the child does not run, so what the supervisor is in the middle of is not about it."""
    s = world.get(event.path)
    child = None if s is None else s.children.get(event.child)
    if s is not None and s.alive and child is not None and is_forgettable(child):
        forget_child(world, world.draft(event.path), child)


def _intent(world: World, event: ev.Hold | ev.Unhold | ev.Revive) -> None:
    """Holds and revivals also reach supervisors that do not run; without a child they mean ``path`` itself."""
    s = world.get(event.path)
    if s is None:
        world.reply(event.request, error="noproc")
    elif event.child == "" and s.parent:
        again = type(event)(path=s.parent, child=s.name, request=event.request)
        _intent(world, again)
    elif event.child == "":
        _intend_root(world, event)
    elif s.alive:
        world.post(event.path, ["call", *_message(event)])
    elif event.child not in s.children:
        world.reply(event.request, error="not_found")
    else:
        s = world.draft(event.path)
        if not isinstance(event, ev.Revive):
            set_child(s, s.children[event.child], held=isinstance(event, ev.Hold))
        world.reply(event.request)


def _intend_root(world: World, event: ev.Hold | ev.Unhold | ev.Revive) -> None:
    s = world.draft(event.path)
    if isinstance(event, ev.Hold):
        s.held = True
        _stop(world, event.path, "shutdown", event.request, "parent")
        return
    if isinstance(event, ev.Unhold):
        s.held = False
    if s.alive or (isinstance(event, ev.Revive) and s.status != "paused"):
        world.reply(event.request)
        return
    s.pauses = 0
    start_supervisor(world, event.path, s.definition, incarnation=s.incarnation + 1, starter=event.request)
