"""What tests ask the kernel about processes."""

from __future__ import annotations

import re
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from regrow_workers.spare_process import SPARE

__all__ = [
    "alive",
    "children",
    "cpu_ticks",
    "default_signals",
    "descendants",
    "is_spare",
    "private_bytes",
    "sockets",
    "state",
]


def state(pid: int) -> str:
    """The kernel's letter (``R S D T Z``); empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """Running or stopped, not gone and not a zombie."""
    return state(pid) not in ("", "Z", "X")


def is_spare(pid: int) -> bool:
    """A process that a spawner keeps ready, and that has no agent."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == SPARE
    except OSError:
        return False


def cpu_ticks(pid: int) -> int:
    """Time in its own code so far; a process that spins gets more and more of it."""
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[11])


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def private_bytes(pid: int) -> int:
    """Memory that this process shares with no other."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * sum(int(kb) for kb in re.findall(r"^Private_\w+:\s+(\d+) kB", text, re.MULTILINE))


def sockets(pid: int) -> set[str]:
    """Its sockets, each with the kernel's number for it; the standard ones left out. Empty once it has ended."""
    found: set[str] = set()
    try:
        for each in Path(f"/proc/{pid}/fd").iterdir():
            if int(each.name) > 2:
                found.add(str(each.readlink()))
    except OSError:
        return found
    return {each for each in found if each.startswith("socket:")}


@contextmanager
def default_signals() -> Generator[None]:
    """What is started in here ignores no SIGINT and no SIGHUP, also where the tests run under nohup or in a job."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
