"""Supervisors with so many children that nobody reads their records whole: own fields, sums, a few children by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.census import Census, Seen, take_census
from regrow_signals.connection import Connection
from regrow_signals.errors import CorruptKey
from regrow_signals.keys import Keys
from regrow_supervisor.codec import child_from_texts
from regrow_supervisor.states import ALIVE, ChildState

__all__ = ["LargeBranch", "children_reasons", "read_large"]

_OWN: Final = (
    "status", "strategy", "incarnation", "started_ms", "reason", "held", "due_ms", "stamps",
)  # fmt: skip
_OWN_FIELDS: Final = 20
"""Fields that every record has besides those of its children, about."""

_LONGEST_DEFINITION: Final = 65_536
"""Characters of a definition that is read for the restart limits in it."""


@dataclass(slots=True, kw_only=True)
class LargeBranch:
    """One supervisor. ``named``: those of its children that are shown: supervisors, agents that want attention."""

    path: str
    fields: Mapping[str, str]
    limits: Mapping[str, Any] | None = None
    stamps: Sequence[int] = ()
    children: int = 0
    named: dict[str, ChildState] = field(default_factory=dict[str, ChildState])
    statuses: dict[str, int] = field(default_factory=dict[str, int])
    types: dict[str, int] = field(default_factory=dict[str, int])
    backlog: int = 0
    dead: int = 0

    @property
    def alive(self) -> bool:
        return self.fields.get("status") in ALIVE


def read_large(
    connection: Connection, keys: Keys, paths: Sequence[str], listed: int, agent: str = ""
) -> dict[str, LargeBranch]:
    """Of ``paths``, those with more than ``listed`` children. ``agent``: no sums, this one alone is named."""
    lengths = connection.pipeline(
        [Command(("HLEN", keys.supervisor(path)), int, hint=path) for path in paths]
    )
    most = 0 if agent else 2 * listed + _OWN_FIELDS
    large = [
        path for path, length in zip(paths, lengths, strict=True) if isinstance(length, int) and length > most
    ]
    if not large:
        return {}
    found = {path: _own(connection, keys, path) for path in large}
    if agent:
        for branch in found.values():
            branch.named = _children(connection, keys, branch.path, [agent])
            branch.children = len(branch.named)
        return found
    census = connection.run(take_census(keys))
    below = {path: [each for each in paths if each.rpartition("/")[0] == path] for path in large}
    for path, branch in found.items():
        _count(branch, census)
        names = [each.rpartition("/")[2] for each in below[path][:listed]]
        names += [
            seen.agent
            for seen in (*census.down, *census.lettered, *census.busiest)
            if seen.supervisor == path
        ]
        branch.named = _children(connection, keys, path, list(dict.fromkeys(names)))
        branch.children = max(branch.children + len(below[path]), len(branch.named))
    return found


def children_reasons(connection: Connection, keys: Keys, agents: Sequence[Seen]) -> dict[str, str]:
    """Why each of them does not run, by its supervisor's record; left out where there is none."""
    commands = [
        Command(("HGET", keys.supervisor(seen.supervisor), f"child:{seen.agent}"), _json, hint=seen.agent)
        for seen in agents
    ]
    found: dict[str, str] = {}
    for seen, child in zip(agents, connection.pipeline(commands), strict=True):
        if isinstance(child, dict):
            found[seen.agent] = str(cast("dict[str, Any]", child).get("reason", ""))
    return found


def _count(branch: LargeBranch, census: Census) -> None:
    for group, tally in census.groups.items():
        if group.supervisor == branch.path:
            branch.children += tally.agents
            branch.statuses[group.status] = branch.statuses.get(group.status, 0) + tally.agents
            branch.types[group.type] = branch.types.get(group.type, 0) + tally.agents
            branch.backlog += tally.backlog
            branch.dead += tally.dead


def _own(connection: Connection, keys: Keys, path: str) -> LargeBranch:
    key = keys.supervisor(path)
    values, length = connection.pipeline(
        [
            Command(("HMGET", key, *_OWN), list, hint=path),
            Command(("HSTRLEN", key, "definition"), int, hint=path),
        ]
    )
    texts = {name: views.shown(value) for name, value in zip(_OWN, values, strict=True) if value is not None}
    branch = LargeBranch(path=path, fields=texts)
    if length < _LONGEST_DEFINITION:
        definition = connection.command(Command(("HGET", key, "definition"), _json, hint=path))
        if isinstance(definition, dict) and {"max_restarts", "max_seconds"} <= cast("Any", definition).keys():
            branch.limits = cast("dict[str, Any]", definition)
    stamps = _json(texts.get("stamps"))
    if isinstance(stamps, list):
        branch.stamps = [stamp for stamp in cast("list[object]", stamps) if isinstance(stamp, int)]
    return branch


def _children(connection: Connection, keys: Keys, path: str, names: Sequence[str]) -> dict[str, ChildState]:
    """Those of them that are on the supervisor's record, and can be read."""
    commands = [
        Command(("HMGET", keys.supervisor(path), f"child:{name}", f"spec:{name}"), list, hint=path)
        for name in names
    ]
    found: dict[str, ChildState] = {}
    for name, texts in zip(names, connection.pipeline(commands), strict=True):
        if not isinstance(texts, list) or None in texts:
            continue
        try:
            found[name] = child_from_texts(path, name, *map(str, cast("list[object]", texts)))
        except CorruptKey:
            continue  # the watchdog says so, and so does the whole record's reader
    return found


def _json(text: object) -> object:
    try:
        return json.loads(str(text)) if text is not None else None
    except ValueError:
        return None
