"""A seam for crash tests: a worker that kills itself at a given step. Without fail points it costs one lookup."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

__all__ = ["FailPoints"]


class FailPoints:
    """``{"after_read": 3}``: SIGKILL at the third time this worker reaches that step.

    Only in an agent's first incarnation, so that the next one goes on.
    """

    def __init__(self, points: Mapping[str, int], incarnation: int) -> None:
        self._left = dict(points) if incarnation == 1 else {}
        self.armed = bool(self._left)
        """Whether any step is of interest: nothing need be called for one that is not."""

    def reach(self, step: str) -> None:
        left = self._left.get(step)
        if left is None:
            return
        if left <= 1:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left[step] = left - 1
