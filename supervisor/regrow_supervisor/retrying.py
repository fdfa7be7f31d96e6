"""After a failed start: a retry at the back of the supervisor's own queue, at once or when its backoff ends."""

from __future__ import annotations

from regrow_supervisor.backoff import delay_ms
from regrow_supervisor.children import set_child
from regrow_supervisor.states import ChildState, SupervisorState
from regrow_supervisor.world import World

__all__ = ["delay_restart", "resume_group", "retry_due", "schedule_retry"]


def schedule_retry(world: World, s: SupervisorState, child: ChildState) -> None:
    """The failed attempt's successor counts as a restart when its turn comes."""
    if child.spec.get("backoff") is None:
        set_child(s, child, status="restarting")
        world.post(s.path, ["retry", child.id, True])
    else:
        delay_restart(world, s, child, counted=False)


def delay_restart(world: World, s: SupervisorState, child: ChildState, *, counted: bool) -> None:
    """Let the child wait for its backoff; it is ``restarting`` meanwhile, as OTP's words go."""
    failures = child.failures + 1
    wait = delay_ms(child.spec["backoff"], failures, f"{s.path}/{child.id}#{child.incarnation}")
    due = world.now_ms + wait
    child = set_child(s, child, status="restarting", failures=failures, due_ms=due, counted=counted)
    world.report(s, "backoff", child, f"{wait} ms")


def resume_group(s: SupervisorState, child: ChildState) -> None:
    """Start those of the child's group that a failed pass left stopped; the child itself declines."""
    if s.strategy in ("one_for_all", "rest_for_one"):
        first = 0 if s.strategy == "one_for_all" else child.place
        s.plan = (*s.plan, ["up", first - 1, "group"])


def retry_due(world: World, path: str, child_id: str) -> None:
    """The backoff is over: the restart goes to the back of the queue.

    It counts if a failed start led to it; a crash was counted when it happened.
    """
    s = world.draft(path)
    child = set_child(s, s.children[child_id], due_ms=0)
    world.post(path, ["retry", child_id, not child.counted])
