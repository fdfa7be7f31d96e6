"""Held emits: their targets were full when they were committed; a relay of any node delivers them in order."""

from __future__ import annotations

from typing import Any, Final, cast

from regrow_signals.answers import answer
from regrow_signals.calls import Call, Command
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.scripts import declare

__all__ = ["deliver_held", "held_agents"]

MOST: Final = 100
"""Held emits that one call settles at most."""

DELIVER_HELD: Final = declare(
    "deliver_held",
    keys=["agent", "outbox", "dead", "fate", "counters", "events", "held"],
    args=["agent_id", "prefix", "held_timeout_ms", "max_mailbox", "max_dead", "max_events", "most"],
)


def deliver_held(keys: Keys, limits: Limits, sender: str, now_limit: int = MOST) -> Call[int]:
    """Deliver up to ``now_limit`` held emits of ``sender``, in order for each target; the value is how many.

    A full target keeps its own, others go on. Held longer than ``held_timeout_ms`` while the target is full, or for a
    target that is gone: the sender's dead letter. One script, so a repeat after an unknown fate delivers nothing twice.
    """
    names = (
        keys.agent(sender), keys.outbox(sender), keys.dead(sender), keys.fate(sender), keys.counters, keys.events,
        keys.held,
    )  # fmt: skip
    args = (
        sender, f"{keys.tag}:", limits.held_timeout_ms, limits.max_mailbox, limits.max_dead, limits.max_events,
        min(now_limit, MOST),
    )  # fmt: skip
    return Call(
        DELIVER_HELD,
        names,
        args,
        lambda reply: int(answer(reply, sender)[1]),
        repeatable=True,
        hint=sender,
    )


def held_agents(keys: Keys, most: int = 1000) -> Command[list[str]]:
    """Senders with held emits, the one that has waited longest first."""
    return Command(("ZRANGE", keys.held, 0, most - 1), _names, hint="held")


def _names(reply: Any) -> list[str]:
    return [str(name) for name in cast("list[Any]", reply)]
