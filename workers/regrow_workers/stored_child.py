"""The stored form of one agent as a child: what start_child, ``send(create=...)`` and ``Spawn`` put into Redis. Pure.

``regrow_supervisor/definition.py`` says what each field means to a decision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Protocol, cast

from regrow_signals.decisions import AgentBounds, Register
from regrow_signals.durations import to_ms
from regrow_workers.child_spec import Backoff, ChildSpec
from regrow_workers.lifecycle import AgentCreated, wanted

__all__ = ["InitialState", "bounds_of", "register_agent", "stored_agent", "subscriptions_of", "type_names"]


class InitialState(Protocol):
    """How an agent's state begins: (type, init) -> (state as JSON, schema); ("", 0) lets its worker make it."""

    def __call__(self, type_name: str, init: Mapping[str, Any]) -> tuple[str, int]: ...


def stored_agent(
    child: ChildSpec,
    *,
    inherited: Mapping[str, Any] | None = None,
    fallback: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """An agent's stored form. ``inherited``: the limit that its supervisor gives children; ``fallback``: its budget.

    Where the supervisor is not known yet (a child that comes at run time), its limit has only what its spec says: the
    rest is the supervisor's, filled in when it takes the child.
    """
    stored: dict[str, Any] = {
        "id": child.id,
        "restart": child.restart,
        "significant": child.significant,
        "type": "worker",
        "start": _start(child),
    }
    if child.shutdown is not None:
        stored["shutdown"] = child.shutdown if isinstance(child.shutdown, str) else child.shutdown_ms
    if child.idle_delete is not None:
        stored["idle_delete_ms"] = max(1, to_ms(child.idle_delete))
    limit = _limit(child, inherited, fallback)
    if limit is not None:
        stored["limit"] = limit
    backoff = child.backoff
    if isinstance(backoff, Backoff):
        stored["backoff"] = {
            "first_ms": max(1, to_ms(backoff.first)),
            "factor": backoff.factor,
            "longest_ms": max(1, to_ms(backoff.longest)),
        }
    return stored


def register_agent(agent: str, path: str, spec: Mapping[str, Any], initial: InitialState) -> Register:
    """The registration of the agent that this stored form describes, under the supervisor at ``path``."""
    start = cast("Mapping[str, Any]", spec["start"])
    init = cast("Mapping[str, Any]", start.get("init") or {})
    state, schema = initial(str(start.get("type", "")), init)
    return Register(
        agent=agent,
        type=str(start.get("type", "")),
        supervisor=path,
        init=json.dumps(init),
        state=state,
        schema=schema,
        bounds=bounds_of(start),
        parent=str(spec.get("parent", "")),
        tag=str(spec.get("tag", "")),
        told=AgentCreated.signal_type in start.get("wants", ()),
        subscribe=tuple(subscriptions_of(start)),
    )


def type_names(start: Mapping[str, Any]) -> list[str]:
    """What nodes may know the type by, the present name first: a node with code from before a rename has another."""
    return [str(start.get("type", "")), *map(str, start.get("aliases") or ())]


def bounds_of(start: Mapping[str, Any]) -> AgentBounds:
    """What the spec leaves out is left to the setting of whoever sends to the agent or runs it."""
    return AgentBounds(**{name: start.get(name) for name in AgentBounds._fields})


def subscriptions_of(start: Mapping[str, Any]) -> list[tuple[str, int, str]]:
    """What a spec has its agent subscribe to: pattern, priority, policy."""
    return [(str(one[0]), int(one[1]), str(one[2])) for one in start.get("subscribe", ())]


def _start(child: ChildSpec) -> dict[str, Any]:
    """What shell and node need to run an agent; opaque to decisions. What is left out is the setting's there."""
    agent = child.agent
    wants = [] if agent is None else wanted(agent.definition)
    start = {
        "type": "" if agent is None else agent.definition.name,
        "aliases": None if agent is None else list(agent.definition.aliases) or None,
        "init": dict(child.init),
        "isolation": child.isolation,
        "resume": child.resume,
        "deadline_ms": child.deadline_ms,
        "shutdown_ms": child.shutdown_ms,
        "guard": child.guard,
        "max_memory": child.max_memory,
        "max_processes": child.max_processes,
        "max_state": child.max_state,
        "max_mailbox": child.max_mailbox,
        "max_attempts": child.max_attempts,
        "max_kills": child.max_kills,
        "max_signals": child.max_signals,
        "max_growth": child.max_growth,
        "labels": dict(child.labels),
        "wants": wants or None,
        "subscribe": [[one.pattern, one.priority, one.policy] for one in child.subscribed] or None,
    }
    return {name: value for name, value in start.items() if value is not None}


def _limit(
    child: ChildSpec, inherited: Mapping[str, Any] | None, fallback: tuple[int, int] | None
) -> Mapping[str, Any] | None:
    """A child's own budget: if it asks for one, or is pooled; what it leaves open is the supervisor's."""
    own = (child.max_restarts, child.max_seconds, child.on_exceeded)
    if own == (None, None, None) and child.isolation != "pool":
        return inherited
    max_seconds = child.max_seconds
    seconds = max_seconds.total_seconds() if isinstance(max_seconds, timedelta) else max_seconds
    told = {"max_restarts": child.max_restarts, "max_seconds": seconds, "on_exceeded": child.on_exceeded}
    said = {field: value for field, value in told.items() if value is not None}
    if fallback is None:
        return said
    return {"max_restarts": fallback[0], "max_seconds": fallback[1], "on_exceeded": "park", **said}
