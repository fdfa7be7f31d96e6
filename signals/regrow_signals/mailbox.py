"""Sending signals and asking what became of them: typed callers of the mailbox scripts.

A signal is accepted once its script has answered: from then on it is applied once, or lies in the dead letters with its
reason. The client makes the id before it sends, so that a sender who got no answer can ask, or send the same id again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from regrow_signals.calls import Arg, Call, Command, Op
from regrow_signals.commits import SUBSCRIBERS
from regrow_signals.errors import BadInput, CorruptKey, RegrowError, StoreError
from regrow_signals.ids import check_id
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.replies import pairs, refusal, words
from regrow_signals.scripts import declare
from regrow_signals.signal import Signal

__all__ = [
    "BULK",
    "Outgoing",
    "Receipt",
    "Status",
    "dead_drop",
    "dead_retry",
    "entry_words",
    "receipt_of",
    "send",
    "send_many",
    "status",
]

BULK: Final = 500
"""Signals in one script call of ``send_many`` at most: the server is held for a few milliseconds, not longer."""

SEND: Final = declare(
    "send",
    keys=["counters"],
    key_tail="boxes",
    args=["max_mailbox", "max_dead", "window_ms", "max_ids"],
    arg_tail="signals",
)
STATUS: Final = declare(
    "status",
    keys=["agent", "mailbox", "fate", "seen", "seen_old"],
    args=["id", "entry", "birth", "remembered"],
)
DEAD_RETRY: Final = declare(
    "dead_retry",
    keys=["agent", "mailbox", "dead", "fate", "counters"],
    args=["letter", "max_mailbox", "fate_bound", "target"],
)
DEAD_DROP: Final = declare(
    "dead_drop", keys=["agent", "dead", "fate", "counters"], args=["letter", "fate_bound"]
)

State = Literal["pending", "applied", "dead", "dropped", "retried", "unknown"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """An accepted signal: where it lies. ``entry`` and ``birth`` are empty while its fate is unknown."""

    agent: str
    signal_id: str
    entry: str = ""
    birth: str = ""
    duplicate: bool = False
    remembered: bool = True


@dataclass(frozen=True, slots=True)
class Status:
    """What became of a signal. ``reason`` goes with dead and unknown, ``retried_as`` (a signal's id) with retried."""

    state: State
    reason: str = ""
    retried_as: str = ""

    @property
    def is_final(self) -> bool:
        """Is waiting over? (``unknown`` is: nothing is known, and nothing more will be.)"""
        return self.state != "pending"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One signal on its way to one agent; ``remember``: a second one of this id is recognised."""

    agent: str
    signal: Signal
    remember: bool = True


def send(keys: Keys, limits: Limits, agent: str, signal: Signal, *, remember: bool = True) -> Call[Receipt]:
    """Accept one signal. A repeat of a remembered id is answered with its receipt, so the call may be repeated.

    Raises ``NoSuchAgent``, ``MailboxFull``, ``MailboxExhausted``, ``DeadLettersFull``, ``IdConflict``.
    """
    outgoing = Outgoing(agent, signal, remember)

    def parse(reply: Any) -> Receipt:
        result = receipt_of(outgoing, reply[0])
        if isinstance(result, RegrowError):
            raise result
        return result

    names, args = _send_arguments(keys, limits, (outgoing,))
    return Call(SEND, names, args, parse, repeatable=remember, hint=agent)


def send_many(keys: Keys, limits: Limits, signals: Sequence[Outgoing]) -> Call[list[Receipt | RegrowError]]:
    """Accept up to ``BULK`` signals to any agents in one step, each by itself: a refused one leaves its error."""
    if len(signals) > BULK:
        raise BadInput(f"{len(signals)} signals in one call; {BULK} is the bound")

    def parse(reply: Any) -> list[Receipt | RegrowError]:
        return [receipt_of(outgoing, found) for outgoing, found in zip(signals, reply, strict=True)]

    names, args = _send_arguments(keys, limits, signals)
    repeatable = all(outgoing.remember for outgoing in signals)
    return Call(SEND, names, args, parse, repeatable=repeatable, hint=f"{len(signals)} signals")


def status(keys: Keys, receipt: Receipt) -> Call[Status]:
    """What became of the signal, from what Redis holds now."""
    agent = receipt.agent
    names = (keys.agent(agent), keys.mailbox(agent), keys.fate(agent), keys.seen(agent), keys.seen_old(agent))
    args = (receipt.signal_id, receipt.entry, receipt.birth, int(receipt.remembered))
    return Call(STATUS, names, args, _status, repeatable=True, hint=agent)


def dead_retry(keys: Keys, limits: Limits, agent: str, letter: str) -> Op[Receipt]:
    """Send a dead letter's signal again, as ``<id>:retry-<n>``: to the agent, or, if it was an emit, to its target.

    Never repeated by itself. ``NoSuchAgent`` when whom it is for is not registered (yet); the letter stays.
    """
    place, dead = _letter(letter), keys.dead(check_id(agent, "agent"))
    target = yield Command(("XRANGE", dead, place, place), _target, hint=dead)
    receiver = target or agent

    def parse(reply: Any) -> Receipt:
        _, new, entry, birth = words(reply, receiver)
        return Receipt(receiver, new, entry, birth, remembered=False)

    names = (keys.agent(receiver), keys.mailbox(receiver), dead, keys.fate(agent), keys.counters)
    args = (place, limits.max_mailbox, _fates(limits), target)
    receipt: Receipt = yield Call(DEAD_RETRY, names, args, parse, hint=receiver)
    return receipt


def _target(reply: Any) -> str:
    """Whom the letter was for, if it says so."""
    target = pairs(reply[0][1]).get("target", "") if reply else ""
    if target == SUBSCRIBERS:
        raise BadInput(
            "the letter was published, not sent to one agent: publish it again, then drop the letter"
        )
    return check_id(target, "target of the letter") if target else ""


def dead_drop(keys: Keys, limits: Limits, agent: str, letter: str) -> Call[str]:
    """Give up a dead letter for good; the value is its signal's id. Never repeated by itself."""
    check_id(agent, "agent")
    names = (keys.agent(agent), keys.dead(agent), keys.fate(agent), keys.counters)
    return Call(
        DEAD_DROP,
        names,
        (_letter(letter), _fates(limits)),
        lambda reply: str(words(reply, agent)[1]),
        hint=agent,
    )


def _send_arguments(keys: Keys, limits: Limits, signals: Sequence[Outgoing]) -> tuple[list[str], list[Arg]]:
    names = [keys.counters]
    places: dict[str, int] = {}
    args: list[Arg] = [limits.max_mailbox, limits.max_dead, limits.dedupe_window_ms, limits.dedupe_ids]
    for outgoing in signals:
        agent, signal = outgoing.agent, outgoing.signal
        place = places.get(agent)
        if place is None:
            check_id(agent, "agent")
            place = places[agent] = len(places) + 1
            names += (keys.agent(agent), keys.mailbox(agent), keys.dead(agent))
            names += (keys.seen(agent), keys.seen_old(agent), keys.fate(agent))
        flat = entry_words(signal)
        digest = signal.content_digest() if outgoing.remember else ""
        args += (place, signal.id, digest, len(flat))
        args += flat
    return names, args


def entry_words(signal: Signal) -> list[str]:
    """The fields of a signal's entry, names and values in turn."""
    return [word for pair in signal.to_fields().items() for word in pair]


def receipt_of(outgoing: Outgoing, reply: Sequence[Any]) -> Receipt | RegrowError:
    """What a script said of one signal: its receipt, or the error that it stands for."""
    word, *rest = reply
    if word == "refused":
        return refusal(rest, outgoing.agent)
    if word == "failed":
        return _failed(outgoing.agent, str(rest[0]))
    entry, birth = rest
    return Receipt(outgoing.agent, outgoing.signal.id, entry, birth, word == "known", outgoing.remember)


def _failed(agent: str, error: str) -> StoreError:
    if "WRONGTYPE" in error:
        wrong = error.removeprefix("WRONGTYPE ")
        return CorruptKey(f"{agent}: {wrong:.300}; nothing was changed. Look at it, then rename it away")
    return StoreError(f"{agent}: the server refused the entry: {error:.200}")


def _status(reply: Any) -> Status:
    word, *rest = words(reply)
    if word == "retried":
        return Status("retried", retried_as=rest[0])
    return Status(cast("State", word), reason=rest[0] if rest else "")


def _fates(limits: Limits) -> int:
    return limits.max_dead + limits.dedupe_ids


def _letter(letter: str) -> str:
    ms, dash, seq = letter.partition("-")
    if not (dash and ms.isascii() and ms.isdigit() and seq.isascii() and seq.isdigit() and len(letter) < 43):
        raise BadInput(f"dead letter {letter!r:.60}: give the id that the list of dead letters shows")
    return letter
