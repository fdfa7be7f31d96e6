"""The commit of one batch: what it says, checked and laid out for ``lua/commit.lua``. Pure but for the call itself."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from regrow_signals.answers import answer, cut, entry_id
from regrow_signals.calls import Arg, Call
from regrow_signals.errors import BadId, BadInput, DirectiveRefused, TooLarge
from regrow_signals.ids import check_id
from regrow_signals.keys import ASYNC_QUEUE, Keys
from regrow_signals.limits import Limits
from regrow_signals.replies import raw
from regrow_signals.scripts import declare

__all__ = [
    "COMMIT",
    "Owner",
    "EmitAppend",
    "EffectAppend",
    "Postpone",
    "DirectiveAppend",
    "SUBSCRIBERS",
    "DeadAppend",
    "JournalAppend",
    "Append",
    "Commit",
    "CommitReply",
    "check_commit",
    "commit",
    "commit_reply",
    "counters_of",
    "is_plain",
    "lay_journal",
]

MAX_FIELDS: Final = 500
"""Fields of one entry as they are; more are folded: Lua can hand on some thousands of values at once."""

WALL: Final = 4
"""The planner keeps the limits of a commit; what is this many times over them is refused as a programming error."""

EMIT_REASONS: Final = frozenset({"max_hops", "no_such_agent"})
"""Reasons of letters about a signal that the agent sent: ``target`` is ours there."""

SUBSCRIBERS: Final = "*"
"""The target of an emit that is published: whoever subscribes to its type, found by the commit's script."""

OURS: Final = frozenset({"entry", "reason", "error", "attempts", "dead_ms", "target"})

COMMIT: Final = declare(
    "commit",
    keys=[
        "agent", "mailbox", "outbox", "dead", "journal", "fate", "counters", "events", "held", "effects", "bell",
    ],
    key_tail="others",
    args=[
        "agent_id", "incarnation", "token", "base_version", "base_cursor", "version", "cursor", "min_id", "handled",
        "failed", "agent_type", "has_state", "state", "schema", "has_error", "error", "max_mailbox", "max_dead",
        "max_outbox", "max_events", "journal_length", "targets", "letters", "emits", "orders", "transitions", "raises",
        "others", "passed",
    ],
    arg_tail="lists",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Owner:
    """One incarnation of an agent in one process. ``token`` is random and never written down elsewhere."""

    agent: str
    incarnation: int
    token: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class EmitAppend:
    """A signal to another agent; ``fields`` are a mailbox entry's, without ``at_ms``."""

    target: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EffectAppend:
    """An effect to be run after the commit, at least once, under ``effect_id``."""

    effect_id: str
    name: str
    args: str
    timeout_ms: int
    retries: int
    idempotent: bool
    backoff_ms: int = 1000
    awaited: bool = False
    """An ``async def``: it waits for an asyncio executor, in a queue of its own."""
    traceparent: str = ""
    """W3C trace context of the run, for the effect and for its outcome."""
    tracestate: str = ""


class DirectiveAppend(ABC):
    """What a directive of another kind writes: each has a class here and a part in ``lua/parts``, which says how.

    See ``lua/parts/directives.lua``; ``kind`` is its name there.
    """

    __slots__ = ()
    kind: ClassVar[str]
    weight: ClassVar[int] = 1
    """How many of a commit's appends it may come to."""

    @abstractmethod
    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        """The keys that it reads and writes, besides the agent's own record."""

    @abstractmethod
    def words(self) -> Sequence[Arg]:
        """What its part reads, in order."""


@dataclass(frozen=True, slots=True)
class DeadAppend:
    """A signal that could not be applied: its acceptance id, why, and its own fields as they came."""

    entry: str
    reason: str
    error: str
    attempts: int
    fields: Mapping[str, str | bytes]


class JournalAppend(NamedTuple):
    """One transition. ``state`` (JSON) goes with the last one of a commit; ``more`` are further fields of its signal.

    ``data`` is empty where it is too large to be kept. A tuple: one is made for every signal.
    """

    entry: str
    version: int
    directives: str
    digest: str
    outcome: str
    signal_id: str
    type: str
    at_ms: int
    source: str
    data: str
    state: str = ""
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Postpone(DirectiveAppend):
    """What a batch leaves in the mailbox for another mode of the agent, and what it takes out of it.

    ``rewound``: where the look at postponed signals stands after the batch, empty: there is none. ``back``: the batch
    is of postponed ones, which come before the cursor. ``careful``: until when it is, in such a batch. ``left``: how
    many are postponed after it. ``done``: the entries that are dealt with.
    """

    kind = "postpone"
    weight = 0
    rewound: str
    back: bool
    careful: str
    moved: bool
    left: int
    done: Sequence[str]

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        del keys, agent
        return ()

    def words(self) -> Sequence[Arg]:
        return (self.rewound, int(self.back), self.careful, int(self.moved), self.left, *self.done)


Append = EmitAppend | EffectAppend | DeadAppend | JournalAppend


@dataclass(slots=True, kw_only=True)
class Commit:
    """What one batch did to its agent. ``state`` None: unchanged; ``last_error`` None: unchanged.

    Nobody changes one; not frozen, as ``agents.Loaded``.
    """

    owner: Owner
    base_version: int
    base_cursor: str
    version: int
    cursor: str
    state: str | None
    schema: int
    emits: Sequence[EmitAppend] = ()
    effects: Sequence[EffectAppend] = ()
    others: Sequence[DirectiveAppend] = ()
    dead: Sequence[DeadAppend] = ()
    journal: Sequence[JournalAppend] = ()
    handled: int = 0
    failed: int = 0
    counters: Mapping[str, int]
    last_error: str | None = None
    agent_type: str
    birth: str
    passed: int | None = None
    """Entries that the cursor passes; None: those that are handled or failed."""
    postpone: Postpone | None = None
    max_state: int | None = None
    """The agent's own bound of its state, bytes; None: the limit's."""


@dataclass(frozen=True, slots=True)
class CommitReply:
    """``landed_before``: this very commit was there already. ``held``: emits that wait in the outbox since this one."""

    landed_before: bool
    blocked: bool
    held: int


def commit(keys: Keys, limits: Limits, plan: Commit) -> Call[CommitReply]:
    """Write the batch, whole or not at all. Raises ``Fenced``, ``Conflict`` when Redis is elsewhere, and
    ``DirectiveRefused``, which names the signal that cannot be applied.

    An emit beyond ``max_hops`` becomes the sender's dead letter. Counts ``signals_applied_total``, and for each dead
    letter ``signals_dead_total``, besides the plan's own counters.
    """
    check_commit(limits, plan)
    dead, emits = _deliverable(limits, plan)
    agent = plan.owner.agent
    targets = (
        list(dict.fromkeys(emit.target for emit in emits if emit.target != SUBSCRIBERS)) if emits else []
    )
    names = [
        keys.agent(agent), keys.mailbox(agent), keys.outbox(agent), keys.dead(agent), keys.journal(agent),
        keys.fate(agent), keys.counters, keys.events, keys.held, keys.effects, keys.bell,
    ]  # fmt: skip
    for target in targets:
        names += (keys.agent(target), keys.mailbox(target), keys.dead(target))
    names += [keys.effect(effect.effect_id) for effect in plan.effects]
    other_args = list[Arg]()
    others = plan.others if plan.postpone is None else [*plan.others, plan.postpone]
    for other in others:
        _lay_other(names, other_args, other, other.keys(keys, agent))
    counters = counters_of(plan)
    args = _head(limits, plan)
    args += (len(targets), len(dead), len(emits), len(plan.effects), len(plan.journal), len(counters))
    passed = plan.handled + plan.failed if plan.passed is None else plan.passed
    args += (len(others), passed, *other_args, *targets)
    for letter in dead:
        _lay_letter(args, letter)
    places = {target: place for place, target in enumerate(targets, 1)}
    for emit in emits:
        args += (places.get(emit.target, 0), len(emit.fields) * 2)
        for pair in emit.fields.items():
            args += pair
    for effect in plan.effects:
        args += (effect.effect_id, effect.name, effect.args, effect.timeout_ms, effect.retries)
        args += (int(effect.idempotent), effect.backoff_ms, ASYNC_QUEUE if effect.awaited else "")
        args += (effect.traceparent, effect.tracestate)
    lay_journal(args, plan)
    for counter in counters.items():
        args += counter
    return Call(COMMIT, names, args, lambda reply: commit_reply(reply, agent), repeatable=True, hint=agent)


def is_plain(plan: Commit) -> bool:
    """Nothing but a state, a journal and counters: what ``pool.commit_agents`` takes."""
    return not (
        plan.emits
        or plan.effects
        or plan.others
        or plan.dead
        or plan.failed
        or plan.last_error is not None
        or plan.postpone is not None
    )


def lay_journal(args: list[Arg], plan: Commit) -> None:
    """The words of its transitions, as ``lua/parts/journal.lua`` takes them."""
    for line in plan.journal:
        args += line[:10]
        more = line.more
        if line.state:
            more = (*more, "schema", str(plan.schema), "state", line.state)
        args.append(len(more))
        args += more


def after(entry: str) -> str:
    """The id that follows ``entry``; empty when it is the last possible one."""
    ms, _, seq = entry.partition("-")
    if len(seq) < 19:
        return f"{ms}-{int(seq) + 1}"
    number = ((int(ms) << 64) | int(seq)) + 1
    return "" if number >> 128 else f"{number >> 64}-{number & 0xFFFFFFFFFFFFFFFF}"


def is_id(text: str) -> bool:
    """Can this be an agent's id?"""
    try:
        check_id(text)
    except BadId:
        return False
    return True


def newer(entry: str, other: str) -> bool:
    """Does ``entry`` come after ``other``?"""
    ms, _, seq = entry.partition("-")
    other_ms, _, other_seq = other.partition("-")
    return (int(ms), int(seq)) > (int(other_ms), int(other_seq))


def journal_length(limits: Limits, journal: Sequence[JournalAppend]) -> int:
    """How many entries the journal keeps so that it stays near both bounds, judged by the size of this commit's own."""
    if not journal:
        return limits.journal_entries
    size = 200 * len(journal)
    for line in journal:
        size += len(line.directives) + len(line.data) + len(line.state)
        if line.more:
            size += sum(map(len, line.more))
    return max(1, min(limits.journal_entries, limits.journal_bytes * len(journal) // size))


def _head(limits: Limits, plan: Commit) -> list[Arg]:
    owner, state, error = plan.owner, plan.state, plan.last_error
    return [
        owner.agent, owner.incarnation, owner.token, plan.base_version, plan.base_cursor, plan.version, plan.cursor,
        after(plan.cursor), plan.handled, plan.failed, plan.agent_type,
        int(state is not None), state or "", plan.schema, int(error is not None), cut(error or ""),
        limits.max_mailbox, limits.max_dead, limits.max_outbox, limits.max_events,
        journal_length(limits, plan.journal),
    ]  # fmt: skip


def counters_of(plan: Commit) -> dict[str, int]:
    """The plan's own, and those that every commit has."""
    counters = dict(plan.counters)
    if plan.handled:
        applied = f"signals_applied_total|type={plan.agent_type}"
        counters[applied] = counters.get(applied, 0) + plan.handled
    return counters


def _deliverable(limits: Limits, plan: Commit) -> tuple[list[DeadAppend], Sequence[EmitAppend]]:
    """Emits that came too many hops, or whose target can be no agent's id, are dead letters; the others go on."""
    if not plan.emits:
        return list(plan.dead), ()
    dead, emits = list(plan.dead), list[EmitAppend]()
    for emit in plan.emits:
        reason = error = ""
        if emit.target != SUBSCRIBERS and not is_id(emit.target):
            reason, error = "no_such_agent", f"{emit.target[:80]!a} cannot be an agent's id"
        elif int(emit.fields.get("hops", "0")) > limits.max_hops:
            reason, error = "max_hops", f"more than {limits.max_hops} hops, on the way to {emit.target}"
        if reason:
            dead.append(DeadAppend("", reason, error, 0, {**emit.fields, "target": emit.target[:200]}))
        else:
            emits.append(emit)
    return dead, emits


def _lay_other(names: list[str], args: list[Arg], other: DirectiveAppend, own: Sequence[str]) -> None:
    words = other.words()
    names += own
    args += (other.kind, len(own), len(words), *words)


def _lay_letter(args: list[Arg], letter: DeadAppend) -> None:
    """Names of ours in a stranger's entry are kept as ``signal.<name>``, so that nothing of it is lost."""
    fields = list(letter.fields.items())
    if len(fields) > MAX_FIELDS:
        fields = [*fields[:MAX_FIELDS], ("signal.rest", _folded(fields[MAX_FIELDS:]))]
    args += (letter.entry, letter.reason, cut(letter.error), letter.attempts, len(fields) * 2)
    own = {"target"} if letter.reason in EMIT_REASONS else set[str]()
    for name, value in fields:
        args += (f"signal.{name}" if name in OURS - own else name, value)


def _folded(fields: Sequence[tuple[str, str | bytes]]) -> str:
    """Any number of fields as one: JSON of [name, value] in base64, byte for byte."""

    def text(word: str | bytes) -> str:
        return b64encode(word if isinstance(word, bytes) else raw(word)).decode()

    return json.dumps([[text(name), text(value)] for name, value in fields])


def check_commit(limits: Limits, plan: Commit) -> None:
    """``BadInput`` or ``TooLarge`` for what the planner should never have made."""
    stays = plan.postpone is not None and plan.postpone.back and plan.cursor == plan.base_cursor
    if not stays and not newer(entry_id(plan.cursor, "cursor"), entry_id(plan.base_cursor, "base cursor")):
        raise BadInput(
            f"{plan.owner.agent}: a commit moves the cursor on: {plan.base_cursor} to {plan.cursor}"
        )
    if not plan.owner.token:
        raise BadInput(f"{plan.owner.agent}: a commit needs the token of a claim")
    count = len(plan.emits) + len(plan.effects) + len(plan.others) + len(plan.dead)
    if count > WALL * limits.commit_appends:
        raise TooLarge(
            f"{plan.owner.agent}: {count} appends in one commit; {limits.commit_appends} is the bound"
        )
    bound = plan.max_state or limits.max_state_bytes
    if plan.state is not None and len(plan.state) > bound:
        raise TooLarge(
            f"{plan.owner.agent}: {len(plan.state)} characters of state; {bound} bytes is the bound"
        )


def commit_reply(reply: Any, agent: str) -> CommitReply:
    """What the script answered; raises the refusals that ``commit`` names."""
    if reply[:2] == ["refused", "directive"]:
        raise DirectiveRefused(*map(str, reply[2:5]))
    _, landed, blocked, held = answer(reply, agent)
    return CommitReply(landed_before=landed == "1", blocked=blocked == "1", held=int(held))
