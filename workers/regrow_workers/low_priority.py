"""When a worker's priority is lowered, and what that costs it of its time: pure. ``scheduling.py`` does it.

A worker that has been in one transition for a while keeps others waiting for a processor: an endless loop, native code,
twenty processes that a handler started. So the node lowers it, long before its deadline ends it. A transition that is
merely long goes on, with what the others leave: the time that it waits for a processor is not counted against it, up
to a bound.
"""

from __future__ import annotations

from typing import Final

from regrow_workers.lives import TIMED, Pauses
from regrow_workers.slots import Phase

__all__ = ["NICE", "Waited", "is_long", "look_every", "time_lost"]

NICE: Final = 15
"""Of a worker in a long transition, and of all that it has started: a thirtieth of the weight of a process with 0.

Not lower: it is to get on, and whoever hardly ever runs may hold a lock of the kernel that others wait for.
"""

MOST_LOST: Final = 2.0
"""So many deadlines at most are given back to a transition that waited for a processor."""

_LOOKS: Final = 2
_PER_LIFE: Final = 0.0004
"""Seconds between two looks for each life, so that looking costs less than half a percent of one processor."""


def look_every(lower_after: float, lives: int, tick: float) -> float:
    """Seconds from one look at all lives to the next; never rarer than the node's tick, which looks at all anyway."""
    return min(tick, max(lower_after / _LOOKS, lives * _PER_LIFE))


def is_long(phase: Phase, since: float, now: float, lower_after: float) -> bool:
    """Whether the user's code has been running for so long that others come first. 0 for ``lower_after``: never."""
    return lower_after > 0 and phase in TIMED and now - since >= lower_after


def time_lost(
    *, wall: float, ran: float, waited: float, runnable: bool, deadline: float, reading: bool = False
) -> float:
    """Seconds of the ``wall`` since it was lowered in which it wanted a processor and had none.

    ``ran`` and ``waited`` as the kernel counts them since then. A wait that still lasts is not in ``waited``: of a
    process that is runnable, all that it did not run counts. One that sleeps in its transition gets nothing for that.
    Who is ``reading`` its state gets all of it back: that end would be taken for a state that cannot be read.
    """
    lost = max(waited, wall - ran) if runnable else waited
    return max(0.0, lost) if reading else min(max(0.0, lost), MOST_LOST * deadline)


class Waited(Pauses):
    """A node's pauses, and what one life lost beside them."""

    def __init__(self, pauses: Pauses, lost: float) -> None:
        self._pauses = pauses
        self._lost = lost

    def spent(self, since: float, now: float) -> float:
        return self._pauses.spent(since, now) - self._lost
