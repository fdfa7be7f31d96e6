"""Which spare processes a spawner has, and when it makes another one. Knows no process: times and a list.

A spare is made when nothing was started for a while, never on the way of a start. One that ends before it was ready
(a hook raised, or hung) is a reason to wait before the next, longer each time: the start that comes meanwhile is an
ordinary fork, which says what is wrong as that worker's end.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

__all__ = ["Spares"]

T = TypeVar("T")

QUIET: Final = 0.05
"""Seconds without a start before one is made."""

TAKE_SECONDS: Final = 1.0
"""For a spare to take the agent that it was given: it only waits for it, so one that needs longer is frozen."""

PAUSES: Final = (1.0, 5.0, 30.0, 60.0)
"""Seconds after so many failures in a row."""


class Spares(Generic[T]):
    """At most ``wanted`` of them; one that is not ready within ``start_timeout`` seconds is to be ended.

    ``now`` is monotonic seconds.
    """

    def __init__(self, wanted: int, start_timeout: float) -> None:
        self._wanted = wanted
        self._start_timeout = start_timeout
        self._ready: list[T] = []
        self._coming: dict[T, float] = {}
        self._given: dict[T, float] = {}
        self._due_at = 0.0
        self._failures = 0

    def note_start(self, now: float) -> None:
        """A process is made for somebody just now: that goes first, and others may follow."""
        self._due_at = max(self._due_at, now + QUIET)

    def is_due(self, now: float) -> bool:
        """Whether one is to be made now."""
        return self._is_short() and now >= self._due_at

    def wait(self, now: float) -> float | None:
        """Seconds until ``is_due`` or ``take_overdue`` has something to say; None: not without news."""
        times = [*self._coming.values(), *self._given.values(), *([self._due_at] if self._is_short() else [])]
        return max(0.0, min(times) - now) if times else None

    def begin(self, spare: T, now: float) -> None:
        """It was made, and gets ready."""
        self._coming[spare] = now + self._start_timeout
        self.note_start(now)

    def put_off(self, now: float) -> None:
        """None could be made, or it did not get ready."""
        self._due_at = now + PAUSES[min(self._failures, len(PAUSES) - 1)]
        self._failures += 1

    def note_ready(self, spare: T) -> None:
        """It says that it is ready. Late is late: one that is to be ended stays so."""
        if self._coming.pop(spare, None) is not None:
            self._ready.append(spare)
            self._failures = 0

    def take(self, now: float) -> T | None:
        """One that is ready, to be given an agent, which it has to take in time."""
        if not self._ready:
            return None
        spare = self._ready.pop(0)
        self._given[spare] = now + TAKE_SECONDS
        return spare

    def take_overdue(self, now: float) -> list[T]:
        """Those whose time to get ready, or to take what they were given, is over: to be ended, and forgotten here."""
        late = [spare for spare, by in (self._coming | self._given).items() if now >= by]
        for spare in late:
            self.remove(spare, now)
        return late

    def remove(self, spare: T, now: float) -> None:
        """It has ended, is of no use, or has an agent."""
        self._given.pop(spare, None)
        if spare in self._ready:
            self._ready.remove(spare)
            self.note_start(now)
        elif self._coming.pop(spare, None) is not None:
            self.put_off(now)

    def _is_short(self) -> bool:
        return len(self._ready) + len(self._coming) < self._wanted
