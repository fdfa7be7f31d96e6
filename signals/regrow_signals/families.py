"""Parents, children and watchers in a commit: what their directives write (``lua/parts/children.lua``, ``monitors``).

A parent's children live under a supervisor of their own, beside the parent: ``children_path`` says where. ``Spawn``
registers the child and asks the watchdog for its start in the commit of the state; the watchdog makes the supervisor.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from regrow_signals.calls import Arg
from regrow_signals.commits import DirectiveAppend
from regrow_signals.creation import record_json
from regrow_signals.decisions import Register
from regrow_signals.keys import Keys

__all__ = [
    "ADOPT_OP",
    "MAX_CHILDREN",
    "MAX_MONITORS",
    "SPAWN_OP",
    "STOP_CHILD_OP",
    "AdoptAppend",
    "DemonitorAppend",
    "MonitorAppend",
    "ParentAppend",
    "SpawnAppend",
    "StopChildAppend",
    "children_path",
]

MAX_CHILDREN: Final = 10_000
"""Of one parent, at a time."""

MAX_MONITORS: Final = 1_000
"""Agents that watch one agent, at a time."""

SPAWN_OP: Final = "spawn"
STOP_CHILD_OP: Final = "stop_child"
ADOPT_OP: Final = "adopt"
"""The ``op`` of the requests that these directives leave for the watchdog."""

_SUFFIX: Final = ".children"
_ESCAPED: Final = str.maketrans({"@": "@@", ":": "@.", "/": ":"})


def children_path(supervisor: str, parent: str) -> str:
    """The path of a parent's own dynamic supervisor; ``supervisor`` is that of the parent itself.

    A supervisor's name holds no ``/``: ``boss/w-1`` becomes ``boss:w-1.children``, and no two agents share a name.
    """
    return f"{supervisor}/{parent.translate(_ESCAPED)}{_SUFFIX}"


@dataclass(frozen=True, slots=True)
class SpawnAppend(DirectiveAppend):
    """Register ``record`` with its parent and tag, and ask for its start. ``entry``: the signal that asks for it."""

    kind: ClassVar[str] = "spawn"
    entry: str
    record: Register
    spec: str
    request: str

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        del agent
        child = self.record.agent
        return (keys.agent(child), keys.mailbox(child), keys.dead(child), keys.exits, keys.agents)

    def words(self) -> Sequence[Arg]:
        new = self.record
        return (
            self.entry, new.tag, new.agent, new.supervisor, self.spec, self.request, record_json(new), MAX_CHILDREN
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AdoptAppend(DirectiveAppend):
    """Give ``child`` the tag, and ask the watchdog whether it is an orphan that can be had."""

    kind: ClassVar[str] = "adopt"
    entry: str
    child: str
    tag: str
    on_parent_death: str
    request: str

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        del agent
        return (keys.agent(self.child), keys.exits)

    def words(self) -> Sequence[Arg]:
        return (self.entry, self.child, self.tag, self.on_parent_death, self.request, MAX_CHILDREN)


@dataclass(frozen=True, slots=True)
class StopChildAppend(DirectiveAppend):
    """Ask for the end of the child that has ``tag``; of a tag that no child has, nothing comes."""

    kind: ClassVar[str] = "stop_child"
    tag: str
    reason: str
    request: str

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        del agent
        return (keys.exits,)

    def words(self) -> Sequence[Arg]:
        return (self.tag, self.reason, self.request)


@dataclass(frozen=True, slots=True)
class ParentAppend(DirectiveAppend):
    """The agent has this parent from here on, which knows it by ``tag``; empty: none."""

    kind: ClassVar[str] = "parent"
    parent: str
    tag: str = ""

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        del keys, agent
        return ()

    def words(self) -> Sequence[Arg]:
        return (self.parent, self.tag)


@dataclass(frozen=True, slots=True)
class MonitorAppend(DirectiveAppend):
    """Tell us of the end of ``watched``'s life by a notice; ``nothing`` is its data where there is no life."""

    kind: ClassVar[str] = "monitor"
    entry: str
    watched: str
    notice: str
    type: str
    nothing: Mapping[str, Any]

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        return (keys.agent(self.watched), keys.mailbox(agent), keys.dead(agent))

    def words(self) -> Sequence[Arg]:
        return (self.entry, self.watched, self.notice, self.type, json.dumps(self.nothing), MAX_MONITORS)


@dataclass(frozen=True, slots=True)
class DemonitorAppend(DirectiveAppend):
    """Watch ``watched`` no more."""

    kind: ClassVar[str] = "demonitor"
    watched: str

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        del agent
        return (keys.agent(self.watched),)

    def words(self) -> Sequence[Arg]:
        return ()
