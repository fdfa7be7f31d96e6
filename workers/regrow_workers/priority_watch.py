"""The node's look at long transitions: lowers those workers, and knows what it cost them. ``low_priority.py`` decides.

It is the node that does it, from outside: native code that keeps the interpreter's lock lets nothing else in its
process run. The worker puts itself back once the transition is over (``own_priority.py``), or gives way to a fresh
process where that is not allowed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from typing import Final

from regrow_workers import log
from regrow_workers.lives import TIMED, Life, Pauses, is_runnable
from regrow_workers.low_priority import NICE, Waited, is_long, look_every, time_lost
from regrow_workers.process_tree import descendants
from regrow_workers.scheduling import cpu_times, is_lowered, lower_family, raise_family
from regrow_workers.slots import Phase

__all__ = ["PriorityWatch", "let_end"]

_LOG = logging.getLogger(__name__)

LOWEST: Final = 19
AGAIN: Final = 0.2
"""Seconds after which what a lowered worker has started meanwhile is looked for."""


def let_end(life: Life) -> None:
    """It is about to be killed: where that is allowed, its processes have as much of a processor as others again.

    An end takes locks of the kernel that forks wait for.
    """
    if life.lowered_at is not None and life.pid is not None:
        own = os.getpriority(os.PRIO_PROCESS, 0)
        raise_family((life.pid, *descendants(life.pid, life.max_processes + 1)), own)


class PriorityWatch:
    """Of one node. ``lower_after`` seconds in one transition; 0: nobody is ever lowered."""

    def __init__(self, lower_after: float, tick: float) -> None:
        self._lower_after = lower_after
        self._tick = tick
        self._nice = os.getpriority(os.PRIO_PROCESS, 0)
        self._look_at = 0.0
        self._is_allowed = lower_after > 0

    def next_due(self, lives: int) -> float:
        """When to look again, monotonic; infinity while there is nobody to look at."""
        return self._look_at if self._is_allowed and lives else float("inf")

    def look(self, lives: Collection[Life], now: float) -> None:
        """Lower whoever has been in a transition for too long."""
        if not self._is_allowed or now < self._look_at:
            return
        self._look_at = now + look_every(self._lower_after, len(lives), self._tick)
        for life in lives:
            phase, since = life.slot.glance()
            if phase in TIMED and now - since >= self._lower_after:
                self._consider(life, now)
            elif (
                life.lowered_at is not None and life.pid is not None and not is_lowered(life.pid, self._nice)
            ):
                life.lowered_at = None

    def counted(self, life: Life, pauses: Pauses, now: float) -> Pauses:
        """The time that counts against a life: without what it lost since it was lowered."""
        if life.lowered_at is None or life.pid is None:
            return pauses
        times = cpu_times(life.pid)
        if times is None:
            return pauses
        lost = time_lost(
            wall=now - life.lowered_at,
            ran=times[0] - life.cpu_then[0],
            waited=times[1] - life.cpu_then[1],
            runnable=is_runnable(life),
            deadline=life.deadline,
            reading=life.slot.glance()[0] == Phase.READING,
        )
        return Waited(pauses, lost)

    def _consider(self, life: Life, now: float) -> None:
        reading = life.slot.read()  # until two looks agree
        if life.pid is None or life.killed is not None:
            return
        if not is_long(reading.phase, reading.since, now, self._lower_after):
            return
        again = life.lowered_in == reading.since
        if again and life.lowered_at is not None and now < life.lowered_next:
            return
        life.lowered_next = now + AGAIN
        cpu_then = cpu_times(life.pid) or (0.0, 0.0)
        family = lower_family(life.pid, min(LOWEST, self._nice + NICE), life.max_processes + 1)
        if not family:
            log.event(_LOG, "priority_not_lowered", level=logging.WARNING, pid=life.pid)
            self._is_allowed = False
            return
        life.has_started = life.has_started or len(family) > 1
        if again:
            return
        life.lowered_in = reading.since
        if life.lowered_at is None:
            life.lowered_at, life.cpu_then = now, cpu_then
        life.slot.note_lowered()
        log.event(
            _LOG,
            "priority_lowered",
            level=logging.DEBUG,
            agent=life.agent,
            incarnation=life.incarnation,
            pid=life.pid,
            seconds=round(now - reading.since, 3),
        )
