"""What the spawner does about processes that its workers left behind; ``process_tree.py`` has the means."""

from __future__ import annotations

import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final

from regrow_workers import log
from regrow_workers.process_tree import end_strangers, own_children

__all__ = ["LeftProcesses"]

_LOG = logging.getLogger(__name__)

REMEMBERED: Final = 1000
LAST_SWEEPS: Final = 2.0


class LeftProcesses:
    """Of one spawner. Made once the application is loaded: what its imports have started is left alone."""

    def __init__(self) -> None:
        self._own = {os.getpid(), *own_children()}
        self._ended: OrderedDict[int, str] = OrderedDict()

    def note_end(self, pid: int, key: str) -> None:
        """This worker is reaped: whose session bears its number, it was."""
        self._ended[pid] = key
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)

    def end(self, workers: Collection[int]) -> None:
        """On every SIGCHLD: a worker's end makes orphans, and so does the end of each of those."""
        for session, count in end_strangers({*self._own, *workers}).items():
            agent = self._ended.get(session, "").partition("#")[0]
            log.event(_LOG, "left_processes_ended", level=logging.WARNING, agent=agent, count=count)

    def end_all(self, wait: Callable[[], object]) -> None:
        """No worker is left: nothing else may be, either. ``wait`` is a moment; some seconds at most in all."""
        until = time.monotonic() + LAST_SWEEPS
        while own_children() and time.monotonic() < until:
            end_strangers(())
            wait()
