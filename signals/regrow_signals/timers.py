"""Timers: what a commit sets and cancels, what is due, and the one step in which it fires.

A timer fires once for each due time: the step that puts its signal into the mailbox also moves its due time on, or
removes it, and counts only while due time and ``set`` are those that were decided about (``due_timers.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, NamedTuple

from regrow_signals.answers import answer, cut
from regrow_signals.calls import Arg, Call
from regrow_signals.commits import DirectiveAppend
from regrow_signals.ids import check_id
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.scripts import declare

__all__ = [
    "CancelAppend",
    "DueTimer",
    "Due",
    "Fired",
    "Firing",
    "TimerAppend",
    "cancel_timer",
    "due",
    "fire",
    "tag_of",
    "timer_id",
]


DUE: Final = declare("timers_due", keys=["timers"], args=["prefix", "most"])
FIRE: Final = declare(
    "timers_fire",
    keys=["leader", "timers", "counters", "events"],
    args=[
        "token", "prefix", "max_mailbox", "extra_room", "max_dead", "held_timeout_ms", "max_events", "firings",
    ],
    arg_tail="lists",
)  # fmt: skip
CANCEL: Final = declare("timer_cancel", keys=["timer", "timers", "own"], args=["timer_id"])


def timer_id(agent: str, tag: str) -> str:
    """The timer of this agent and tag. ``#`` is in no agent's id and in no tag."""
    return f"{agent}#{tag}"


def tag_of(timer: str) -> str:
    """What ``timer_id`` was made of: a tag, or for a timer without one ``@`` and the directive that set it."""
    return timer.partition("#")[2]


@dataclass(frozen=True, slots=True)
class TimerAppend(DirectiveAppend):
    """Set a timer. ``after_ms`` counts from the commit, ``due_ms`` is Redis's time; a recurring one has neither.

    ``fields`` are the record's: kind, set, to, type, data and what else there is.
    """

    kind: ClassVar[str] = "timer"
    timer: str
    max_timers: int
    fields: Mapping[str, str]
    after_ms: int | None = None
    due_ms: int | None = None

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        return _named(keys, agent, self.timer)

    def words(self) -> Sequence[Arg]:
        times = ["" if ms is None else ms for ms in (self.after_ms, self.due_ms)]
        return [self.timer, self.max_timers, *times, *(word for pair in self.fields.items() for word in pair)]


@dataclass(frozen=True, slots=True)
class CancelAppend(DirectiveAppend):
    """Take a timer away; nothing happens if it is not there."""

    kind: ClassVar[str] = "cancel"
    timer: str

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        return _named(keys, agent, self.timer)

    def words(self) -> Sequence[Arg]:
        return [self.timer]


class DueTimer(NamedTuple):
    """A timer whose time has come; texts as they lie in Redis, for ``due_timers.decide`` to judge."""

    id: str
    set: str
    due_ms: str
    """Empty: it recurs and has no due time yet."""
    kind: str
    expression: str
    tz: str
    every_ms: str
    missed: str
    set_ms: str


class Due(NamedTuple):
    """``next_ms``: when the first of the others is due; None where there is none, or ``timers`` is full."""

    now_ms: int
    next_ms: int | None
    timers: list[DueTimer]


@dataclass(frozen=True, slots=True)
class Firing:
    """What becomes of a due timer: a signal for each of ``ticks``, and its next due time (None: it is done).

    ``left_out`` ticks are counted as missed. ``why``: it cannot be carried out at all, and is dropped.
    """

    timer: DueTimer
    ticks: Sequence[int] = ()
    next_ms: int | None = None
    left_out: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Fired:
    """How many signals were put into mailboxes, ticks left out, timers that wait for room, timers dropped."""

    fired: int = 0
    missed: int = 0
    waiting: int = 0
    dropped: int = 0

    def __add__(self, other: Fired) -> Fired:
        return Fired(
            self.fired + other.fired,
            self.missed + other.missed,
            self.waiting + other.waiting,
            self.dropped + other.dropped,
        )


def due(keys: Keys, most: int) -> Call[Due]:
    """Due timers, the earliest first, ``most`` at most."""
    return Call(DUE, (keys.timers,), (f"{keys.tag}:", most), _due, repeatable=True, hint="timers")


def fire(keys: Keys, limits: Limits, token: str, firings: Sequence[Firing]) -> Call[Fired]:
    """Carry the decisions out, each timer by itself. Raises ``NotLeader``. A repeat does nothing twice."""
    args: list[Arg] = [
        token, f"{keys.tag}:", limits.max_mailbox, limits.extra_room, limits.max_dead, limits.held_timeout_ms,
        limits.max_events, len(firings),
    ]  # fmt: skip
    for firing in firings:
        timer = firing.timer
        args += (timer.id, timer.set, timer.due_ms, "" if firing.next_ms is None else firing.next_ms)
        args += (firing.left_out, cut(firing.why, 300), len(firing.ticks))
        for tick in firing.ticks:
            args += (tick, _rfc3339(tick))
    names = (keys.leader, keys.timers, keys.counters, keys.events)
    return Call(
        FIRE, names, args, lambda reply: Fired(*map(int, answer(reply, "timers")[1:])), repeatable=True,
        hint="timers",
    )  # fmt: skip


def cancel_timer(keys: Keys, agent: str, tag: str) -> Call[bool]:
    """Take a timer away; False: there was none. ``Refused`` for one that the agent's class declares."""
    timer = timer_id(check_id(agent, "agent"), tag)
    return Call(
        CANCEL,
        _named(keys, agent, timer)[:3],
        (timer,),
        lambda reply: bool(answer(reply, timer)[1] == "1"),
        repeatable=True,
        hint=timer,
    )


def _named(keys: Keys, agent: str, timer: str) -> Sequence[str]:
    return (keys.timer(timer), keys.timers, keys.timers_of(agent), keys.timer_bell)


def _due(reply: Any) -> Due:
    _, now, later, *words = answer(reply, "timers")
    timers = [DueTimer(*some) for some in zip(*[iter(words)] * len(DueTimer._fields), strict=True)]
    return Due(int(now), int(float(later)) if later else None, timers)


def _rfc3339(ms: int) -> str:
    text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(
        timespec="milliseconds" if ms % 1000 else "seconds"
    )
    return text.replace("+00:00", "Z")
