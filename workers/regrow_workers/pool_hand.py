"""What a slot has in hand, as it notes it in shared memory for its node: agent, incarnation, longest transition."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["InHand"]


@dataclass(frozen=True, slots=True)
class InHand:
    """The agent for whom a slot works. ``deadline_ms``: -1 for ever, None: the setting's."""

    agent: str
    incarnation: int
    deadline_ms: int | None = None

    def to_text(self) -> str:
        """ASCII: ids are."""
        deadline = "" if self.deadline_ms is None else self.deadline_ms
        return f"{self.incarnation}:{deadline}:{self.agent}"

    @classmethod
    def from_text(cls, text: str) -> InHand | None:
        """None where nothing, or nothing whole, was noted."""
        incarnation, _, rest = text.partition(":")
        deadline, colon, agent = rest.partition(":")
        if not (colon and agent and incarnation.isdecimal()):
            return None
        return cls(agent, int(incarnation), int(deadline) if deadline.lstrip("-").isdecimal() else None)

    def deadline(self, default: float) -> float:
        """In seconds."""
        if self.deadline_ms is None:
            return default
        return math.inf if self.deadline_ms < 0 else self.deadline_ms / 1000
