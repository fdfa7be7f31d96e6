"""Pooled agents in the hands of slots: taken from run queues, given back, freed when a slot is stuck or dead.

A claim writes a token of its own for each agent, so every commit is fenced as an isolated agent's is. The incarnation
is the supervisor's: it stays the same from one claim to the next, and changes with a restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from regrow_signals.agents import Loaded, Owner, loaded_parser
from regrow_signals.answers import answer, cut
from regrow_signals.calls import Arg, Call
from regrow_signals.commits import (
    Commit,
    CommitReply,
    after,
    check_commit,
    commit_reply,
    counters_of,
    journal_length,
    lay_journal,
)
from regrow_signals.errors import Refused, RegrowError
from regrow_signals.exchange import Entries, entry_fields
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.nodes import MAX_EVENTS, ExitReport, exit_kind
from regrow_signals.replies import is_text
from regrow_signals.scripts import declare

__all__ = [
    "POOL_CLAIM",
    "POOL_COMMIT",
    "POOL_RELEASE",
    "Claimed",
    "Claims",
    "NodeGone",
    "PlainCommit",
    "SlotName",
    "claim_agents",
    "commit_agents",
    "free_slot",
    "plain_commit",
    "release_agents",
]

POOL_CLAIM: Final = declare(
    "pool_claim",
    keys=["node", "claims", "counters"],
    key_tail="ready",
    args=["prefix", "node", "slot", "pid", "token", "most", "signals", "bytes"],
)
POOL_COMMIT: Final = declare(
    "pool_commit", keys=["claims", "counters"], args=["prefix", "slot", "names", "commits"], arg_tail="lists"
)
POOL_RELEASE: Final = declare("pool_release", keys=["claims"], args=["prefix", "slot"], arg_tail="held")
POOL_FREE: Final = declare(
    "pool_free",
    keys=["claims", "exits", "counters", "events"],
    args=[
        "prefix", "node", "slot", "clean", "agent_id", "incarnation", "reason", "kind", "charge", "charged", "error",
        "in_hand", "max_events", "detail",
    ],
)  # fmt: skip


_LANDED: Final = ["ok", "0", "0", "0"]
_PLAINLY: Final = CommitReply(landed_before=False, blocked=False, held=0)


class NodeGone(Refused):
    """The slot's node is not known (any more): what it took, nobody would ever free."""


READ_BYTES: Final = 4 << 20
"""States and signals that one claim reads, about: no further agent is taken beyond it."""


@dataclass(frozen=True, slots=True)
class SlotName:
    """One slot process: the ``number``-th of its node. Numbers are never used twice under one node id."""

    node: str
    number: int

    @property
    def worker(self) -> str:
        """As agents' records have it."""
        return f"{self.node}/{self.number}"


@dataclass(frozen=True, slots=True)
class Claimed:
    """One agent in a slot's hands; ``entries`` come after its cursor and are not empty."""

    owner: Owner
    loaded: Loaded
    entries: Entries
    deadline_ms: int | None
    """Longest transition, -1 for ever; None: the setting's."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What one claim took. ``waiting``: there is more in the queues.

    ``unreadable``: agents whose record cannot be read, with the reason; claimed only if there is a token.
    """

    agents: list[Claimed]
    unreadable: list[tuple[Owner, str]]
    waiting: bool


def claim_agents(
    keys: Keys,
    limits: Limits,
    slot: SlotName,
    queues: Sequence[str],
    *,
    pid: int,
    token: str,
    most: int,
    signals: int,
) -> Call[Claims]:
    """Take up to ``most`` agents from ``queues``, asked in this order. Raises ``NodeGone``.

    Not repeatable: after an unknown fate the slot frees whatever it has by ``free_slot``, and claims again.
    """
    names = [keys.node(slot.node), keys.pool_claims(slot.node), keys.counters, *map(keys.ready, queues)]
    args = (f"{keys.tag}:", slot.node, slot.number, pid, token, most, signals, READ_BYTES)
    return Call(POOL_CLAIM, names, args, lambda reply: _claims(reply, slot, limits), hint=slot.worker)


@dataclass(slots=True)
class PlainCommit:
    """One agent's commit that has no directives, laid out: see ``plain_commit``."""

    owner: Owner
    words: list[Arg]
    counters: Mapping[str, int]


def plain_commit(limits: Limits, plan: Commit) -> PlainCommit:
    """A commit for which ``is_plain`` holds. ``BadInput`` or ``TooLarge`` as ``commit`` raises them."""
    check_commit(limits, plan)
    owner, counters = plan.owner, counters_of(plan)
    words: list[Arg] = [
        owner.agent, owner.incarnation, owner.token, plan.base_version, plan.base_cursor, plan.version, plan.cursor,
        after(plan.cursor), plan.state or "", plan.schema, journal_length(limits, plan.journal), len(plan.journal),
        len(counters),
    ]  # fmt: skip
    lay_journal(words, plan)
    return PlainCommit(owner, words, counters)


def commit_agents(
    keys: Keys, slot: SlotName, commits: Sequence[PlainCommit]
) -> Call[list[CommitReply | RegrowError]]:
    """Write each commit and let go of its agent, each standing or falling alone. An agent is in it once.

    The value has for each what ``commit`` gives or raises. An agent whose keys are damaged (``CorruptKey``) stays in
    the slot's hands; all others are let go as by ``release_agents``. Not repeatable: who was let go is anybody's.
    """
    names: dict[str, int] = {}
    args: list[Arg] = []
    for each in commits:
        args += each.words
        for name, by in each.counters.items():
            args += (names.setdefault(name, len(names) + 1), by)
    head: list[Arg] = [f"{keys.tag}:", slot.number, len(names), len(commits), *names]
    agents = [each.owner.agent for each in commits]
    return Call(
        POOL_COMMIT,
        (keys.pool_claims(slot.node), keys.counters),
        head + args,
        lambda reply: _committed(reply, agents, slot),
        hint=slot.worker,
    )


def release_agents(keys: Keys, slot: SlotName, owners: Sequence[Owner]) -> Call[int]:
    """Let go of agents with nothing of theirs undone; those with waiting signals go to the end of their queue.

    One that is not ours any more is left alone. The value is how many were released.
    """
    args: list[Arg] = [f"{keys.tag}:", slot.number]
    for owner in owners:
        args += (owner.agent, owner.incarnation, owner.token)
    return Call(
        POOL_RELEASE,
        (keys.pool_claims(slot.node),),
        args,
        lambda reply: int(answer(reply, slot.worker)[1]),
        repeatable=True,
        hint=slot.worker,
    )


def free_slot(
    keys: Keys, slot: SlotName, *, spare: str = "", ended: ExitReport | None = None
) -> Call[tuple[int, str]]:
    """Free what the slot has not begun. ``spare``: the agent that it is stuck in, and goes on with.

    ``ended``: the slot's process is gone, with this agent in hand; the end is told as any end of a life, unless
    somebody stopped or freed that agent before. The value is how many were freed, and ``recorded``, ``known``,
    ``stale`` or ``none``.
    """
    told: tuple[Arg, ...] = (spare, "", "", "", "none", 0, "", "", MAX_EVENTS, "")
    if ended is not None:
        told = (
            ended.agent, ended.incarnation, cut(ended.reason, 500), exit_kind(ended.reason), ended.charge,
            int(ended.charged), cut(ended.error), ended.in_hand, MAX_EVENTS, cut(ended.error, 500),
        )  # fmt: skip
    names = (keys.pool_claims(slot.node), keys.exits, keys.counters, keys.events)
    args = (f"{keys.tag}:", slot.node, slot.number, 1, *told)
    return Call(POOL_FREE, names, args, lambda reply: _freed(reply, slot), repeatable=True, hint=slot.worker)


def _freed(reply: Any, slot: SlotName) -> tuple[int, str]:
    _, freed, word = answer(reply, slot.worker)
    return int(freed), word


def _committed(reply: Any, agents: Sequence[str], slot: SlotName) -> list[CommitReply | RegrowError]:
    if reply and isinstance(reply[0], str):
        answer(reply, slot.worker)
    found: list[CommitReply | RegrowError] = []
    for agent, one in zip(agents, reply, strict=True):
        if one == _LANDED:
            found.append(_PLAINLY)
            continue
        try:
            found.append(commit_reply(one, agent))
        except RegrowError as error:
            found.append(error)
    return found


def _claims(reply: Any, slot: SlotName, limits: Limits) -> Claims:
    if reply[:2] == ["refused", "node_gone"]:
        raise NodeGone(f"slot {slot.worker}: no such node")
    _, waiting, *taken = answer(reply, slot.worker)
    claims = Claims([], [], waiting == "1")
    for agent, incarnation, token, deadline_ms, fields, entries in taken:
        owner = Owner(agent, int(incarnation), token, slot.node)
        try:
            loaded = loaded_parser(agent, limits)(fields)
            found = [(entry, entry_fields(flat)) for entry, flat in entries]
            claims.agents.append(Claimed(owner, loaded, found, int(deadline_ms) if deadline_ms else None))
        except (RegrowError, ValueError) as error:
            # One record that somebody damaged must not cost the others, which are in our hands, too.
            shown = str(error)
            claims.unreadable.append((owner, shown if is_text(shown) else ascii(shown)))
    return claims
