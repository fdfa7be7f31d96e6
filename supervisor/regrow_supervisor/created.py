"""What becomes of an agent that a ``send`` or a ``Spawn`` registered and whose start failed: pure.

Nobody waits for the answer to such a request. So the agent stays registered with its mailbox, and its record and an
event say why nobody runs it. ``about(agent)`` stands in for a request's id all the way through queue and decision: it
holds a space, which no id does, so it is told from every other one, by the next leader too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from regrow_signals.leadership import AgentUpdate

__all__ = ["NotStarted", "about", "split_answers"]

_MARK: Final = "create "


def about(agent: str) -> str:
    """In place of the id of the request to start this agent."""
    return _MARK + agent


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The watchdog could not start it."""

    agent: str
    reason: str

    def update(self) -> AgentUpdate:
        """What its record says from now on."""
        return AgentUpdate(
            agent=self.agent, fields={"status": "registered", "last_error": f"not started: {self.reason}"}
        )

    def event(self, path: str) -> dict[str, str]:
        """For ``{ns}:events``."""
        return {"event": "not_started", "agent": self.agent, "supervisor": path, "reason": self.reason[:300]}


def split_answers(
    answers: Iterable[tuple[str, str]],
) -> tuple[list[tuple[str, str]], list[NotStarted]]:
    """(request, JSON) of decisions, as those that somebody waits for and the starts that failed."""
    awaited: list[tuple[str, str]] = []
    failed: list[NotStarted] = []
    for request, text in answers:
        if not request:
            continue
        if not request.startswith(_MARK):
            awaited.append((request, text))
            continue
        answer = json.loads(text)
        if "error" in answer:
            failed.append(
                NotStarted(request.removeprefix(_MARK), _reason(answer["error"], answer["message"]))
            )
    return awaited, failed


def _reason(code: str, message: str) -> str:
    return code if message == code.replace("_", " ") else f"{code}: {message}"
