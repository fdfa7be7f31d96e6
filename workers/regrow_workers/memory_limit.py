"""``max_memory``: how much private memory a worker's process may hold.

Two nets, for two ways to grow:

* The node looks from outside, a few times a second: at all that work, and once a second at everybody, with the
  processes that they started. First at ``statm``, which is cheap and never says too little; where that is over the
  limit at ``status``, and only then at ``smaps_rollup``, which knows what is still shared with the spawner.
* A worker that wants gigabytes at once would be through before anybody looks: the kernel refuses it (RLIMIT_DATA) what
  goes beyond twice its limit. Python turns that into ``MemoryError``, which ends the worker if its handler lets it.

Linux only: elsewhere nobody is limited.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

from regrow_workers.slots import Phase, Reading

__all__ = ["MemoryWatch", "excess", "lift_limit", "limit_jumps", "own_bytes", "private_bytes"]

_PAGE: Final = os.sysconf("SC_PAGESIZE")
_EVERYBODY: Final = 1.0
_RESIDENT: Final = ("VmRSS:", "VmSwap:")
_PRIVATE: Final = ("Private_Clean:", "Private_Dirty:", "Swap:")
_WORKING: Final = frozenset({Phase.BOOT, Phase.APPLYING, Phase.STORING})


def limit_jumps(max_memory: int) -> None:
    """In the worker, once: from now on it may map twice its limit, beyond what it has mapped already."""
    if sys.platform != "linux":
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = _statm("self")[5] + 2 * max_memory
    if hard in (resource.RLIM_INFINITY, -1) or soft < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def lift_limit() -> None:
    """In the worker, after a ``MemoryError``: it needs a little more, to say what it died of."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


class MemoryWatch:
    """Of one node: who is over the limit now. ``begin`` comes before each round."""

    def __init__(self) -> None:
        self._everybody_at = 0.0
        self._everybody = False

    def begin(self, now: float) -> None:
        self._everybody = now >= self._everybody_at
        if self._everybody:
            self._everybody_at = now + _EVERYBODY

    def is_due(self, reading: Reading) -> bool:
        """Whether this worker is looked at in this round."""
        return self._everybody or reading.phase in _WORKING or reading.has_children


def excess(family: Collection[int], max_memory: int) -> int:
    """The private bytes of these processes together if they are over ``max_memory``, else 0."""
    for look in (_mapped, _resident_or_swapped, private_bytes):  # from cheap to exact, none says too little
        held = sum(map(look, family))
        if held <= max_memory:
            return 0
    return held


def _mapped(pid: int) -> int:
    try:
        words = _statm(str(pid))
    except OSError:  # it has ended, or there is no /proc; so below
        return 0
    return words[5] + words[2]


def _resident_or_swapped(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(words[1]) * 1024 for words in map(str.split, lines) if words[0] in _RESIDENT)


def private_bytes(pid: int) -> int:
    """What the process alone holds, also what of it was swapped out; pages shared with the spawner do not count."""
    total = 0
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        words = line.split()
        if words[0] in _PRIVATE:
            total += int(words[1]) * 1024
    return total


def own_bytes() -> int:
    """About what this process alone holds: cheap, and good for telling growth. 0 where there is no /proc."""
    try:
        words = _statm("self")
    except OSError:
        return 0
    return words[1] - words[2]


def _statm(who: str) -> list[int]:
    """Bytes: mapped, resident, shared, text, 0, data and stack, 0."""
    with open(f"/proc/{who}/statm", "rb") as file:  # noqa: PTH123  a third of pathlib's time, for every worker
        return [int(word) * _PAGE for word in file.read().split()]
