"""What becomes of a due timer. Pure: from its record and Redis's time.

A recurring timer's ticks that came due together, after a time in which nobody fired them, follow its ``missed``:
``skip`` sends the last one if it is not older than ``GRACE_MS``, else none; ``one`` sends the last one; ``all`` sends
each of the last ``MADE_UP``, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, Protocol, get_args

from regrow_signals.cron import parse_cron
from regrow_signals.errors import BadInput
from regrow_signals.timers import DueTimer, Firing

__all__ = ["AT_ONCE", "GRACE_MS", "MADE_UP", "Missed", "decide"]

Missed = Literal["skip", "one", "all"]

GRACE_MS: Final = 60_000
"""A tick that is late by no more than this is late, not missed."""

MADE_UP: Final = 1_000
AT_ONCE: Final = 100
"""Ticks of one timer in one step; the others follow in the next."""

_COUNTED: Final = 50
"""Missed ticks that are counted where only the last one matters: counting costs time."""


_LAST_MS: Final = 253_402_300_799_999


class Recurrence(Protocol):
    """When a recurring timer is due; instants in ms."""

    def after(self, ms: int) -> int: ...
    def ticks(self, ms: int) -> Iterator[int]: ...
    def before(self, ms: int, count: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Interval:
    """Every so many ms from ``start`` on."""

    every_ms: int
    start: int

    def after(self, ms: int) -> int:
        return self.start + max(1, (ms - self.start) // self.every_ms + 1) * self.every_ms

    def ticks(self, ms: int) -> Iterator[int]:
        while True:
            ms = self.after(ms)
            yield ms

    def before(self, ms: int, count: int) -> int:
        return self.after(ms) - count * self.every_ms


def decide(timer: DueTimer, now_ms: int) -> Firing:
    """The firing of a timer that is due at ``now_ms``; one whose record makes no sense is dropped with the reason."""
    try:
        return _decided(timer, now_ms)
    except (BadInput, ValueError, OverflowError) as error:
        return Firing(timer, why=f"{error}"[:300])


def _decided(timer: DueTimer, now_ms: int) -> Firing:
    due = int(timer.due_ms) if timer.due_ms or timer.kind == "once" else None
    if due is not None and not 0 <= due <= _LAST_MS:
        raise BadInput(f"due at {due} ms, which is no time")
    if due is not None and due > now_ms:
        return Firing(timer, next_ms=due)
    if timer.kind == "once" and due is not None:
        return Firing(timer, ticks=(due,))
    recurrence = _recurrence(timer)
    if due is None:
        return Firing(timer, next_ms=recurrence.after(int(timer.set_ms)))
    if timer.missed not in get_args(Missed):
        raise BadInput(f"missed={timer.missed!r:.40} is none of {', '.join(get_args(Missed))}")
    every = timer.missed == "all"
    ticks, left_out = _due_ticks(recurrence, due, now_ms, MADE_UP if every else _COUNTED)
    following = recurrence.after(now_ms)
    if every:
        later = ticks[AT_ONCE] if len(ticks) > AT_ONCE else following
        return Firing(timer, ticks[:AT_ONCE], later, left_out)
    left_out += len(ticks) - 1
    if timer.missed == "skip" and now_ms - ticks[-1] > GRACE_MS:
        return Firing(timer, (), following, left_out + 1)
    return Firing(timer, ticks[-1:], following, left_out)


def _due_ticks(recurrence: Recurrence, due: int, now_ms: int, most: int) -> tuple[list[int], int]:
    """The last ``most`` ticks from ``due`` to ``now_ms``, and how many were left out, as far as that was counted."""
    found = [due, *_until(recurrence, due, now_ms, most)]
    if len(found) <= most:
        return found, 0
    start = max(due, recurrence.before(now_ms, most))
    return [start, *_until(recurrence, start, now_ms, most - 1)], 1


def _until(recurrence: Recurrence, after: int, now_ms: int, most: int) -> list[int]:
    found: list[int] = []
    for tick in islice(recurrence.ticks(after), most):
        if tick > now_ms:
            break
        found.append(tick)
    return found


def _recurrence(timer: DueTimer) -> Recurrence:
    if timer.kind == "cron":
        return parse_cron(timer.expression, timer.tz)
    if timer.kind == "every" and int(timer.every_ms) > 0:
        return Interval(int(timer.every_ms), int(timer.set_ms))
    raise BadInput(f"{timer.kind!r:.40} every {timer.every_ms!r:.40} ms is no timer")
