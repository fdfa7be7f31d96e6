"""What a request asks for: a value that the watchdog carries out, or an answer at once. Pure; a bad one is answered.

Fields of a request: ``op``, and as the op needs ``path`` (a supervisor), ``child``, ``target`` (an agent's id or a
supervisor's path; hold, unhold, revive, kill, restart take it instead of path and child), ``spec`` (a child's stored
form, JSON), ``definition`` (a tree's, JSON) with ``name``, ``reason``, ``force``, ``absent``, ``node``.

An answer is JSON: ``{"ok": value}`` or ``{"error": code, "message": text}``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from regrow_signals.creation import CREATE_OP
from regrow_signals.errors import BadInput
from regrow_signals.families import ADOPT_OP, SPAWN_OP, STOP_CHILD_OP
from regrow_signals.ids import check_id
from regrow_supervisor import events
from regrow_supervisor.definition import SpecError, full_child
from regrow_supervisor.entries import RequestMade
from regrow_supervisor.leader_view import LeaderView
from regrow_supervisor.orders import Reply
from regrow_supervisor.spec_check import check_child

__all__ = [
    "MAX_SPEC_CHARS",
    "Asked",
    "BadRequest",
    "TreeAsked",
    "agents_of",
    "answer_json",
    "mentioned_agents",
    "read_request",
]

MAX_SPEC_CHARS: Final = 1 << 20
"""Of a field that holds JSON: a child's stored form, nested supervisors included."""
MAX_REFUSAL: Final = 300
"""Of a reason that is told to whoever asked."""
MAX_TREE_CHARS: Final = 64 << 20
"""Of a whole tree's: some 200,000 children."""


class BadRequest(Exception):
    """Refused: ``code`` for programs, the message for people. Nothing was changed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def json(self) -> str:
        return json.dumps({"error": self.code, "message": str(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeAsked:
    """A tree is handed in: see stored_tree.py."""

    name: str
    definition: Mapping[str, Any]
    force: bool = False
    """Carry it out even though it was seen before."""

    absent: bool = False
    """Only if there is no root of this name: Redis may have lost it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One of ``event`` (its reply comes out of the decision), ``tree``, ``kill`` and ``drain`` (answered at once)."""

    event: events.Event | None = None
    tree: TreeAsked | None = None
    kill: str = ""
    """An agent: its current life is ended by its node, reason ``operator``."""

    drain: str = ""
    """A node: it hands its agents over and ends."""


def read_request(view: LeaderView, made: RequestMade) -> Asked:
    """The request as a value; ``BadRequest`` says what is wrong with it."""
    reader = _READERS.get(made.op)
    if reader is None:
        raise BadRequest("unknown_op", f"no request {made.op!r:.80}; there are {', '.join(sorted(_READERS))}")
    return reader(view, made)


def answer_json(reply: Reply) -> str:
    """A decision's reply as the caller reads it."""
    if reply.ok:
        return json.dumps({"ok": reply.value})
    return json.dumps({"error": reply.error, "message": reply.detail or reply.error.replace("_", " ")})


def agents_of(definition: Mapping[str, Any], path: str) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Every agent of a supervisor's definition: its id, its supervisor's path, its child's stored form."""
    found: list[tuple[str, str, Mapping[str, Any]]] = []
    for child in cast("list[Mapping[str, Any]]", definition.get("children", [])):
        id_ = str(child.get("id", ""))
        if "supervisor" in child:
            found += agents_of(child["supervisor"], f"{path}/{id_}")
        else:
            found.append((id_, path, child))
    return found


def mentioned_agents(made: RequestMade) -> list[str]:
    """Agents that a request would bring on record: what Redis knows of them must be known before it is decided."""
    try:
        if made.op == "tree":
            return [agent for agent, _, _ in agents_of(_json_object(made, "definition"), "")]
        if made.op in ("start_child", CREATE_OP, SPAWN_OP):
            return [agent for agent, _, _ in agents_of({"children": [_json_object(made, "spec")]}, "")]
    except (BadRequest, AttributeError, TypeError):
        return []  # what is wrong with it is said when it is read
    return []


def _start_child(view: LeaderView, made: RequestMade) -> Asked:
    path = _path(view, made)
    spec = _json_object(made, "spec")
    try:
        check_child(spec, path)
    except SpecError as error:
        raise BadRequest("invalid_child_spec", str(error)) from None
    child = str(spec["id"])
    places: dict[str, str] = {}
    for agent, of, _ in agents_of({"children": [spec]}, path):
        if agent in places:
            raise BadRequest("duplicate_agent", f"agent {agent} is under {places[agent]} and under {of}")
        places[agent] = of
        found = view.child_of(agent)
        if found is not None and found[0] != of:
            raise BadRequest("already_started", f"agent {agent} runs under supervisor {found[0]}")
    known = view.agents.get(child)
    number = known.incarnation if known is not None else 0
    return Asked(
        event=events.StartChild(path=path, child={**spec, "incarnation": number}, request=made.request)
    )


def _create(view: LeaderView, made: RequestMade) -> Asked:
    """A ``send`` registered this agent; a request of which the agent is gone, or elsewhere by now, is void."""
    path, agent = _path(view, made), _field(made, "child")
    known = view.agents.get(agent)
    if known is None or known.path != path:
        raise BadRequest("not_found", f"agent {agent} is no longer registered under {path}")
    asked = _start_child(view, made)
    if _json_object(made, "spec")["id"] != agent:
        raise BadRequest("invalid_child_spec", f"the spec is not of agent {agent}")
    return asked


def _spawn(view: LeaderView, made: RequestMade) -> Asked:
    """An agent's ``Spawn`` registered this agent; void as in ``_create``, and the parent is told."""
    path, agent, owner = _field(made, "path"), _field(made, "child"), _field(made, "parent")
    spec = _json_object(made, "spec")
    if spec.get("id") != agent or spec.get("parent") != owner or not isinstance(spec.get("tag"), str):
        raise BadRequest("invalid_child_spec", f"the spec is not of agent {agent}, spawned by {owner}")
    known = view.agents.get(agent)
    found = view.child_of(agent)
    if found is not None and found[0] != path and found[1].spec.get("parent") == owner and found[1].alive:
        return Asked()  # adopted: it lives elsewhere, and there is nothing to start
    refusal = "not_found" if known is None or known.path != path else ""
    try:
        check_child(spec, path)
        full_child(spec, {"strategy": "dynamic"})
    except SpecError as error:
        refusal = f"invalid_child_spec:{error}"[:MAX_REFUSAL]
    child = {**spec, "incarnation": 0 if known is None else known.incarnation}
    event = events.SpawnChild(path=path, owner=owner, child=child, request=made.request, refusal=refusal)
    return Asked(event=event)


def _adopt(view: LeaderView, made: RequestMade) -> Asked:
    """An agent's ``Adopt`` has taken the tag already; it is told where the child cannot be had."""
    agent, owner = _field(made, "child"), _field(made, "parent")
    found, new = view.child_of(agent), view.child_of(owner)
    refusal = former = ""
    if found is None:
        refusal = "not_found"
    elif agent in _ancestors(view, owner):
        refusal = "own_ancestor"
    else:
        before = view.child_of(str(found[1].spec.get("parent", "")))
        former = "" if before is None else before[0]
    return Asked(
        event=events.AdoptChild(
            path="" if found is None else found[0],
            child=agent,
            owner=owner,
            above="" if new is None else new[0],
            tag=_field(made, "tag"),
            on_parent_death=_field(made, "on_parent_death"),
            former=former,
            request=made.request,
            refusal=refusal,
        )
    )


def _ancestors(view: LeaderView, agent: str) -> set[str]:
    """Its parent, whose parent, and so on."""
    found: set[str] = set()
    record = view.child_of(agent)
    while record is not None and (parent := str(record[1].spec.get("parent", ""))) and parent not in found:
        found.add(parent)
        record = view.child_of(parent)
    return found


def _stop_spawned(view: LeaderView, made: RequestMade) -> Asked:
    """Void for a child that has ended, or that has another parent or none by now."""
    agent, owner = _field(made, "child"), _field(made, "parent")
    found = view.child_of(agent)
    if found is None or found[1].spec.get("parent") != owner:
        return Asked()
    reason = made.fields.get("reason", "")
    reason = "" if reason == "shutdown" else reason
    return Asked(event=events.TerminateChild(path=found[0], child=agent, reason=reason))


def _call(kind: Callable[..., events.Event], *, child: bool) -> Callable[[LeaderView, RequestMade], Asked]:
    def read(view: LeaderView, made: RequestMade) -> Asked:
        path = _path(view, made)
        named = {"child": _field(made, "child")} if child else {}
        return Asked(event=kind(path=path, request=made.request, **named))

    return read


def _intent(kind: Callable[..., events.Event]) -> Callable[[LeaderView, RequestMade], Asked]:
    def read(view: LeaderView, made: RequestMade) -> Asked:
        path, child = _target(view, made)
        return Asked(event=kind(path=path, child=child, request=made.request))

    return read


def _kill(view: LeaderView, made: RequestMade) -> Asked:
    path, child = _target(view, made)
    record = view.states[path].children.get(child) if child else None
    if record is not None and not record.is_supervisor:
        if not record.alive:
            raise BadRequest("not_running", f"agent {child} does not run: it is {record.status}")
        return Asked(kill=child)
    branch = f"{path}/{child}" if child else path
    return Asked(
        event=events.KillSupervisor(path=branch, reason="operator", charged=False, request=made.request)
    )


def _restart(view: LeaderView, made: RequestMade) -> Asked:
    """Whatever it takes to have it start anew: a kill of what runs, else the start that its status asks for."""
    path, child = _target(view, made)
    record = view.states[path].children.get(child) if child else None
    if record is None or record.is_supervisor or record.alive:
        return _kill(view, made)
    if record.held:
        raise BadRequest("on_hold", f"agent {child} is on hold; `regrow start {child}` lifts it")
    kind = events.Revive if record.status == "parked" else events.RestartChild
    return Asked(event=kind(path=path, child=child, request=made.request))


def _drain(view: LeaderView, made: RequestMade) -> Asked:
    node = _field(made, "node")
    known = view.nodes.get(node)
    if known is None:
        there = ", ".join(sorted(view.nodes)[:10]) or "none"
        raise BadRequest("no_such_node", f"no node {node!r:.200}; there are: {there}")
    if known.status != "up":
        raise BadRequest("not_up", f"node {node} is {known.status} already")
    return Asked(drain=node)


def _stop_tree(view: LeaderView, made: RequestMade) -> Asked:
    path = _path(view, made)
    if view.states[path].parent:
        raise BadRequest(
            "not_a_root", f"{path} is a branch; stop_tree takes the root {path.partition('/')[0]}"
        )
    return Asked(event=events.StopTree(path=path, reason="shutdown", request=made.request))


def _stop_supervisor(view: LeaderView, made: RequestMade) -> Asked:
    reason = made.fields.get("reason", "normal")
    return Asked(event=events.StopSupervisor(path=_path(view, made), reason=reason, request=made.request))


def _tree(view: LeaderView, made: RequestMade) -> Asked:
    del view
    try:
        name = check_id(_field(made, "name"), "tree name")
    except BadInput as error:
        raise BadRequest("bad_tree", str(error)) from None
    definition = _json_object(made, "definition")
    force, absent = made.fields.get("force") == "1", made.fields.get("absent") == "1"
    return Asked(tree=TreeAsked(name=name, definition=definition, force=force, absent=absent))


_READERS: Final[Mapping[str, Callable[[LeaderView, RequestMade], Asked]]] = {
    "start_child": _start_child,
    CREATE_OP: _create,
    SPAWN_OP: _spawn,
    ADOPT_OP: _adopt,
    STOP_CHILD_OP: _stop_spawned,
    "terminate_child": _call(events.TerminateChild, child=True),
    "restart_child": _call(events.RestartChild, child=True),
    "delete_child": _call(events.DeleteChild, child=True),
    "get_childspec": _call(events.GetChildSpec, child=True),
    "which_children": _call(events.WhichChildren, child=False),
    "count_children": _call(events.CountChildren, child=False),
    "hold": _intent(events.Hold),
    "unhold": _intent(events.Unhold),
    "revive": _intent(events.Revive),
    "kill": _kill,
    "restart": _restart,
    "drain": _drain,
    "stop_tree": _stop_tree,
    "stop_supervisor": _stop_supervisor,
    "tree": _tree,
}


def _field(made: RequestMade, name: str) -> str:
    value = made.fields.get(name, "")
    if not value:
        raise BadRequest("missing_field", f"request {made.op} needs the field {name}")
    return value


def _path(view: LeaderView, made: RequestMade) -> str:
    path = _field(made, "path")
    if path not in view.states:
        known = ", ".join(sorted(view.states)[:10]) or "none"
        raise BadRequest("noproc", f"no supervisor {path!r:.200}; there are: {known}")
    return path


def _target(view: LeaderView, made: RequestMade) -> tuple[str, str]:
    """(supervisor's path, child id): ``child=""`` is the root itself."""
    if made.fields.get("child") and made.fields.get("path"):
        return _path(view, made), made.fields["child"]
    name = made.fields.get("target") or made.fields.get("agent") or made.fields.get("path") or ""
    if not name:
        raise BadRequest(
            "missing_field", f"request {made.op} needs the field target: an agent or a supervisor"
        )
    found = view.child_of(name)
    if found is not None:
        return found[0], name
    state = view.states.get(name)
    if state is not None:
        return (state.parent, name.rpartition("/")[2]) if state.parent else (name, "")
    raise BadRequest(
        "not_found", f"no agent and no supervisor is named {name!r:.200}; `regrow tree` shows them"
    )


def _json_object(made: RequestMade, name: str) -> dict[str, Any]:
    text = _field(made, name)
    most = MAX_TREE_CHARS if made.op == "tree" else MAX_SPEC_CHARS
    if len(text) > most:
        raise BadRequest("too_large", f"field {name} has {len(text)} characters, {most} is the bound")
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest("bad_json", f"field {name} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadRequest("bad_json", f"field {name} is not a JSON object")
    return cast("dict[str, Any]", value)
