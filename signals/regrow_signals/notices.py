"""Notices: signals that regrow itself puts into a mailbox, in the step of whatever they tell of. Pure.

Their mailbox entries have a field ``notice``, which nothing that is sent or emitted has. They have room of their own
above ``max_mailbox``; past that room they are dropped, which is an event.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from regrow_signals.signal import NOTICE

__all__ = ["CREATED", "NOTICE", "ORPHANED", "SOURCE", "Notice", "created_notice", "parent_after"]

SOURCE: Final = "regrow"
CREATED: Final = "agent.created"
ORPHANED: Final = "agent.orphaned"


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


def parent_after(fields: Mapping[str, str | bytes]) -> str | None:
    """Whom an agent has as its parent once it has taken this entry (empty: nobody); None: the entry changes nothing."""
    return "" if fields.get(NOTICE) == "1" and fields.get("type") == ORPHANED else None
