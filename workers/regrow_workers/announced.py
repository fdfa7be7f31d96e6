"""What a node announces of the agent types that it runs, and who could take a signal of which type. Pure.

A start goes to a node that can read the agent's stored schema; a signal that has no handler here is left to a node that
has one. So nobody needs to number the versions of code: what counts is what each node's code can do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from regrow_signals.errors import BadTypeName
from regrow_signals.routing import matches
from regrow_workers.agent import Agent

__all__ = ["LONGEST_TYPE", "AnnouncedType", "announce", "is_handled_by", "read_announced"]

LONGEST_TYPE: Final = 200
"""Characters of a signal's type that is left to others: the bound of types that regrow itself sends."""


@dataclass(frozen=True, slots=True)
class AnnouncedType:
    """One agent type of one node. ``handles`` are its handlers' patterns."""

    schema: int = 0
    handles: tuple[str, ...] = ()

    def knows(self, signal_type: str) -> bool:
        """Whether a handler there takes signals of this type; a pattern that is none fits nothing."""
        return any(_fits(pattern, signal_type) for pattern in self.handles)


def announce(agent_types: Mapping[str, type[Agent[Any]]]) -> dict[str, dict[str, Any]]:
    """By name and alias: a digest of the code for people, the state's schema, the handlers' patterns."""
    return {
        name: {
            "code": kind.definition.code,
            "schema": kind.definition.schema,
            "handles": [handler.pattern.text for handler in kind.definition.handlers],
        }
        for name, kind in agent_types.items()
    }


def read_announced(text: str) -> dict[str, AnnouncedType]:
    """Field ``types`` of a node's record; what cannot be read is left out, so that nothing is left to a guess."""
    try:
        value: Any = json.loads(text) if text else {}
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: _read(about) for name, about in cast("dict[str, Any]", value).items()}


def is_handled_by(records: Iterable[Mapping[str, str]], agent_type: str, signal_type: str) -> bool:
    """Whether a worker node that is up runs ``agent_type`` with a handler for ``signal_type``; hashes of nodes."""
    for record in records:
        if record.get("kind") == "worker" and record.get("status") == "up":
            about = read_announced(record.get("types", "")).get(agent_type)
            if about is not None and about.knows(signal_type):
                return True
    return False


def _read(about: Any) -> AnnouncedType:
    if not isinstance(about, dict):
        return AnnouncedType()
    fields = cast("dict[str, Any]", about)
    schema, handles = fields.get("schema", 0), fields.get("handles", [])
    return AnnouncedType(
        schema=schema if isinstance(schema, int) else 0,
        handles=tuple(map(str, cast("list[object]", handles))) if isinstance(handles, list) else (),
    )


def _fits(pattern: str, signal_type: str) -> bool:
    try:
        return matches(pattern, signal_type)
    except BadTypeName:
        return False
