"""Who is late: pure bookkeeping of heartbeats, in time that counts only while Redis answered.

No clock of another host is ever compared. A beat is a score that changes; late is what has not changed for a timeout
of ``AnsweredTime``, the leader's own monotonic time between two answered polls, each interval capped: a Redis that is
frozen, slow or away, and a leader that was itself stopped, stretch every timeout instead of declaring anybody dead.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["AnsweredTime", "BeatWatch", "StartWatch", "late_nodes"]

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class AnsweredTime:
    """Milliseconds in which the store answered; at most ``cap_ms`` for the interval between two answers.

    The cap is what a healthy poll takes at most. An interval in which a poll failed counts nothing.
    """

    cap_ms: int
    elapsed_ms: int = 0
    _last_ms: int | None = None

    def answered(self, now_ms: int) -> int:
        """A poll was answered, writes included, at ``now_ms`` of the own monotonic clock; returns the sum."""
        if self._last_ms is not None:
            self.elapsed_ms += min(max(now_ms - self._last_ms, 0), self.cap_ms)
        self._last_ms = now_ms
        return self.elapsed_ms

    def failed(self) -> None:
        """The store did not answer: nothing counts until two answers follow one another again."""
        self._last_ms = None


@dataclass(slots=True)
class _Seen:
    score: str | None
    since_ms: int


@dataclass(slots=True)
class BeatWatch(Generic[K]):
    """When each expected beat last changed, in answered time."""

    _seen: dict[K, _Seen] = field(default_factory=dict[K, _Seen])

    def observe(self, expected: Iterable[K], scores: Mapping[K, str], elapsed_ms: int) -> None:
        """Take in one poll. Who is no longer expected is forgotten; who is new gets a full timeout."""
        before, self._seen = self._seen, {}
        for key in expected:
            score = scores.get(key)
            seen = before.get(key)
            if seen is None or seen.score != score:
                seen = _Seen(score, elapsed_ms)
            self._seen[key] = seen

    def silent_ms(self, key: K, elapsed_ms: int) -> int:
        """How long this one has been silent; 0 for one that is not watched."""
        seen = self._seen.get(key)
        return 0 if seen is None else elapsed_ms - seen.since_ms

    def late(self, timeout_ms: int, elapsed_ms: int) -> list[K]:
        """Those silent for more than ``timeout_ms``, in the order of observation."""
        return [key for key, seen in self._seen.items() if elapsed_ms - seen.since_ms > timeout_ms]

    def restart(self, elapsed_ms: int) -> None:
        """Give everybody a full timeout again: after a takeover, and when the store came back."""
        for seen in self._seen.values():
            seen.since_ms = elapsed_ms

    def __len__(self) -> int:
        return len(self._seen)


def late_nodes(watch: BeatWatch[str], timeout_ms: int, elapsed_ms: int) -> list[str]:
    """The nodes to be declared lost. If all are late at once the store is the suspect: one timeout more."""
    late = watch.late(timeout_ms, elapsed_ms)
    if late and len(late) == len(watch):
        return watch.late(2 * timeout_ms, elapsed_ms)
    return late


@dataclass(slots=True)
class StartWatch(Generic[K]):
    """Start orders without a ``started`` yet, in answered time."""

    _since: dict[K, int] = field(default_factory=dict[K, int])

    def observe(self, starting: Iterable[K], elapsed_ms: int) -> None:
        """Take in who is starting now; a new one begins its time."""
        before = self._since
        self._since = {key: before.get(key, elapsed_ms) for key in starting}

    def late(self, timeout_ms: int, elapsed_ms: int, counts: Callable[[K], bool] | None = None) -> list[K]:
        """Those that were ordered more than ``timeout_ms`` ago; ``counts`` leaves out whom another verdict covers."""
        return [
            key
            for key, since in self._since.items()
            if elapsed_ms - since > timeout_ms and (counts is None or counts(key))
        ]

    def restart(self, elapsed_ms: int) -> None:
        """Give every start a full timeout again."""
        self._since = dict.fromkeys(self._since, elapsed_ms)
