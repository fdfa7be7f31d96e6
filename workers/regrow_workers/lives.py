"""The lives that a node looks after, and the pure decision whether one has to be ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from regrow_workers.reasons import Killed
from regrow_workers.slots import Phase, Reading, Slot
from regrow_workers.spawner_link import life_key

__all__ = ["Life", "Pause", "is_progressing", "must_end"]

UP = frozenset({Phase.IDLE, Phase.APPLYING, Phase.STORING, Phase.READING})
TIMED = frozenset({Phase.APPLYING, Phase.READING})
"""The user's code runs: a transition, or the reading of a stored state (its upcasts and validators)."""


@dataclass(slots=True, kw_only=True)
class Life:
    """One incarnation of an agent in a process of this node. Times are monotonic seconds."""

    agent: str
    incarnation: int
    node: str
    slot: Slot
    deadline: float
    max_memory: int = 0
    """Bytes; 0: nobody looks."""
    order: Mapping[str, str] = field(default_factory=dict[str, str])
    """As the worker was given it, with its token: for a fresh process of the same life."""
    pid: int | None = None
    forked_at: float | None = None
    beats: int = -1
    beats_at: float = 0.0
    asked: bool = False
    kill_at: float | None = None
    killed: Killed | None = None
    was_stopped: bool = False
    forgotten: bool = False

    @property
    def key(self) -> str:
        return life_key(self.agent, self.incarnation)

    def renew(self) -> None:
        """Its process has given way to another one, which is still to come."""
        self.slot.clear(Phase.BOOT)
        self.pid = self.forked_at = None
        self.beats, self.beats_at = -1, 0.0

    def look(self, now: float) -> Reading:
        """Read the slot and remember when its counter last moved."""
        reading = self.slot.read()
        if reading.beats != self.beats:
            self.beats = reading.beats
            self.beats_at = now
        return reading


@dataclass(frozen=True, slots=True)
class Pause:
    """The node's own loop was ``length`` seconds late, until ``ended_at``: it was stopped, or the host is overloaded.

    Its workers may have been paused as well, so none is judged before it has had the same time again.
    """

    ended_at: float = float("-inf")
    length: float = 0.0

    def excuses(self, now: float, allowed: float) -> bool:
        """Whether an allowance of ``allowed`` seconds is not used up yet for its sake."""
        return now - self.ended_at <= min(self.length, allowed)


def must_end(
    life: Life, reading: Reading, now: float, *, start_timeout: float, node_timeout: float, pause: Pause
) -> Killed | None:
    """Why the life has to be ended by SIGKILL now, or None."""
    if life.killed is not None or life.forked_at is None:
        return None
    if life.kill_at is not None and now >= life.kill_at:
        return Killed.SHUTDOWN_TIME
    if reading.phase in TIMED and now - reading.since > life.deadline:
        return None if pause.excuses(now, life.deadline) else Killed.DEADLINE
    if reading.phase is Phase.BOOT and now - life.forked_at > start_timeout:
        return None if pause.excuses(now, start_timeout) else Killed.START_TIMEOUT
    if reading.phase in UP and now - max(life.beats_at, life.forked_at) > node_timeout:
        return None if pause.excuses(now, node_timeout) else Killed.FROZEN
    return None


def is_progressing(life: Life, reading: Reading, now: float, heartbeat: float) -> bool:
    """Whether the next beat may name this life: its counter moved of late, or its transition is inside its deadline."""
    if life.forked_at is None or life.killed is not None:
        return False
    if reading.phase in TIMED:
        return now - reading.since <= life.deadline
    return now - max(life.beats_at, life.forked_at) <= 2 * heartbeat
