"""Signals that regrow itself sends about lives of agents. They reach only agents whose type has a handler for them.

A handler asks by a pattern that begins with ``agent.``: ``@handles(ChildExit)``, ``@handles("agent.child.*")``. One for
``**`` alone asks for none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import ConfigDict

from regrow_signals.signal import Payload

if TYPE_CHECKING:
    from regrow_workers.definition import Definition

__all__ = [
    "LIFECYCLE",
    "AgentAdopted",
    "AgentCreated",
    "AgentDown",
    "AgentOrphaned",
    "AgentRestarted",
    "ChildExit",
    "ChildStarted",
    "wanted",
]


class _Notice(Payload):
    # What a later version of regrow adds must not make it unreadable here.
    model_config = ConfigDict(frozen=True, extra="ignore")


class AgentCreated(_Notice, type="agent.created"):
    """To the agent itself, once for each registration, before everything else in its mailbox."""

    id: str
    parent: str | None = None


class AgentRestarted(_Notice, type="agent.restarted"):
    """To the agent itself after a restart by its supervisor, behind the signals that wait already."""

    id: str
    incarnation: int
    restarts: int
    reason: str


class ChildStarted(_Notice, type="agent.child.started"):
    """To the parent: a life of a spawned child has begun, the first one or a later one."""

    tag: str
    id: str
    incarnation: int


class ChildExit(_Notice, type="agent.child.exit"):
    """To the parent: a life of a spawned child is over. Without ``will_restart`` its tag is free again.

    (A parked child is the exception: its supervisor gave it up, ``Spawn`` or ``regrow revive`` bring it back.)
    """

    tag: str
    id: str
    incarnation: int
    reason: str
    will_restart: bool


class AgentOrphaned(_Notice, type="agent.orphaned"):
    """To a child spawned with ``on_parent_death="orphan"``: its parent ended for good; ``ctx.parent`` is None now."""

    id: str
    parent: str


class AgentAdopted(_Notice, type="agent.adopted"):
    """To an orphan that an agent has adopted: ``parent`` is its parent now, and knows it by ``tag``."""

    id: str
    parent: str
    tag: str


class AgentDown(_Notice, type="agent.down"):
    """To whoever asked by ``Monitor``: the life is over, or (``reason="noproc"``) there was none to watch."""

    id: str
    reason: str


LIFECYCLE: Final[tuple[type[Payload], ...]] = (
    AgentCreated,
    AgentRestarted,
    ChildStarted,
    ChildExit,
    AgentOrphaned,
    AgentAdopted,
    AgentDown,
)


def wanted(definition: Definition) -> list[str]:
    """The types of these signals that a handler asks for by name; part of the child's stored form."""
    found: list[str] = []
    for payload in LIFECYCLE:
        handler = definition.routes.best(payload.signal_type)
        if handler is not None and handler.pattern.segments[0] == "agent":
            found.append(payload.signal_type)
    return found
