"""The tree as it stands in Redis: for ``regrow tree`` and for whoever wants to draw it.

A supervisor with many children is told in sums, with the children that want attention by name (``large_branches.py``),
so that a hundred thousand agents take a second, not minutes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from regrow.large_branches import LargeBranch, read_large
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import CorruptKey, NoSuchAgent
from regrow_signals.ids import check_id
from regrow_signals.keys import Keys
from regrow_supervisor.codec import from_fields
from regrow_supervisor.loading import read_records
from regrow_supervisor.states import ChildState, SupervisorState

__all__ = [
    "LISTED",
    "Branch",
    "Budget",
    "Leaf",
    "Sums",
    "TreeView",
    "find_path",
    "read_supervisors",
    "read_tree",
]

LISTED = 100
"""Children of one supervisor that are listed; of one with more, sums are told."""

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
    "isolation",
    "worker",
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

    pooled: bool = False
    slot: str = ""
    """``<node>/<number>`` of the slot that has this pooled agent in hand; empty: none has."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Of a supervisor whose children are not all listed: how many there are, and of its agents what they are at."""

    children: int
    statuses: dict[str, int]
    types: dict[str, int]
    backlog: int
    dead: int


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
    sums: Sums | None = None
    """None: ``children`` are all of them."""


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


def read_tree(connection: Connection, keys: Keys, *, listed: int | None = LISTED, only: str = "") -> TreeView:
    """Read leader, nodes, supervisors and their agents.

    ``listed``: a supervisor with more children is told in sums; None: each is listed with all of its children.
    ``only``: an agent's id or a supervisor's path; nothing else is shown. Raises ``NoSuchAgent`` where there is none.
    """
    now_ms = connection.command(
        Command(("TIME",), lambda reply: int(reply[0]) * 1000 + int(reply[1]) // 1000)
    )
    token, node_ids = connection.pipeline([views.leader(keys), views.node_ids(keys)])
    nodes = connection.pipeline([views.node_record(keys, node) for node in node_ids])
    path, agent = find_path(connection, keys, only) if only else ("", "")
    paths = [path] if agent else connection.command(views.supervisor_paths(keys))
    if path and not agent:
        paths = [each for each in paths if f"{each}/".startswith(f"{path}/")]
    large = {} if listed is None and not agent else read_large(connection, keys, paths, listed or 0, agent)
    small = [each for each in paths if each not in large]
    states, unreadable = read_supervisors(connection, keys, small)
    named = {path: found.named for path, found in large.items()}
    children = [*(state.children for state in states.values()), *named.values()]
    agents = [child.id for some in children for child in some.values() if not child.is_supervisor]
    look = _Look(now_ms, states, unreadable, large, _agents(connection, keys, agents))
    known = {*states, *unreadable, *large, *([path] if agent else [])}
    roots = [look.branch(each, None) for each in paths if each in known and _is_top(each, path, known)]
    shown = [
        {"id": node, **(record if isinstance(record, dict) else {"status": "unreadable"})}
        for node, record in zip(node_ids, nodes, strict=True)
    ]
    return TreeView(now_ms, bool(token), shown, roots)


def find_path(connection: Connection, keys: Keys, name: str) -> tuple[str, str]:
    """(path, '') of a supervisor, (its supervisor's path, id) of an agent; raises ``NoSuchAgent``."""
    check_id(name, "agent or supervisor")
    supervisor = Command(("SISMEMBER", keys.supervisors, name), int, hint=keys.supervisors)
    if connection.command(supervisor):
        return name, ""
    path = connection.command(
        Command(("HGET", keys.agent(name), "supervisor"), lambda reply: reply, hint=name)
    )
    if path is None:
        raise NoSuchAgent(f"no agent and no supervisor is named {name}; `regrow tree` shows them")
    return views.shown(path), name


def _is_top(path: str, only: str, known: Collection[str]) -> bool:
    """Whether no branch that is shown has it below itself."""
    return path == only or path.rpartition("/")[0] not in known


def read_supervisors(
    connection: Connection, keys: Keys, paths: Sequence[str]
) -> tuple[dict[str, SupervisorState], dict[str, str]]:
    """The supervisors' whole records by path, and why those cannot be read that cannot."""
    found: dict[str, SupervisorState] = {}
    unreadable: dict[str, str] = {}
    for path, record in read_records(connection, paths, [keys.supervisor(path) for path in paths]):
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
        large: Mapping[str, LargeBranch],
        agents: Mapping[str, tuple[dict[str, str], int | None, int | None]],
    ) -> None:
        self._now_ms = now_ms
        self._states = states
        self._unreadable = unreadable
        self._large = large
        self._agents = agents

    def branch(self, path: str, child: ChildState | None) -> Branch:
        """``child`` is what the parent's record says of it."""
        name = path.rpartition("/")[2]
        state = self._states.get(path)
        if path in self._large:
            return self._large_branch(self._large[path], child)
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

    def _large_branch(self, found: LargeBranch, child: ChildState | None) -> Branch:
        sums = Sums(found.children, found.statuses, found.types, found.backlog, found.dead)
        return Branch(
            path=found.path,
            name=found.path.rpartition("/")[2],
            strategy=found.fields.get("strategy", "?"),
            status=found.fields.get("status", "unknown"),
            incarnation=_number(found.fields.get("incarnation")),
            started_ms=_number(found.fields.get("started_ms")) if found.alive else 0,
            restarts=0 if child is None else child.restarts,
            reason=found.fields.get("reason", "") if child is None else child.reason,
            held=found.fields.get("held") == "1" if child is None else child.held,
            due_ms=_number(found.fields.get("due_ms")),
            budget=None if found.limits is None else self._budget(found.stamps, found.limits),
            children=[
                self.branch(f"{found.path}/{each.id}", each) if each.is_supervisor else self._leaf(each)
                for each in found.named.values()
            ],
            sums=sums if found.children > len(found.named) else None,
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
            pooled=record.get("isolation") == "pool",
            slot=record.get("worker", ""),
        )

    def _budget(self, stamps: Sequence[int], limits: Mapping[str, Any]) -> Budget:
        period = int(limits["max_seconds"])
        since = self._now_ms // 1000 - period
        return Budget(sum(1 for at in stamps if at >= since), int(limits["max_restarts"]), period)


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
