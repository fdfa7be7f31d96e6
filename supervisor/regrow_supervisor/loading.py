"""Everything that a leader must know, read from Redis: at a takeover, and after any doubt.

A record that cannot be read is noted with its reason and left as it is: it never stops the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import RegrowError
from regrow_signals.keys import Keys
from regrow_signals.replies import pairs
from regrow_supervisor.codec import from_fields
from regrow_supervisor.commit_plan import TREES_FIELD
from regrow_supervisor.events import Event, Exited, KillSupervisor
from regrow_supervisor.leader_view import AgentView, LeaderView
from regrow_supervisor.placement import node_from_record
from regrow_supervisor.restart_types import left_signal_type

__all__ = [
    "doubts",
    "load_agents",
    "load_nodes",
    "load_schemas",
    "load_view",
    "read_records",
    "run_id_command",
]

_AT_ONCE: Final = 500
_LARGE: Final = 4_000
"""Fields of a hash that is not read at one stroke: the server would be held for it."""

_AGENT_FIELDS: Final = (
    "supervisor",
    "incarnation",
    "node",
    "schema",
    "exit_reason",
    "schedules",
    "isolation",
)


def load_view(connection: Connection, keys: Keys, also: Sequence[str] = ()) -> LeaderView:
    """The whole view; raises a StoreError when Redis cannot be asked.

    ``also``: roots that are looked for though the set of supervisors may not name them.
    """
    view = LeaderView()
    paths = {*also, *connection.command(Command(("SMEMBERS", keys.supervisors), _texts))}
    while paths:
        listed = sorted(paths)
        for path, record in read_records(connection, listed, [keys.supervisor(path) for path in listed]):
            _take_supervisor(view, path, record)
        # A branch that the set does not name (any more) is named by its parent.
        paths = {
            f"{path}/{child.id}"
            for path in listed
            if path in view.states
            for child in view.states[path].children.values()
            if child.is_supervisor and child.incarnation
        }
        paths -= view.states.keys() | view.unreadable.keys()
    for path, state in view.states.items():
        if state.is_dynamic:
            for child in state.children.values():
                view.note_idler(path, child)
    load_nodes(connection, keys, view)
    load_agents(connection, keys, view, _registered(connection, keys))
    for agent, known in view.agents.items():
        found = view.child_of(agent)
        view.pooled = view.pooled or (found is not None and found[1].pooled)
        if found is not None and not found[1].alive and found[1].incarnation < known.incarnation:
            # A number is never used twice, whatever was done to the supervisor's record.
            view.states[found[0]].children[agent] = found[1].but(incarnation=known.incarnation)
        if found is None or not found[1].alive or found[1].incarnation != known.incarnation:
            known.node = ""
        elif known.node:
            view.load[known.node] += 1
    view.look_at_schedules()
    return view


def load_nodes(
    connection: Connection, keys: Keys, view: LeaderView, nodes: Sequence[str] | None = None
) -> None:
    """The records of ``nodes`` (None: of all); one that is gone leaves the view."""
    if nodes is None:
        nodes = connection.command(Command(("ZRANGE", keys.nodes, 0, -1), _texts))
    for node, record in read_records(connection, nodes, [keys.node(node) for node in nodes]):
        if isinstance(record, dict) and record:
            view.nodes[node] = node_from_record(node, record)
        else:
            view.nodes.pop(node, None)


def load_agents(connection: Connection, keys: Keys, view: LeaderView, agents: Sequence[str]) -> None:
    """Where these agents stand; one that is not registered, or unreadable, is left out."""
    for some in _chunks(agents):
        commands = [Command(("HMGET", keys.agent(agent), *_AGENT_FIELDS), _maybe_texts) for agent in some]
        for agent, answer in zip(some, connection.pipeline(commands), strict=True):
            if isinstance(answer, RegrowError):
                continue
            path, incarnation, node, schema, reason, schedules, isolation = cast("list[str | None]", answer)
            if incarnation is None or not incarnation.isdigit():
                continue
            view.agents[agent] = AgentView(
                path=path or "",
                incarnation=int(incarnation),
                node="" if isolation == "pool" else node or "",
                schema=_number(schema),
                left_for=left_signal_type(reason or ""),
                schedules=schedules or "",
            )
            if view.agents[agent].node:
                view.housed[agent] = None


def load_schemas(connection: Connection, keys: Keys, view: LeaderView, agents: Sequence[str]) -> None:
    """Of what schema these agents' states are by now: nobody reports the end of a lost life."""
    for some in _chunks(agents):
        commands = [Command(("HMGET", keys.agent(agent), "schema"), _maybe_texts) for agent in some]
        for agent, answer in zip(some, connection.pipeline(commands), strict=True):
            if isinstance(answer, list) and agent in view.agents:
                view.agents[agent].note_end("", _number(cast("list[str | None]", answer)[0]))


def doubts(view: LeaderView) -> list[Event]:
    """What must be mended after a load: branches without a readable record, lives that Redis knows nothing of."""
    found: list[Event] = []
    for path, why in sorted(view.unreadable.items()):
        parent = path.rpartition("/")[0]
        if parent in view.states:
            found.append(_end_of_branch(view, path, why))
    for path, state in sorted(view.states.items()):
        for child in state.children.values():
            if child.is_supervisor or not child.alive:
                continue
            known = view.agents.get(child.id)
            if known is not None and known.path == path and known.incarnation > child.incarnation:
                why = f"agent {child.id} is at incarnation {known.incarnation}, on record is {child.incarnation}"
                found.append(_end_of_branch(view, path, why))
                break
            if known is None or known.incarnation != child.incarnation or known.path != path:
                found.append(
                    Exited(
                        path=path, child=child.id, incarnation=child.incarnation, reason="lost", charged=False
                    )
                )
    return found


def _end_of_branch(view: LeaderView, path: str, why: str) -> KillSupervisor:
    """The supervisor crashed; with the last incarnation of each agent of its branch."""
    numbers = {
        agent: known.incarnation
        for agent, known in view.agents.items()
        if known.path == path or known.path.startswith(f"{path}/")
    }
    return KillSupervisor(path=path, reason=f"corrupt_record:{why}"[:300], incarnations=numbers)


def run_id_command() -> Command[str]:
    """Names the server's life: another one means that it was restarted, or is another server."""
    return Command(("INFO", "server"), _run_id)


def _take_supervisor(view: LeaderView, path: str, record: dict[str, str] | RegrowError) -> None:
    if isinstance(record, RegrowError):
        view.unreadable[path] = str(record)
        return
    if not record:
        # Of a root nothing is left that could be spoiled: its tree may be handed in anew.
        if "/" in path:
            view.unreadable[path] = "the record is gone"
        return
    try:
        state = from_fields(record)
        state.version = int(record.get("version", "0"))
        trees = cast("list[Any]", json.loads(record.get(TREES_FIELD, "[]")))
        digests = tuple(str(digest) for digest in trees)
    except (RegrowError, ValueError, TypeError, LookupError, AttributeError) as error:
        view.unreadable[path] = f"{type(error).__name__}: {error}"[:300]
        version = record.get("version", "0")
        if version.isascii() and version.isdigit():
            view.junk[path] = (int(version), tuple(record))
        return
    if state.path != path:
        view.unreadable[path] = f"the record says path={state.path!r:.80}"
        return
    view.states[path] = state
    if digests:
        view.trees[path] = digests


def _registered(connection: Connection, keys: Keys) -> list[str]:
    """Every agent, by as many steps as it takes; who is there all the while is found."""
    found: dict[str, None] = {}
    cursor = "0"
    while True:
        words = ("ZSCAN", keys.agents, cursor, "COUNT", _AT_ONCE)
        cursor, flat = connection.command(Command(words, _page, hint=keys.agents))
        found.update(dict.fromkeys(flat[::2]))
        if cursor == "0":
            return sorted(found)


def _page(reply: Any) -> tuple[str, list[str]]:
    cursor, items = cast("list[Any]", reply)
    return _text(cursor), _texts(items)


def read_records(
    connection: Connection, names: Sequence[str], keys: Sequence[str]
) -> Iterator[tuple[str, dict[str, str] | RegrowError]]:
    """Each with its name, in this order; what it could not be read for stands in its place."""
    pairs_of_both = list(zip(names, keys, strict=True))
    for some in _chunks(pairs_of_both):
        lengths = connection.pipeline([Command(("HLEN", key), int) for _, key in some])
        large = {key for (_, key), length in zip(some, lengths, strict=True) if _is_large(length)}
        small = [key for _, key in some if key not in large]
        answers = dict(
            zip(
                small, connection.pipeline([Command(("HGETALL", key), _record) for key in small]), strict=True
            )
        )
        for name, key in some:
            yield name, _in_steps(connection, key) if key in large else answers[key]


def _is_large(length: object) -> bool:
    return isinstance(length, int) and length > _LARGE


def _in_steps(connection: Connection, key: str) -> dict[str, str]:
    """A large hash, as it stood at one version: a commit of ours whose fate is unknown may land in the midst of it."""
    version = Command(("HGET", key, "version"), lambda reply: "" if reply is None else _text(reply))
    while True:
        before, record, cursor = connection.command(version), dict[str, str](), "0"
        while True:
            cursor, flat = connection.command(
                Command(("HSCAN", key, cursor, "COUNT", _AT_ONCE), _page, hint=key)
            )
            record.update(pairs(flat))
            if cursor == "0":
                break
        if connection.command(version) == before:
            return record


def _chunks(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


def _texts(reply: Any) -> list[str]:
    return [_text(item) for item in cast("list[Any]", reply)]


def _maybe_texts(reply: Any) -> list[str | None]:
    return [None if item is None else _text(item) for item in cast("list[Any]", reply)]


def _record(reply: Any) -> dict[str, str]:
    return pairs(_texts(reply))


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


def _text(item: Any) -> str:
    return item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else str(item)


def _run_id(reply: Any) -> str:
    for line in _text(reply).splitlines():
        if line.startswith("run_id:"):
            return line.removeprefix("run_id:")
    return ""
