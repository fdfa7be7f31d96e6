"""The tree as it stands in Redis, read in a few round trips: for ``regrow tree`` and for whoever wants to draw it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import CorruptKey
from regrow_signals.keys import Keys
from regrow_supervisor.codec import from_fields
from regrow_supervisor.states import ChildState, SupervisorState

__all__ = ["Branch", "Budget", "Leaf", "TreeView", "read_supervisors", "read_tree"]

_FIELDS = (
    "type",
    "status",
    "incarnation",
    "started_ms",
    "restarts",
    "exit_reason",
    "node",
    "pid",
    "version",
    "postponed",
)


@dataclass(frozen=True, slots=True)
class Budget:
    """Restarts that count now, of how many in which period; of a supervisor, or of a child counted by itself."""

    used: int
    max_restarts: int
    max_seconds: float


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
    backlog: int | None
    """Signals that wait; None: its key holds the wrong type."""

    postponed: int
    """How many of them wait for another mode of the agent."""

    dead: int | None
    held: bool
    waiting_for: str = ""
    """Why it has no process though it is wanted."""

    due_ms: int = 0
    """When its backoff ends; 0: none."""

    budget: Budget | None = None
    """Its own, if it is counted by itself."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One supervisor. ``reason`` is why its last life ended; ``unreadable`` why its record cannot be shown."""

    path: str
    name: str
    strategy: str = "?"
    status: str = "unknown"
    incarnation: int = 0
    started_ms: int = 0
    restarts: int = 0
    reason: str = ""
    held: bool = False
    due_ms: int = 0
    """When the root's pause ends; 0: none."""

    budget: Budget | None = None
    unreadable: str = ""
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
    token, node_ids = connection.pipeline([views.leader(keys), views.node_ids(keys)])
    nodes = connection.pipeline([views.node_record(keys, node) for node in node_ids])
    states, unreadable = read_supervisors(connection, keys)
    agents = [
        child.id for state in states.values() for child in state.children.values() if not child.is_supervisor
    ]
    look = _Look(now_ms, states, unreadable, _agents(connection, keys, agents))
    roots = [look.branch(path, None) for path in states if not states[path].parent]
    roots += [look.branch(path, None) for path in unreadable if path.rpartition("/")[0] not in states]
    listed = [
        {"id": node, **(record if isinstance(record, dict) else {"status": "unreadable"})}
        for node, record in zip(node_ids, nodes, strict=True)
    ]
    return TreeView(now_ms, bool(token), listed, roots)


def read_supervisors(connection: Connection, keys: Keys) -> tuple[dict[str, SupervisorState], dict[str, str]]:
    """Every supervisor's record by path, and why those cannot be read that cannot."""
    paths = connection.command(views.supervisor_paths(keys))
    records = connection.pipeline([views.supervisor_record(keys, path) for path in paths])
    found: dict[str, SupervisorState] = {}
    unreadable: dict[str, str] = {}
    for path, record in zip(paths, records, strict=True):
        try:
            if isinstance(record, Exception):
                raise record
            if record:
                found[path] = from_fields(record)
        except CorruptKey as error:
            unreadable[path] = str(error)
    return found, unreadable


def _agents(
    connection: Connection, keys: Keys, agents: list[str]
) -> Mapping[str, tuple[dict[str, str], int | None, int | None]]:
    fields = connection.pipeline(views.agent_records(keys, agents, *_FIELDS))
    backlog = connection.pipeline([views.mailbox_length(keys, agent) for agent in agents])
    dead = connection.pipeline([views.dead_length(keys, agent) for agent in agents])
    return {
        agent: (
            cast("dict[str, str]", record) if isinstance(record, dict) else {"status": "unreadable"},
            waiting if isinstance(waiting, int) else None,
            letters if isinstance(letters, int) else None,
        )
        for agent, record, waiting, letters in zip(agents, fields, backlog, dead, strict=True)
    }


class _Look:
    """All that was read; makes branches and leaves of it."""

    def __init__(
        self,
        now_ms: int,
        states: Mapping[str, SupervisorState],
        unreadable: Mapping[str, str],
        agents: Mapping[str, tuple[dict[str, str], int | None, int | None]],
    ) -> None:
        self._now_ms = now_ms
        self._states = states
        self._unreadable = unreadable
        self._agents = agents

    def branch(self, path: str, child: ChildState | None) -> Branch:
        """``child`` is what the parent's record says of it."""
        name = path.rpartition("/")[2]
        state = self._states.get(path)
        if state is None:
            why = self._unreadable.get(path, "there is no record of it")
            return Branch(path, name, unreadable=why, held=child is not None and child.held)
        return Branch(
            path=path,
            name=name,
            strategy=str(state.definition["strategy"]),
            status=state.status,
            incarnation=state.incarnation,
            started_ms=state.started_ms if state.alive else 0,
            restarts=0 if child is None else child.restarts,
            reason=state.reason if child is None else child.reason,
            held=state.held if child is None else child.held,
            due_ms=state.due_ms,
            budget=self._budget(state.stamps, state.definition),
            children=[
                self.branch(f"{path}/{each.id}", each) if each.is_supervisor else self._leaf(each)
                for each in state.children.values()
            ],
        )

    def _leaf(self, child: ChildState) -> Leaf:
        record, backlog, dead = self._agents[child.id]
        status = record.get("status", "")
        limit = child.spec.get("limit")
        waits = child.status == "waiting"
        return Leaf(
            id=child.id,
            type=record.get("type", "?"),
            status="held"
            if child.held and not child.alive
            else (status if child.alive and status else child.status),
            incarnation=child.incarnation,
            started_ms=_number(record.get("started_ms")),
            restarts=_number(record.get("restarts")),
            reason=record.get("exit_reason", "") if waits else child.reason or record.get("exit_reason", ""),
            node=record.get("node", ""),
            pid=_number(record.get("pid")),
            version=_number(record.get("version")),
            backlog=backlog,
            postponed=_number(record.get("postponed")),
            dead=dead,
            held=child.held,
            waiting_for=child.reason.removeprefix("waiting: ") if waits else "",
            due_ms=child.due_ms,
            budget=None if limit is None else self._budget(child.stamps, limit),
        )

    def _budget(self, stamps: Sequence[int], limits: Mapping[str, Any]) -> Budget:
        period = int(limits["max_seconds"])
        since = self._now_ms // 1000 - period
        return Budget(sum(1 for at in stamps if at >= since), int(limits["max_restarts"]), period)


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
