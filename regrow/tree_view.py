"""The tree as it stands in Redis, read in three round trips: for ``regrow tree`` and for whoever wants to draw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import CorruptKey
from regrow_signals.keys import Keys
from regrow_supervisor.codec import from_fields
from regrow_supervisor.states import ChildState, SupervisorState

__all__ = ["Branch", "Leaf", "TreeView", "read_tree"]

_FIELDS = ("type", "status", "incarnation", "started_ms", "restarts", "exit_reason", "node", "pid", "version")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One agent. ``status`` is the agent's own where it has a process, else what its supervisor says of it."""

    id: str
    type: str
    status: str
    incarnation: int
    started_ms: int
    restarts: int
    reason: str
    node: str
    pid: int
    version: int
    backlog: int
    dead: int
    held: bool


@dataclass(frozen=True, slots=True)
class Branch:
    """One supervisor."""

    path: str
    name: str
    strategy: str
    status: str
    reason: str
    held: bool
    restarts_used: int
    max_restarts: int
    max_seconds: float
    children: list[Branch | Leaf] = field(default_factory=list["Branch | Leaf"])


@dataclass(frozen=True, slots=True)
class TreeView:
    """Everything at one look; the parts are read one after the other, so they may be some milliseconds apart."""

    now_ms: int
    leader: bool
    nodes: list[dict[str, str]]
    roots: list[Branch]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)


def read_tree(connection: Connection, keys: Keys) -> TreeView:
    """Read leader, nodes, supervisors and their agents."""
    now_ms = connection.command(
        Command(("TIME",), lambda reply: int(reply[0]) * 1000 + int(reply[1]) // 1000)
    )
    token, node_ids, paths = connection.pipeline(
        [views.leader(keys), views.node_ids(keys), views.supervisor_paths(keys)]
    )
    nodes = connection.pipeline([views.node_record(keys, node) for node in node_ids])
    records = connection.pipeline([views.supervisor_record(keys, path) for path in paths])
    states = dict(_readable(paths, records))
    agents = [
        child.id for state in states.values() for child in state.children.values() if not child.is_supervisor
    ]
    leaves = _agents(connection, keys, agents)
    roots = [_branch(states, leaves, path, now_ms) for path in states if not states[path].parent]
    listed = [{"id": node, **record} for node, record in zip(node_ids, nodes, strict=True)]
    return TreeView(now_ms, bool(token), listed, roots)


def _readable(paths: list[str], records: list[Any]) -> list[tuple[str, SupervisorState]]:
    found: list[tuple[str, SupervisorState]] = []
    for path, record in zip(paths, records, strict=True):
        if isinstance(record, Exception) or not record:
            continue
        try:
            found.append((path, from_fields(record)))
        except CorruptKey:
            continue  # `regrow doctor` names it; the others are shown
    return found


def _agents(
    connection: Connection, keys: Keys, agents: list[str]
) -> Mapping[str, tuple[dict[str, str], int, int]]:
    fields = connection.pipeline(views.agent_records(keys, agents, *_FIELDS))
    backlog = connection.pipeline([views.mailbox_length(keys, agent) for agent in agents])
    dead = connection.pipeline([views.dead_length(keys, agent) for agent in agents])
    return {
        agent: (
            cast("dict[str, str]", record) if isinstance(record, dict) else {"status": "unreadable"},
            waiting if isinstance(waiting, int) else -1,
            letters if isinstance(letters, int) else -1,
        )
        for agent, record, waiting, letters in zip(agents, fields, backlog, dead, strict=True)
    }


def _branch(
    states: Mapping[str, SupervisorState],
    agents: Mapping[str, tuple[dict[str, str], int, int]],
    path: str,
    now_ms: int,
) -> Branch:
    state = states[path]
    period = int(state.definition["max_seconds"])
    window_start = now_ms // 1000 - period
    children: list[Branch | Leaf] = []
    for child in state.children.values():
        nested = f"{path}/{child.id}"
        if child.is_supervisor and nested in states:
            children.append(_branch(states, agents, nested, now_ms))
        elif not child.is_supervisor:
            children.append(_leaf(child, *agents[child.id]))
    return Branch(
        path=path,
        name=path.rpartition("/")[2],
        strategy=str(state.definition["strategy"]),
        status=state.status,
        reason=state.reason,
        held=state.held,
        restarts_used=sum(1 for at in state.stamps if at >= window_start),
        max_restarts=int(state.definition["max_restarts"]),
        max_seconds=period,
        children=children,
    )


def _leaf(child: ChildState, record: dict[str, str], backlog: int, dead: int) -> Leaf:
    status = record.get("status", "")
    return Leaf(
        id=child.id,
        type=record.get("type", "?"),
        status="held"
        if child.held and not child.alive
        else (status if child.alive and status else child.status),
        incarnation=child.incarnation,
        started_ms=_number(record.get("started_ms")),
        restarts=_number(record.get("restarts")),
        reason=child.reason or record.get("exit_reason", ""),
        node=record.get("node", ""),
        pid=_number(record.get("pid")),
        version=_number(record.get("version")),
        backlog=backlog,
        dead=dead,
        held=child.held,
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
