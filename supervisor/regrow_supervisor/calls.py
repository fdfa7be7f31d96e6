"""OTP's calls, as the queue's turn comes to them. Each answers in every case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from regrow_supervisor.children import add_child, forget_child, set_child
from regrow_supervisor.definition import SpecError, full_child, public_spec
from regrow_supervisor.retrying import resume_group
from regrow_supervisor.starting import begin_start
from regrow_supervisor.states import ChildState, SupervisorState
from regrow_supervisor.stopping import begin_stop
from regrow_supervisor.world import World, dead_in_queue

__all__ = ["answer_call", "count_children", "is_forgettable", "which_children"]

Args = Mapping[str, Any]


def answer_call(world: World, s: SupervisorState, op: str, request: str, args: Args) -> None:
    """Handle one call message."""
    _CALLS[op](world, s, request, args)


def which_children(s: SupervisorState) -> list[list[Any]]:
    """``[id, status, incarnation, type]`` of each, last started first."""
    return [
        [child.id, child.status, child.incarnation, child.spec["type"]]
        for child in reversed(s.children.values())
    ]


def count_children(s: SupervisorState) -> list[int]:
    """``[specs, active, supervisors, workers]`` by OTP's and Elixir's different rules."""
    children = s.children.values()
    supervisors = sum(child.spec["type"] == "supervisor" for child in children)
    if s.is_dynamic:
        active = sum(child.alive for child in children)
        specs = 1 if s.strategy == "simple_one_for_one" else len(children)
    else:
        dead = dead_in_queue(s)
        active = sum(child.alive and (child.id, child.incarnation) not in dead for child in children)
        specs = len(children)
    return [specs, active, supervisors, len(children) - supervisors]


def _start_child(world: World, s: SupervisorState, request: str, args: Args) -> None:
    raw = args["child"]
    try:
        spec = _instance(s, raw) if s.strategy == "simple_one_for_one" else full_child(raw, s.definition)
    except SpecError as error:
        world.reply(request, error=str(error))
        return
    known = s.children.get(spec["id"])
    limit = s.definition["max_children"]
    if known is not None:
        alive = known.status == "running"
        detail = f"{known.id}#{known.incarnation}" if alive else ""
        world.reply(request, error="already_started" if alive else "already_present", detail=detail)
    elif limit is not None and len(s.children) >= limit:
        world.reply(request, error="max_children")
    else:
        begin_start(world, s, add_child(s, spec), "call", request)


def _instance(s: SupervisorState, raw: Mapping[str, Any]) -> dict[str, Any]:
    """A child of simple_one_for_one: the template, with a name and start arguments of its own."""
    template = full_child(s.definition["children"][0], s.definition)
    return {**template, **raw, "template": template["id"], **_fixed(template)}


def _fixed(template: Mapping[str, Any]) -> dict[str, Any]:
    return {name: template[name] for name in ("restart", "significant", "shutdown", "type")}


def _terminate_child(world: World, s: SupervisorState, request: str, args: Args) -> None:
    handle = args["handle"]
    if handle is None and s.strategy == "simple_one_for_one":
        world.reply(request, error="simple_one_for_one")
        return
    child = _find(s, args)
    if child is None:
        forgotten = s.strategy == "simple_one_for_one" and not args["alive"]
        world.reply(request, error="" if forgotten else "not_found")
        return
    s.plan = (*s.plan, ["reply", request])
    if child.alive:
        begin_stop(world, s, child, "call", said=args.get("reason", ""))
    elif s.is_dynamic or (child.restart == "temporary" and not child.held):
        forget_child(world, s, child)
    else:
        set_child(s, child, status="stopped")


def _find(s: SupervisorState, args: Args) -> ChildState | None:
    """By id, or the child whose process has this handle; one that waits for its retry is known by its last one."""
    child = s.children.get(args["child"])
    handle = args["handle"]
    if child is None or handle in (None, child.incarnation):
        return child
    return child if child.status == "restarting" and handle < child.incarnation else None


def _restart_child(world: World, s: SupervisorState, request: str, args: Args) -> None:
    child = _stopped_child(world, s, request, args)
    if child is not None:
        begin_start(world, s, set_child(s, child, stamps=(), failures=0), "restart", request)


def _delete_child(world: World, s: SupervisorState, request: str, args: Args) -> None:
    child = _stopped_child(world, s, request, args)
    if child is not None:
        forget_child(world, s, child)
        world.reply(request)


def _stopped_child(world: World, s: SupervisorState, request: str, args: Args) -> ChildState | None:
    """The child that neither runs nor is about to; otherwise the caller has been told why not."""
    if s.strategy == "simple_one_for_one":
        world.reply(request, error="simple_one_for_one")
        return None
    child = s.children.get(args["child"])
    error = "not_found" if child is None else "running" if child.alive else ""
    if child is not None and child.status == "restarting":
        error = "restarting"
    if error:
        world.reply(request, error=error)
        return None
    return child


def _get_childspec(world: World, s: SupervisorState, request: str, args: Args) -> None:
    if s.strategy == "simple_one_for_one":
        template = full_child(s.definition["children"][0], s.definition)
        by_id = args["handle"] is None
        known = args["child"] == template["id"] if by_id else _find(s, args) is not None or not args["alive"]
        spec: Mapping[str, Any] | None = template if known else None
    else:
        child = _find(s, args)
        spec = None if child is None else child.spec
    if spec is None:
        world.reply(request, error="not_found")
    else:
        world.reply(request, public_spec(spec))


def _which_children(world: World, s: SupervisorState, request: str, _: Args) -> None:
    world.reply(request, which_children(s))


def _count_children(world: World, s: SupervisorState, request: str, _: Args) -> None:
    world.reply(request, count_children(s))


def _hold(world: World, s: SupervisorState, request: str, args: Args) -> None:
    """Intent first: from here on nothing starts it. Then stop it, and answer when it is stopped."""
    child = _known(world, s, request, args)
    if child is None:
        return
    world.report(s, "held", child)
    waits_for_retry = child.status == "restarting"
    child = set_child(s, child, held=True, due_ms=child.due_ms)
    s.plan = (*s.plan, ["reply", request])
    if waits_for_retry:
        # A hold is a start that declines: the group goes on without it.
        resume_group(s, set_child(s, child, status="stopped"))
    elif child.alive:
        begin_stop(world, s, child, "hold")
    elif child.status != "parked":
        set_child(s, child, status="stopped")


def _unhold(world: World, s: SupervisorState, request: str, args: Args) -> None:
    child = _known(world, s, request, args)
    if child is None:
        return
    if not child.held:
        world.reply(request)
        return
    world.report(s, "unheld", child)
    child = set_child(s, child, held=False)
    if child.status == "parked":
        world.reply(request)
    else:
        begin_start(world, s, child, "restart", request)


def _revive(world: World, s: SupervisorState, request: str, args: Args) -> None:
    child = _known(world, s, request, args)
    if child is None:
        return
    if child.status != "parked":
        world.reply(request, error="not_parked", detail=child.status)
        return
    world.report(s, "revived", child)
    child = set_child(s, child, status="stopped", stamps=(), failures=0)
    begin_start(world, s, child, "restart", request)


def is_forgettable(child: ChildState) -> bool:
    """An idle child that has stopped, and that nobody put on hold meanwhile."""
    return child.idle and child.status == "stopped" and not child.held


def _stop_idle(world: World, s: SupervisorState, _: str, args: Args) -> None:
    """Uncharged, as any stop that is asked for; void if that life is over or on its way out."""
    child = s.children.get(args["child"])
    if child is not None and (child.status, child.incarnation) == ("running", args["incarnation"]):
        begin_stop(world, s, set_child(s, child, idle=True), "idle")


def _wake_idle(world: World, s: SupervisorState, _: str, args: Args) -> None:
    child = s.children.get(args["child"])
    if child is not None and is_forgettable(child):
        begin_start(world, s, child, "wake")


def _known(world: World, s: SupervisorState, request: str, args: Args) -> ChildState | None:
    child = s.children.get(args["child"])
    if child is None:
        world.reply(request, error="not_found")
    return child


_CALLS: Mapping[str, Callable[[World, SupervisorState, str, Args], None]] = {
    "start_child": _start_child,
    "terminate_child": _terminate_child,
    "restart_child": _restart_child,
    "delete_child": _delete_child,
    "get_childspec": _get_childspec,
    "which_children": _which_children,
    "count_children": _count_children,
    "hold": _hold,
    "unhold": _unhold,
    "revive": _revive,
    "stop_idle": _stop_idle,
    "wake_idle": _wake_idle,
}
