"""What an end by itself leads to: a restart by the strategy, a stopped or forgotten child, the supervisor's end."""

from __future__ import annotations

from regrow_supervisor.backoff import failures_before
from regrow_supervisor.children import forget_child, park_child, set_child
from regrow_supervisor.ending import terminate
from regrow_supervisor.intensity import count_restart
from regrow_supervisor.restart_types import (
    is_move,
    is_slow_reading,
    is_to_be_restarted,
    is_unreadable,
    is_worth_a_report,
)
from regrow_supervisor.retrying import delay_restart, resume_group
from regrow_supervisor.starting import begin_start
from regrow_supervisor.states import ChildState, SupervisorState
from regrow_supervisor.world import World

__all__ = ["child_exited", "retry"]


def child_exited(
    world: World, s: SupervisorState, child_id: str, *, incarnation: int, reason: str, charged: bool
) -> None:
    """A child ended by itself; a message about a life that is not on record any more is dropped."""
    child = s.children.get(child_id)
    if child is None or child.incarnation != incarnation or child.status != "running":
        return
    if not charged and is_unreadable(reason):
        world.life_ended(s, child, reason, again=False)
        park_child(world, s, child, reason)
        return
    child = set_child(s, child, reason=reason)
    if not charged and (is_move(reason) or is_slow_reading(reason)):
        begin_start(world, s, set_child(s, child, status="stopped"), "one")
        return
    if is_worth_a_report(child.restart, reason):
        world.report(s, "child_terminated", child, reason)
    if not is_to_be_restarted(child.restart, reason):
        world.life_ended(s, child, reason, again=False)
        _end_for_good(world, s, child)
        _shut_down_with(s, child)
        return
    affordable = not charged or _affordable(world, s, child)
    world.life_ended(s, child, reason, again=affordable)
    if not charged:
        _apply_strategy(world, s, child)
    elif affordable:
        _restart(world, s, s.children[child_id])


def retry(world: World, s: SupervisorState, child_id: str, charged: bool) -> None:
    """The turn of a queued retry; void if the child is not waiting for it any more."""
    child = s.children.get(child_id)
    if child is None or child.status != "restarting" or child.due_ms:
        return
    if not charged or _affordable(world, s, child):
        _apply_strategy(world, s, s.children[child_id])
    elif s.status == "running":
        # It is parked: from now on it declines, and its group goes on without it.
        resume_group(s, s.children[child_id])


def _affordable(world: World, s: SupervisorState, child: ChildState) -> bool:
    """Count one restart, of the child's own budget if it has one. Over it, it is parked or the supervisor ends."""
    flags, limit = s.definition, child.spec.get("limit")
    if limit is None:
        s.stamps, exceeded = count_restart(
            s.stamps, world.now_ms, flags["max_restarts"], flags["max_seconds"]
        )
    else:
        stamps, exceeded = count_restart(
            child.stamps, world.now_ms, limit["max_restarts"], limit["max_seconds"]
        )
        child = set_child(s, child, stamps=stamps)
        if exceeded and limit.get("on_exceeded", "park") == "park":
            park_child(world, s, child, child.reason)
            return False
    if exceeded:
        world.report(s, "shutdown", child, "reached_max_restart_intensity")
        _end_for_good(world, s, child)
        terminate(s, "shutdown", "self")
    return not exceeded


def _restart(world: World, s: SupervisorState, child: ChildState) -> None:
    """Restart after a counted crash: now, or after the child's backoff, with its group stopped meanwhile."""
    backoff = child.spec.get("backoff")
    if backoff is None:
        _apply_strategy(world, s, child)
        return
    failures = failures_before(backoff, child.failures, child.started_ms, world.now_ms)
    delay_restart(world, s, set_child(s, child, failures=failures), counted=True)
    if s.strategy == "one_for_all":
        s.plan = (*s.plan, ["down", child.place, 0, "group"])
    if s.strategy in ("one_for_all", "rest_for_one"):
        s.plan = (*s.plan, ["down", s.next_place, child.place + 1, "group"])


def _apply_strategy(world: World, s: SupervisorState, child: ChildState) -> None:
    child = set_child(s, child, status="stopped")
    match s.strategy:
        case "one_for_all":
            s.plan = (*s.plan, ["up", -1, "group"], ["down", s.next_place, 0, "group"])
        case "rest_for_one":
            s.plan = (*s.plan, ["up", child.place - 1, "group"], ["down", s.next_place, child.place, "group"])
        case _:
            begin_start(world, s, child, "one")


def _end_for_good(world: World, s: SupervisorState, child: ChildState) -> None:
    if s.is_dynamic or child.restart == "temporary":
        forget_child(world, s, child)
    else:
        set_child(s, child, status="stopped")


def _shut_down_with(s: SupervisorState, child: ChildState) -> None:
    """auto_shutdown: looked at only when a significant child ended by itself for good."""
    rule = s.definition["auto_shutdown"]
    if rule == "never" or not child.significant:
        return
    active = s.children if s.is_dynamic else any(map(_is_active, s.children.values()))
    if rule == "all_significant" and active:
        return
    terminate(s, "shutdown", "auto")


def _is_active(child: ChildState) -> bool:
    return child.significant and child.status in ("running", "restarting", "waiting")
