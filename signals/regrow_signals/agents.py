"""An agent's life in one process: claim, reload, note what is tried, release. ``commits.py`` has the commit.

Every step but the claim is fenced by equality of incarnation and token; only the claim writes ``owner``. All may be
repeated: a repeat is told from a first call by what it would have written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from regrow_signals.answers import answer, cut, entry_id, nothing
from regrow_signals.calls import Call
from regrow_signals.commits import (
    COMMIT,
    Append,
    Commit,
    CommitReply,
    DeadAppend,
    EffectAppend,
    EmitAppend,
    JournalAppend,
    Owner,
    commit,
    newer,
)
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.scripts import declare

__all__ = [
    "CLAIM",
    "COMMIT",
    "RELEASE",
    "RELOAD",
    "TRYING",
    "FIRST",
    "Owner",
    "Loaded",
    "claim",
    "loaded_parser",
    "reload",
    "announce",
    "is_careful",
    "is_charged_later",
    "mark_trying",
    "release",
    "unblocked",
    "Append",
    "EmitAppend",
    "EffectAppend",
    "DeadAppend",
    "JournalAppend",
    "Commit",
    "CommitReply",
    "commit",
]

CLAIM: Final = declare(
    "claim",
    keys=["agent", "mailbox", "exits", "counters", "events"],
    args=["agent_id", "incarnation", "token", "node", "pid", "max_events", "recycled"],
)
RELOAD: Final = declare("reload", keys=["agent"], args=["incarnation", "token"])
TRYING: Final = declare(
    "trying", keys=["agent", "mailbox"], args=["incarnation", "token", "entry", "attempts", "kills"]
)
RELEASE: Final = declare("release", keys=["agent"], args=["incarnation", "token", "reason"])
UNBLOCKED: Final = declare("unblocked", keys=["agent", "outbox"], args=["incarnation", "token"])

FIRST: Final = "0-0"
"""``rewound`` before any postponed signal was looked at again."""

Condemned = Literal["", "attempts", "kills"]


@dataclass(slots=True)
class Loaded:
    """What a worker needs of its agent to go on from the last commit.

    Nobody changes one; not frozen: one is made for every claim and every batch, and that would take twice as long.
    """

    agent: str
    type: str
    birth: str
    state: str
    """JSON; empty while the agent has none yet."""
    schema: int
    version: int
    cursor: str
    careful_until: str
    """Up to this entry signals are taken one by one, each noted by ``mark_trying`` first; empty: no need."""
    trying_entry: str
    trying_attempts: int
    """Charged so far; the last end's charge is in it."""
    trying_kills: int
    condemned: Condemned
    """Which bound ``trying_entry`` has reached: it is dead-lettered, not tried again."""
    init: str
    max_attempts: int
    max_kills: int
    blocked: bool
    supervisor: str
    own_text: bool = False
    """``state`` was written by this very process: another's may lack fields that have a default by now."""
    max_state: int | None = None
    """Largest state in bytes; None: the limit's."""
    guard: str = ""
    """What an impure handler meets; empty: as its type says, or the process."""
    parent: str = ""
    """The agent that spawned it; empty: none."""
    last_end: str = ""
    """Reason with which the life before ended."""
    max_mailbox: int = Limits().max_mailbox
    """Signals that may wait for it."""
    postponed: int = 0
    """How many wait in the mailbox, before the cursor, for another mode."""
    rewound: str = ""
    """While they are looked at again: after which entry the look goes on. Empty: signals come after the cursor."""


def claim(keys: Keys, limits: Limits, owner: Owner, *, pid: int, recycled: str = "") -> Call[Loaded]:
    """Become the owner. Raises ``Fenced`` unless the incarnation is the ordered one, not ended, and free.

    The charge of the last end goes to the signal that was tried; after an end without release the mailbox's last id
    bounds the careful time, and the signal that will be tried first is noted already. The watchdog hears of the start
    in the same step. Claimed by another process of the same life, it only goes on: ``recycled`` says why the one before
    gave way, for the counter.
    """
    names = (
        keys.agent(owner.agent),
        keys.mailbox(owner.agent),
        keys.exits,
        keys.counters,
        keys.events,
    )
    args = (owner.agent, owner.incarnation, owner.token, owner.node, pid, limits.max_events, recycled)
    return Call(CLAIM, names, args, loaded_parser(owner.agent, limits), repeatable=True, hint=owner.agent)


def reload(keys: Keys, owner: Owner, limits: Limits | None = None) -> Call[Loaded]:
    """Read the agent again as its owner: after a reconnect, and after a conflict. Raises ``Fenced``."""
    parse = loaded_parser(owner.agent, limits or Limits())
    return Call(
        RELOAD,
        (keys.agent(owner.agent),),
        (owner.incarnation, owner.token),
        parse,
        repeatable=True,
        hint=owner.agent,
    )


def mark_trying(keys: Keys, owner: Owner, entry: str, attempts: int, kills: int) -> Call[None]:
    """Note the signal that is about to be tried, with what it was charged so far; from then on it gives way to none.

    Raises ``Fenced``; ``Conflict`` when it is not in the mailbox any more.
    """
    args = (owner.incarnation, owner.token, entry_id(entry, "entry"), attempts, kills)
    return Call(
        TRYING,
        (keys.agent(owner.agent), keys.mailbox(owner.agent)),
        args,
        nothing(owner.agent),
        repeatable=True,
        hint=owner.agent,
    )


def release(keys: Keys, owner: Owner, *, reason: str) -> Call[None]:
    """End cleanly, with nothing in hand: the next life need not be careful. Raises ``Fenced``."""
    args = (owner.incarnation, owner.token, cut(reason, 500))
    return Call(
        RELEASE,
        (keys.agent(owner.agent),),
        args,
        nothing(owner.agent),
        repeatable=True,
        hint=owner.agent,
    )


def unblocked(keys: Keys, owner: Owner) -> Call[bool]:
    """Is the outbox within its bound again, so that signals may be taken? Raises ``Fenced``."""
    names = (keys.agent(owner.agent), keys.outbox(owner.agent))
    args = (owner.incarnation, owner.token)
    return Call(
        UNBLOCKED,
        names,
        args,
        lambda reply: answer(reply, owner.agent)[1] == "1",
        repeatable=True,
        hint=owner.agent,
    )


def loaded_parser(agent: str, limits: Limits) -> Callable[[Any], Loaded]:
    """Reads the reply ``ok`` with the fields of ``parts/loaded.lua``."""

    def parse(reply: Any) -> Loaded:
        found = answer(reply, agent)[1:]
        kind, birth, state, schema, version, cursor, careful, trying, init = found[:9]
        most_attempts, most_kills, blocked, supervisor, max_state, guard, parent, last_end = found[9:17]
        max_mailbox, postponed, rewound = found[17:]
        entry, attempts, kills = trying.split(" ") if trying else ("", "0", "0")
        max_attempts = int(most_attempts or limits.max_attempts)
        max_kills = int(most_kills or limits.max_kills)
        return Loaded(
            agent=agent,
            type=kind,
            birth=birth,
            state=state,
            schema=int(schema),
            version=int(version),
            cursor=cursor,
            careful_until=careful,
            trying_entry=entry,
            trying_attempts=int(attempts),
            trying_kills=int(kills),
            condemned=condemned(entry, int(attempts), int(kills), max_attempts, max_kills),
            init=init,
            max_attempts=max_attempts,
            max_kills=max_kills,
            blocked=blocked == "1",
            supervisor=supervisor,
            max_state=int(max_state) if max_state else None,
            guard=guard,
            parent=parent,
            last_end=last_end,
            max_mailbox=int(max_mailbox or limits.max_mailbox),
            postponed=int(postponed or 0),
            rewound=rewound,
        )

    return parse


def is_careful(loaded: Loaded, entry: str) -> bool:
    """Whether this entry is to be taken by itself, and noted before that (``announce``)."""
    return bool(loaded.careful_until) and not newer(entry, loaded.careful_until)


def is_charged_later(loaded: Loaded, entry: str) -> bool:
    """Whether a signal behind ``entry`` has cost a process already."""
    charged = loaded.trying_attempts + loaded.trying_kills > 0
    return charged and newer(loaded.trying_entry, entry)


def announce(keys: Keys, owner: Owner, loaded: Loaded, entry: str, *, marked: str) -> Call[None] | None:
    """Note which signal is tried next, with what it was charged so far.

    None where Redis has it as the one being tried already (``marked``), and for one that is condemned.
    """
    tried = entry == loaded.trying_entry
    if entry == marked or (tried and loaded.condemned):
        return None
    charged = (loaded.trying_attempts, loaded.trying_kills) if tried else (0, 0)
    return mark_trying(keys, owner, entry, *charged)


def condemned(entry: str, attempts: int, kills: int, max_attempts: int, max_kills: int) -> Condemned:
    """Which bound the tried signal has reached, if any."""
    if not entry:
        return ""
    if attempts >= max_attempts:
        return "attempts"
    return "kills" if kills >= max_kills else ""
