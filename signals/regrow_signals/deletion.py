"""Forgetting an agent for good: its record, mailbox, outbox, dead letters, journal, remembered ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from regrow_signals.answers import answer
from regrow_signals.calls import Call, Command, Op
from regrow_signals.errors import NoSuchAgent
from regrow_signals.ids import check_id
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.scripts import declare

__all__ = ["Deleted", "delete_agent"]

DELETE_AGENT: Final = declare(
    "delete_agent",
    keys=[
        "agent", "mailbox", "outbox", "dead", "journal", "seen", "seen_old", "fate", "supervisor", "agents", "held",
        "events",
    ],
    args=["agent_id", "birth", "path", "force", "max_events"],
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Deleted:
    """What went with the agent."""

    signals: int
    dead_letters: int
    outbox: int
    children: tuple[str, ...] = ()
    """Agents that it had spawned and that live on: those with ``on_parent_death="continue"``."""


def delete_agent(keys: Keys, limits: Limits, agent: str, *, force: bool = False) -> Op[Deleted]:
    """Delete an agent that is on no supervisor's record any more (``terminate_child``, ``delete_child``).

    ``Refused`` while it is, while a process of it may live, and (without ``force``) while it has signals, dead letters,
    effects or held emits. Fenced by the registration's birth: one that was made anew meanwhile stays.
    """
    words = ("HMGET", keys.agent(check_id(agent, "agent")), "birth", "supervisor")
    birth, path = yield Command(words, list, hint=agent)
    if birth is None and path is None:
        raise NoSuchAgent(f"no agent {agent} is registered")
    fields: list[Any] = yield Command(("HKEYS", keys.agent(agent)), list, hint=agent)
    tags = [str(name) for name in fields if str(name).startswith("child:")]
    found: list[Any] = []
    if tags:
        found = yield Command(("HMGET", keys.agent(agent), *tags), list, hint=agent)
    deleted: Deleted = yield _delete(keys, limits, agent, str(birth or ""), str(path or ""), force=force)
    return replace(deleted, children=tuple(sorted(str(child) for child in found if child is not None)))


def _delete(keys: Keys, limits: Limits, agent: str, birth: str, path: str, *, force: bool) -> Call[Deleted]:
    names = (
        keys.agent(agent), keys.mailbox(agent), keys.outbox(agent), keys.dead(agent), keys.journal(agent),
        keys.seen(agent), keys.seen_old(agent), keys.fate(agent), keys.supervisor(path or agent), keys.agents,
        keys.held, keys.events,
    )  # fmt: skip
    args = (agent, birth, path, int(force), limits.max_events)

    def parse(reply: Any) -> Deleted:
        _, signals, letters, outbox = answer(reply, agent)
        return Deleted(int(signals), int(letters), int(outbox))

    return Call(DELETE_AGENT, names, args, parse, hint=agent)
