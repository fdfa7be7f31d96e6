"""Notices: signals that regrow itself puts into a mailbox, in the step of whatever they tell of. Pure.

Their mailbox entries have a field ``notice``, which nothing that is sent or emitted has. They have room of their own
above ``max_mailbox``; past that room they are dropped, which is an event.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from regrow_signals.ids import check_id
from regrow_signals.signal import NOTICE

__all__ = [
    "ADOPTED", "CREATED", "NOTICE", "ORPHANED", "SOURCE", "Bound", "Notice", "bound_by", "created_notice",
    "parent_after",
]  # fmt: skip

SOURCE: Final = "regrow"
CREATED: Final = "agent.created"
ORPHANED: Final = "agent.orphaned"
ADOPTED: Final = "agent.adopted"


@dataclass(frozen=True, slots=True)
class Notice:
    """One signal to ``agent``; ``id`` is the same however often the step that it tells of is tried."""

    agent: str
    id: str
    type: str
    data: Mapping[str, Any]

    def fields(self) -> dict[str, str]:
        """The mailbox entry's, without ``at_ms``."""
        text = json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))
        return {"id": self.id, "type": self.type, "source": SOURCE, "data": text, NOTICE: "1"}


def created_notice(agent: str, birth: str, parent: str) -> Notice:
    """The first thing in a new agent's mailbox."""
    return Notice(agent, f"{birth}:created", CREATED, {"id": agent, "parent": parent or None})


class Bound(NamedTuple):
    """Whom an agent has as its parent, and by which tag that one knows it; an empty parent: nobody."""

    parent: str
    tag: str = ""


def bound_by(fields: Mapping[str, str | bytes]) -> Bound | None:
    """What an agent's parent is once it has taken this entry; None: the entry changes nothing."""
    if fields.get(NOTICE) != "1":
        return None
    kind = fields.get("type")
    if kind == ORPHANED:
        return Bound("")
    return _adopted(fields.get("data", "")) if kind == ADOPTED else None


def parent_after(fields: Mapping[str, str | bytes]) -> str | None:
    """The same, of the parent alone."""
    bound = bound_by(fields)
    return None if bound is None else bound.parent


def _adopted(data: str | bytes) -> Bound | None:
    """None for what somebody wrote by hand."""
    try:
        told: Any = json.loads(data)
        return Bound(check_id(told["parent"], "parent"), check_id(told["tag"], "tag"))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
