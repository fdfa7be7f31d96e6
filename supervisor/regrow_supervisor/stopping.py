"""Stopping one child, a range of them one by one, or all at once; and what the end of a stopped child means.

A stop has a *mode* that says what stays on record: ``group`` (temporary children are forgotten), ``call`` (those of
dynamic supervisors too), ``hold``, ``idle`` and ``end`` (nothing is forgotten; a new start makes the record anew).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from regrow_supervisor.children import child_path, forget_child, set_child
from regrow_supervisor.killing import kill_supervisor
from regrow_supervisor.orders import Report, Stop
from regrow_supervisor.restart_types import is_expected, is_shutdown_error
from regrow_supervisor.states import ChildState, SupervisorState
from regrow_supervisor.world import World, take_exit

__all__ = ["absorb_stops", "begin_stop", "next_down", "stop_all", "stop_outcome"]


def next_down(world: World, s: SupervisorState, below: int, lowest: int, mode: str) -> None:
    """Stop the last running child with ``lowest <= place < below``; the plan remembers where it is.

    Those passed on the way need no stop; a retry or a wait for a node of theirs is off.
    """
    for child in reversed(list(s.children.values())):
        if not lowest <= child.place < below:
            continue
        if child.alive and child.pooled:
            if world.at_once <= 0:
                s.plan = (*s.plan, ["down", child.place + 1, lowest, mode])
                return
            begin_stop(world, s, child, mode)
        elif child.alive:
            s.plan = (*s.plan, ["down", child.place, lowest, mode])
            begin_stop(world, s, child, mode)
            return
        elif child.status in ("restarting", "waiting"):
            set_child(s, child, status="stopped")


def begin_stop(world: World, s: SupervisorState, child: ChildState, mode: str, *, said: str = "") -> None:
    """Ask a running child to stop and wait for its end. One that is dead already is not asked: its end is consumed.

    ``said``: why, for those who watch it, if it ends as it should.
    """
    reason = take_exit(s, child)
    if reason is not None:
        _stopped(world, s, child, mode, reason, found_dead=True)
        return
    if child.pooled:
        told = f"shutdown:{said}" if said else ""
        _stopped(world, s, child, mode, _stop_pooled(world, s, child), found_dead=False, told=told)
        return
    child = set_child(s, child, status="stopping")
    due = world.now_ms + child.shutdown_ms if child.is_supervisor and child.shutdown_ms > 0 else 0
    s.waiting = {
        "for": "stop",
        "child": child.id,
        "incarnation": child.incarnation,
        "mode": mode,
        "due_ms": due,
        "result": None,
    }
    if said:
        s.waiting["said"] = said
    _ask(world, s, child)


def _stop_pooled(world: World, s: SupervisorState, child: ChildState) -> str:
    """The life ends here and now; the reason that it ended with."""
    stop = Stop(
        path=s.path,
        child=child.id,
        incarnation=child.incarnation,
        shutdown_ms=child.shutdown_ms,
        pooled=True,
    )
    world.say(stop)
    world.at_once -= 1
    return stop.pooled_reason


def _ask(world: World, s: SupervisorState, child: ChildState) -> None:
    if not child.is_supervisor:
        world.say(
            Stop(path=s.path, child=child.id, incarnation=child.incarnation, shutdown_ms=child.shutdown_ms)
        )
    elif child.shutdown_ms == 0:
        kill_supervisor(world, child_path(s, child.id), "killed", charged=True)
    else:
        world.post(child_path(s, child.id), ["stop", "shutdown", "", "parent"])


def stop_outcome(world: World, s: SupervisorState, waiting: Mapping[str, Any]) -> None:
    """Go on with the end of a child that was asked to stop."""
    s.waiting = None
    child = s.children[waiting["child"]]
    reason = waiting["result"][1]
    said = waiting.get("said", "")
    told = f"shutdown:{said}" if said and is_expected(reason) else reason
    _stopped(world, s, child, waiting["mode"], reason, found_dead=False, told=told)


def _stopped(
    world: World,
    s: SupervisorState,
    child: ChildState,
    mode: str,
    reason: str,
    *,
    found_dead: bool,
    told: str = "",
) -> None:
    if _is_error(s, child, reason, found_dead=found_dead):
        world.report(s, "shutdown_error", child, reason)
    child = set_child(s, child, status="stopped", reason=reason)
    comes_back = mode in ("group", "end") and child.restart != "temporary"
    world.life_ended(s, child, told or reason, again=comes_back)
    forgotten = child.restart == "temporary" or (mode == "call" and s.is_dynamic)
    if mode in ("group", "call") and forgotten:
        forget_child(world, s, child)


def stop_all(world: World, s: SupervisorState) -> None:
    """A dynamic supervisor ends: its children are asked all at once, each with its own time, in no order."""
    if not _stop_all_pooled(world, s):
        s.plan = (*s.plan, ["all"])
        return
    left, errors = 0, list[list[str]]()
    for child in list(s.children.values()):
        if not child.alive:
            if child.status != "parked":
                set_child(s, child, status="stopped")
            continue
        reason = take_exit(s, child)
        if reason is None:
            left += 1
            _ask(world, s, set_child(s, child, status="stopping"))
        else:
            _down_with_all(world, s, child, reason)
            if _is_error(s, child, reason, found_dead=True):
                errors.append([child.id, reason])
    s.waiting = {"for": "stops", "left": left, "errors": errors}
    absorb_stops(world, s)


def _stop_all_pooled(world: World, s: SupervisorState) -> bool:
    """End those that nobody has to wait for; False: there are more of them than one decision may stop."""
    for child in list(s.children.values()):
        if not (child.alive and child.pooled):
            continue
        if world.at_once <= 0:
            return False
        reason = take_exit(s, child)
        if reason is None:
            reason = _stop_pooled(world, s, child)
        elif _is_error(s, child, reason, found_dead=True):
            world.report(s, "shutdown_error", child, reason)
        _down_with_all(world, s, child, reason)
    return True


def absorb_stops(world: World, s: SupervisorState) -> bool:
    """Take the ends that have come in; whether all are in."""
    left, errors = s.waiting["left"], list(s.waiting["errors"])
    for number, message in list(s.queue.items()):
        if message[0] != "exit":
            continue
        child = s.children.get(message[1])
        if child is None or child.incarnation != message[2] or child.status != "stopping":
            continue
        del s.queue[number]
        left -= 1
        _down_with_all(world, s, child, message[3])
        if _is_error(s, child, message[3], found_dead=False):
            errors.append([child.id, message[3]])
    s.waiting = {"for": "stops", "left": left, "errors": errors}
    if left:
        return False
    s.waiting = None
    _report_errors(world, s, errors)
    return True


def _down_with_all(world: World, s: SupervisorState, child: ChildState, reason: str) -> None:
    set_child(s, child, status="stopped", reason=reason)
    world.life_ended(s, child, reason, again=child.restart != "temporary")


def _report_errors(world: World, s: SupervisorState, errors: list[list[str]]) -> None:
    if s.strategy == "dynamic":
        for child_id, reason in sorted(errors, key=lambda error: s.children[error[0]].place):
            world.report(s, "shutdown_error", s.children[child_id], reason)
        return
    for reason, count in sorted(Counter(reason for _, reason in errors).items(), key=_term_order):
        name = str(s.definition["children"][0]["id"])
        world.say(Report(path=s.path, context="shutdown_error", child=name, reason=reason, count=count))


def _term_order(item: tuple[str, int]) -> tuple[bool, str]:
    """As Erlang sorts terms: words before ``shutdown`` with information."""
    return ":" in item[0], item[0]


def _is_error(s: SupervisorState, child: ChildState, reason: str, *, found_dead: bool) -> bool:
    brutal = child.spec["shutdown"] == "brutal_kill"
    return is_shutdown_error(child.restart, reason, brutal=brutal, strategy=s.strategy, found_dead=found_dead)
