"""The lives that a node looks after, and the pure decision whether one has to be ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from regrow_workers.os_signals import process_state
from regrow_workers.reasons import Killed
from regrow_workers.settings import NodeSettings
from regrow_workers.slots import Phase, Reading, Slot
from regrow_workers.spawner_link import life_key

__all__ = ["Life", "Pauses", "in_words", "is_progressing", "is_runnable", "is_stopped", "must_end"]

_PAUSES = 1000
"""Pauses that are remembered: of what is older, a transition of hours gets back a little less than it lost."""

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
    """Bytes, of the worker and what it started; nobody looks at an executor."""
    max_processes: int = 0
    """That it may start, all below it together."""
    order: Mapping[str, str] = field(default_factory=dict[str, str])
    """As the worker was given it, with its token: for a fresh process of the same life."""
    pid: int | None = None
    forked_at: float | None = None
    beats: int = -1
    beats_at: float = 0.0
    asked: bool = False
    kill_at: float | None = None
    killed: Killed | None = None
    why: str = ""
    """It is killed for this, in words."""
    was_stopped: bool = False
    forgotten: bool = False
    has_started: bool = False
    """It was seen to have processes of its own, if its own word for that is still to come."""
    lowered_in: float = 0.0
    """Since when the transition lasts for which its priority was lowered last."""
    lowered_at: float | None = None
    """When that was; None: it has its own priority."""
    lowered_next: float = 0.0
    """When what it has started meanwhile is looked for."""
    cpu_then: tuple[float, float] = (0.0, 0.0)
    """What it had run, and waited for a processor, by then: seconds."""

    @property
    def key(self) -> str:
        return life_key(self.agent, self.incarnation)

    def renew(self, why: str) -> None:
        """Its process has given way to another one, which is still to come and will say why."""
        self.order = {**self.order, "recycled": why}
        self.slot.clear(Phase.BOOT)
        self.pid = self.forked_at = None
        self.beats, self.beats_at = -1, 0.0
        self.lowered_in, self.lowered_at, self.has_started = 0.0, None, False

    def look(self, now: float) -> Reading:
        """Read the slot and remember when its counter last moved."""
        reading = self.slot.read()
        if reading.beats != self.beats:
            self.beats = reading.beats
            self.beats_at = now
        return reading


class Pauses:
    """When the node's own loop was late: it was stopped, the machine slept, or the host is overloaded.

    Its workers may have been late as well, so time that was lost so counts against none of them.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[float, float]] = deque(maxlen=_PAUSES)

    def note(self, start: float, end: float) -> None:
        """They come in the order of time and do not overlap."""
        self._kept.append((start, end))

    def spent(self, since: float, now: float) -> float:
        """Seconds from ``since`` until ``now``, without those that were lost."""
        spent = now - since
        for start, end in reversed(self._kept):
            if end <= since:
                break
            spent -= max(0.0, min(end, now) - max(start, since))
        return spent


def must_end(
    life: Life,
    reading: Reading,
    now: float,
    *,
    start_timeout: float,
    node_timeout: float,
    pauses: Pauses,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Killed | None:
    """Why the life has to be ended by SIGKILL now, or None.

    In a transition its deadline counts: native code may keep the interpreter's lock, and so the progress counter, for
    as long as that allows. Only a process that somebody stopped (``is_stopped`` is asked when it matters) is frozen.
    """
    if life.killed is not None or life.forked_at is None:
        return None
    if life.kill_at is not None and now >= life.kill_at:
        return Killed.SHUTDOWN_TIME
    if reading.phase in TIMED and pauses.spent(reading.since, now) > life.deadline:
        return Killed.DEADLINE
    if reading.phase is Phase.BOOT and pauses.spent(life.forked_at, now) > start_timeout:
        return Killed.START_TIMEOUT
    if reading.phase in UP and pauses.spent(max(life.beats_at, life.forked_at), now) > node_timeout:
        return None if reading.phase in TIMED and not is_stopped() else Killed.FROZEN
    return None


def is_progressing(life: Life, reading: Reading, now: float, heartbeat: float, pauses: Pauses) -> bool:
    """Whether the next beat may name this life: its counter moved of late, or its transition is inside its deadline."""
    if life.forked_at is None or life.killed is not None:
        return False
    if reading.phase in TIMED:
        return pauses.spent(reading.since, now) <= life.deadline
    return pauses.spent(max(life.beats_at, life.forked_at), now) <= 2 * heartbeat


def is_runnable(life: Life) -> bool:
    """Whether its main thread runs, or would if it had a processor."""
    return life.pid is not None and process_state(life.pid) == "R"


def is_stopped(life: Life) -> bool:
    """Whether somebody stopped its process (SIGSTOP)."""
    return life.pid is not None and process_state(life.pid) == "T"


def in_words(why: Killed, life: Life, settings: NodeSettings) -> str:
    """For people: what a life was ended for by ``must_end``; empty where the word says it all."""
    match why:
        case Killed.DEADLINE:
            return f"a transition took longer than its deadline of {life.deadline:g} s"
        case Killed.FROZEN:
            return f"it made no progress for {settings.node_timeout:g} s"
        case Killed.START_TIMEOUT:
            return f"it was not up within {settings.start_timeout:g} s"
        case _:
            return ""
