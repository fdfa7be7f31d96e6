"""A seam for crash tests: a worker that kills itself at a given step. Without fail points it costs one lookup."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

__all__ = ["FailPoints", "life_of", "step_of"]


class FailPoints:
    """``{"after_read": 3}``: SIGKILL at the third time this worker reaches that step.

    Only in an agent's first incarnation (a node's first slot), so that the next one goes on; ``"after_read#2"`` is for
    the second.
    """

    def __init__(self, points: Mapping[str, int], incarnation: int) -> None:
        self._left = {
            step_of(point): times for point, times in points.items() if life_of(point) == incarnation
        }
        self.armed = bool(self._left)
        """Whether any step is of interest: nothing need be called for one that is not."""

    def reach(self, step: str) -> None:
        left = self._left.get(step)
        if left is None:
            return
        if left <= 1:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left[step] = left - 1


def step_of(point: str) -> str:
    return point.partition("#")[0]


def life_of(point: str) -> int:
    """Which incarnation it is for; 0, of none, where that is no number."""
    _, mark, number = point.partition("#")
    if not mark:
        return 1
    return int(number) if number.isdecimal() else 0
