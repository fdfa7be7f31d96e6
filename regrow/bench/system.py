"""A system to measure: started in a throw-away folder, with a watcher that is told of each commit by Redis itself."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from regrow.bench.app import AGENT
from regrow.settings import load_settings
from regrow.up import Stack
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.client import Client
from regrow_signals.connection import Connection
from regrow_signals.errors import RegrowError

__all__ = [
    "APPLICATION",
    "BenchError",
    "System",
    "cpu_seconds",
    "children",
    "kill_worker",
    "percentile",
    "pid_of_redis",
    "private_bytes",
    "running_stack",
    "running_system",
    "summary",
    "until",
]

APPLICATION = "regrow.bench.app:tree"
START_SECONDS = 30.0


class BenchError(RegrowError):
    """Something that must come true for a measurement did not."""


class System:
    """What a measurement uses: a client, a second connection that watches, and the pid of the agent's worker."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.url = stack.url
        self.client = Client(stack.url, namespace=stack.settings.namespace, limits=stack.settings.limits)
        self.keys = self.client.keys
        self.watcher = Connection.open(stack.url, name="regrow-bench")

    def record(self) -> dict[str, str]:
        """The agent's record."""
        return self.watcher.command(views.agent_record(self.keys, AGENT))

    def wait_running(self) -> int:
        """Until the agent runs; its worker's pid."""
        until(lambda: self.record().get("status") == "running", "the agent runs", START_SECONDS)
        return int(self.record()["pid"])

    def last_commit(self) -> str:
        """The id of the newest journal entry; '0-0' before the first."""
        newest = self.watcher.command(views.newest_entry(self.keys.journal(AGENT)))
        return newest or "0-0"

    def wait_commit(self, after: str, timeout_ms: int = 4000) -> str:
        """Sleep in Redis until the agent commits once more; the id of the journal entry."""
        entries = self.watcher.read_stream(self.keys.journal(AGENT), after, count=1, block_ms=timeout_ms)
        if not entries:
            raise BenchError(f"the agent did not commit within {timeout_ms} ms")
        return entries[0][0]

    def close(self) -> None:
        """Close both connections."""
        self.client.close()
        self.watcher.close()


@contextmanager
def running_system(
    environment: Mapping[str, str] | None = None, *, application: str = APPLICATION
) -> Generator[System]:
    """A system whose agent runs; everything is gone afterwards."""
    with running_stack(application, services=("watchdog", "worker"), environment=environment) as system:
        system.wait_running()
        yield system


@contextmanager
def running_stack(
    application: str,
    *,
    services: Sequence[str],
    environment: Mapping[str, str] | None = None,
    command: Callable[[str], Sequence[str]] | None = None,
) -> Generator[System]:
    """An embedded server and these services; everything is gone afterwards. ``command``: how one is started."""
    folder = Path(tempfile.mkdtemp(prefix="regrow-bench-"))
    try:
        settings = load_settings(state_dir=folder, namespace="bench", redis_url="")
        with Stack(
            application,
            settings=settings,
            services=services,
            environment=dict(environment or {}),
            command=command,
        ) as stack:
            system = System(stack)
            try:
                yield system
            finally:
                system.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def until(condition: Callable[[], bool], what: str, seconds: float, *, pause: float = 0.005) -> None:
    """Look every ``pause`` seconds; ``BenchError`` names what never came true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise BenchError(f"did not come true within {seconds:g} s: {what}")
        time.sleep(pause)


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def summary(values_ms: Sequence[float]) -> dict[str, float]:
    """``median_ms``, ``p99_ms``, ``max_ms`` of times in milliseconds."""
    return {
        "median_ms": round(statistics.median(values_ms), 3),
        "p99_ms": round(percentile(values_ms, 99), 3),
        "max_ms": round(max(values_ms), 3),
    }


def private_bytes(pid: int) -> int:
    """Memory that only this process has (Linux)."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    rows = [line.split() for line in text.splitlines()]
    return sum(int(row[1]) * 1024 for row in rows if row[0] in ("Private_Clean:", "Private_Dirty:"))


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used (Linux; in hundredths of a second)."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """Processes that it has started and that live (Linux)."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]


def pid_of_redis(system: System) -> int:
    """Of the server's process."""
    text = system.watcher.command(Command(("INFO", "server"), str))
    rows = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return int(rows["process_id"])


def kill_worker(pid: int, signal_number: int) -> None:
    """By pidfd: should the process have ended just now, no other one is hit."""
    import signal  # only here

    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal_number)
    finally:
        os.close(descriptor)
