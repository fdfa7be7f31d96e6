"""Who has more than its share of memory or of processes; what its handlers started counts as its own."""

from __future__ import annotations

import logging

from regrow_workers import log
from regrow_workers.lives import Life
from regrow_workers.memory_limit import MemoryWatch, excess
from regrow_workers.process_tree import descendants
from regrow_workers.reasons import Killed
from regrow_workers.slots import Reading

__all__ = ["over_share"]

_LOG = logging.getLogger(__name__)


def over_share(watch: MemoryWatch, life: Life, reading: Reading) -> Killed | None:
    """Why the life has to be ended, said in its ``why`` and in the log; None, also if it is not looked at now."""
    if life.killed is not None or life.pid is None or not watch.is_due(reading):
        return None
    below = descendants(life.pid, life.max_processes + 1) if reading.has_children or life.has_started else []
    if len(below) > life.max_processes:
        life.why = f"it started more than {life.max_processes} processes (max_processes)"
        _tell(life, "over_processes", max_processes=life.max_processes)
        return Killed.PROCESSES
    held = excess((life.pid, *below), life.max_memory)
    if not held:
        return None
    life.why = f"it held {held:,} bytes of private memory; max_memory is {life.max_memory:,}"
    _tell(life, "over_memory", private_bytes=held, max_memory=life.max_memory)
    return Killed.MEMORY


def _tell(life: Life, event: str, **found: int) -> None:
    fields = {"agent": life.agent, "incarnation": life.incarnation, **found}
    log.event(_LOG, event, level=logging.WARNING, **fields)
