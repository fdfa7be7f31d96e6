"""Finding every process of one run by a mark in its environment, whoever its parent is by now (Linux)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

__all__ = ["MARK", "Marked", "left_over", "marked"]

MARK = "ABUSERS_RUN"

Marked = dict[int, tuple[int, str]]
"""pid -> (its parent's pid, its name)"""


def marked(mark: str) -> Marked:
    """All processes that were started with the mark, and what those started; zombies are none."""
    wanted = f"{MARK}={mark}".encode()
    found: Marked = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        found[int(entry.name)] = int(rest.split()[1]), name
    return found


def left_over(processes: Marked, services: Collection[int], workers: Collection[int]) -> dict[int, str]:
    """Those that are neither a service, nor a node's spawner, nor a worker that has an agent, nor a spare."""
    spawners = {pid for pid, (parent, _) in processes.items() if parent in services}
    known = {*services, *spawners, *workers}
    return {
        pid: name
        for pid, (parent, name) in processes.items()
        if pid not in known and not (parent in spawners and name == "regrow-spare")
    }
