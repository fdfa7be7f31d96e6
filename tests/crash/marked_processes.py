"""Finding every process of one test by a mark in its environment: orphans have it too, whoever their parent is now."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from tests.crash.processes import is_spare

__all__ = ["MARK", "Marked", "end_all", "marked", "workers_of_nodes"]

MARK = "REGROW_TEST_RUN"


@dataclass(frozen=True, slots=True)
class Marked:
    """A process that lives (or is stopped; a zombie has no environment any more)."""

    pid: int
    parent: int
    command: str


def marked(mark: str) -> dict[int, Marked]:
    """All processes that were started with ``MARK=mark`` in their environment, and all that were forked from those."""
    wanted = f"{MARK}={mark}".encode()
    found: dict[int, Marked] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            words = (entry / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        pid = int(entry.name)
        found[pid] = Marked(pid, parent, b" ".join(words).decode(errors="replace"))
    return found


def workers_of_nodes(processes: dict[int, Marked]) -> set[int]:
    """The workers among them, without spares: what a node's spawner forked (a fork has its spawner's command line)."""
    found: set[int] = set()
    for each in processes.values():
        spawner = processes.get(each.parent)
        if spawner is None or "regrow_workers.spawner" not in spawner.command or is_spare(each.pid):
            continue
        node = processes.get(spawner.parent)
        # The spawner of a killed node is an orphan for a moment; its workers count as long as they live.
        if node is None or " worker " in node.command or "run_node" in node.command:
            found.add(each.pid)
    return found


def end_all(mark: str) -> list[Marked]:
    """SIGKILL to whatever is left, and say what it was."""
    left = list(marked(mark).values())
    for each in left:
        try:
            os.kill(each.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return left
