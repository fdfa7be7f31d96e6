"""A server of its own, and services as processes that nobody starts again: what ``scale.py`` measures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from regrow import Client
from regrow.bench.system import BenchError, children, until
from regrow.child_environment import child_environment
from regrow.embedded_redis import EmbeddedRedis
from regrow.settings import load_settings
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.connection import Connection

__all__ = ["NAMESPACE", "Site", "site"]

ROOT = Path(__file__).resolve().parent.parent
NAMESPACE = "scale"
LONG = 900.0


class Site:
    """A client, a second connection that watches, and the services that were started."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.client = Client(url, namespace=NAMESPACE)
        self.keys = self.client.keys
        self.watcher = Connection.open(url, name="regrow-scale", timeout=30.0)
        self._log = (folder / "services.log").open("ab")
        self._path = folder / "services.log"
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._config("slowlog-log-slower-than", "1000")
        self._config("slowlog-max-len", "10000")

    def environment(self) -> dict[str, str]:
        """For a service, and for a command that is timed."""
        paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        return {**child_environment(self.url, NAMESPACE, {}), "PYTHONPATH": paths}

    def start(self, name: str, application: str) -> subprocess.Popen[bytes]:
        """A service; for a node, once it has joined."""
        known = len(self.nodes())
        process = subprocess.Popen(
            [sys.executable, "-m", "regrow", name, application],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        self._running.append((name, process))
        if name == "worker":
            until(lambda: self._alive(process) and len(self.nodes()) > known, "the node joins", LONG)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """SIGKILL; returns when it is gone."""
        process.kill()
        self.gone(process)

    def gone(self, process: subprocess.Popen[bytes]) -> None:
        """It ends, as it was told to; returns when it has."""
        process.wait(timeout=LONG)
        self._running = [(name, each) for name, each in self._running if each is not process]

    def processes(self, name: str) -> list[int]:
        """Every process of the services of this name, what they started included."""
        found = [each.pid for service, each in self._running if service == name]
        for pid in found:
            found += children(pid)
        return found

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """``regrow WORDS``, to its end; ``BenchError`` where it fails (a doctor's warning is none)."""
        done = subprocess.run(
            [sys.executable, "-m", "regrow", *words],
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 1):
            raise BenchError(f"regrow {' '.join(words)} ended with {done.returncode}: {done.stderr[-500:]}")
        return done

    def nodes(self) -> list[str]:
        return self.watcher.command(views.node_ids(self.keys))

    def counter(self, name: str) -> int:
        return self.watcher.command(views.counters(self.keys)).get(name, 0)

    def applied(self) -> int:
        """Signals, of all types of agents."""
        counters = self.watcher.command(views.counters(self.keys))
        return sum(n for name, n in counters.items() if name.startswith("signals_applied_total|"))

    def record(self, agent: str) -> dict[str, str]:
        return self.watcher.command(views.agent_record(self.keys, agent))

    def count(self, *words: str) -> int:
        """The number that a plain command answers with."""
        return self.watcher.command(Command(words, int))

    def info(self, section: str) -> dict[str, str]:
        text = self.watcher.command(Command(("INFO", section), str))
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def commands(self) -> int:
        """How many commands the server ran for its clients so far, those of its scripts left out; ours are two."""
        return int(self.info("stats")["total_commands_processed"])

    def connections(self, name: str) -> int:
        """Open ones of this name."""
        listed = self.watcher.command(Command(("CLIENT", "LIST"), str))
        return listed.count(f"name={name} ")

    def slowest(self) -> tuple[float, str]:
        """The longest command since the last call, in milliseconds, and its name; none under one millisecond."""
        found = self.watcher.command(Command(("SLOWLOG", "GET", "10000"), list))
        self.watcher.command(Command(("SLOWLOG", "RESET"), str))
        rows: list[tuple[int, str]] = [(int(row[2]), str(row[3][0])) for row in found]
        longest, name = max(rows, default=(0, ""))
        return round(longest / 1000, 1), name

    def check(self) -> None:
        """``BenchError`` with the last lines of the log when a service has ended by itself."""
        for _, process in self._running:
            self._alive(process)

    def close(self) -> None:
        for _, process in self._running:
            process.kill()
            process.wait()
        self._log.close()
        self.client.close()
        self.watcher.close()

    def _config(self, name: str, value: str) -> None:
        self.watcher.command(Command(("CONFIG", "SET", name, value), str))

    def _alive(self, process: subprocess.Popen[bytes]) -> bool:
        if process.poll() is not None:
            last = self._path.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
            raise BenchError(f"a service ended with code {process.returncode}: {' | '.join(last)}")
        return True


@contextmanager
def site() -> Generator[Site]:
    """An embedded server in a throw-away folder; everything is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="regrow-scale-"))
    settings = load_settings(state_dir=folder, namespace=NAMESPACE, redis_url="")
    server = EmbeddedRedis(settings.state_folder, program=settings.redis_server)
    try:
        yield from _open(server.start().url, folder)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _open(url: str, folder: Path) -> Iterator[Site]:
    place = Site(url, folder)
    try:
        yield place
    finally:
        place.close()
