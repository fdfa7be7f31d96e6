"""What the examples share: an application as real processes on a Redis of its own, kills, a provider over HTTP.

with running("examples.chat.app:tree", environment={"LLM_URL": url}) as system:
    system.client.send(...)
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import redis

from regrow import Client, RegrowError
from regrow.settings import load_settings
from regrow.up import Stack

__all__ = [
    "Finding",
    "ProviderHandler",
    "Killer",
    "NotInTime",
    "Running",
    "conclude",
    "running",
    "serving",
    "until",
]

NAMESPACE = "example"


class NotInTime(RegrowError):
    """Something that must come true did not; the message names it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that must hold."""

    holds: bool
    text: str


def conclude(findings: Sequence[Finding]) -> int:
    """Prints them; the exit code, 1 if one of them does not hold."""
    for finding in findings:
        print("  ok   " if finding.holds else "  FAIL ", finding.text, sep="")
    return 0 if all(finding.holds for finding in findings) else 1


def until(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """Look until it is true; ``NotInTime`` names what never came true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise NotInTime(f"not within {seconds:g} s: {what}")
        time.sleep(0.02)


class Running:
    """A system at work: its client, and what Redis says by the keys of docs/redis.md."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.client = Client(stack.url, namespace=NAMESPACE)
        self._redis: Any = redis.Redis.from_url(stack.url, decode_responses=True)  # pyright: ignore[reportUnknownMemberType]

    def close(self) -> None:
        self.client.close()
        self._redis.close()

    def agents(self) -> list[str]:
        """Every registered agent."""
        found: list[str] = self._redis.zrange(f"{{{NAMESPACE}}}:agents", 0, -1)
        return found

    def record(self, agent: str) -> Mapping[str, str]:
        """The agent's hash; empty before it is registered."""
        found: Mapping[str, str] = self._redis.hgetall(f"{{{NAMESPACE}}}:agent:{agent}")
        return found

    def pid(self, agent: str) -> int:
        """Of the process that runs the agent now; 0 if none does."""
        record = self.record(agent)
        return int(record.get("pid") or 0) if record.get("status") == "running" else 0

    def is_up(self) -> bool:
        """The tree is there, and whoever stands in it has been started."""
        key = f"{{{NAMESPACE}}}:supervisor"
        supervisors = [
            self._redis.hget(f"{key}:{path}", "status") for path in self._redis.smembers(f"{key}s")
        ]
        agents = {self.record(agent)["status"] for agent in self.agents()}
        return set(supervisors) == {"running"} and agents <= {"running", "idle", "queued"}

    def waiting(self) -> int:
        """Signals that no agent has applied yet."""
        return sum(self._redis.xlen(f"{{{NAMESPACE}}}:mailbox:{agent}") for agent in self.agents())

    def open_effects(self) -> int:
        """Committed effects whose outcome is not told yet."""
        queues = (f"{{{NAMESPACE}}}:effects", f"{{{NAMESPACE}}}:effects-async")
        return sum(self._redis.zcard(queue) for queue in queues)

    def dead_letters(self) -> list[str]:
        """Of all agents: who, what and why."""
        return [
            f"{agent}: {letter['type']}: {letter['reason']}"
            for agent in self.agents()
            for _, letter in self.client.dead_letters(agent)
        ]

    def is_idle(self) -> bool:
        """No signal waits and no effect is open. Looked at in this order: an outcome is a signal, and a signal may
        order an effect."""
        return self.open_effects() == 0 and self.waiting() == 0 and self.open_effects() == 0


@contextmanager
def running(
    application: str,
    *,
    services: Sequence[str] = ("watchdog", "worker", "effects"),
    environment: Mapping[str, str] | None = None,
) -> Generator[Running]:
    """``services`` may be several of a kind: ``watchdog-1``, ``watchdog-2``. Should it fail, their log stays."""
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="regrow-example-")))
        log = cleanup.enter_context((folder / "log").open("w", encoding="utf-8"))
        stack = Stack(
            application,
            settings=load_settings(state_dir=folder, namespace=NAMESPACE, redis_url=""),
            services=services,
            environment=environment,
            output=lambda name, line: print(name, "|", line, file=log, flush=True),
            command=lambda name: [sys.executable, "-m", "regrow", name.partition("-")[0], application],
        )
        with stack:
            system = Running(stack)
            try:
                until(system.is_up, "the whole tree runs", 120)
                yield system
            except Exception:
                lines = (folder / "log").read_text(encoding="utf-8").splitlines()
                print("the log's last lines:", *lines[-20:], sep="\n", file=sys.stderr)
                raise
            finally:
                system.close()


class Killer:
    """SIGKILL at random to what a running system consists of.

    ``worker``: a process that runs agents; ``executor``: one that runs effects; ``node``: the parent of either, with
    all below it; ``watchdog``: the leader or one that stands by.
    """

    KINDS: Mapping[str, int] = {"worker": 5, "executor": 3, "node": 1, "watchdog": 1}
    """How often each is chosen."""

    def __init__(self, system: Running, seed: int) -> None:
        self._stack = system.stack
        self._random = random.Random(seed)
        self.killed: Counter[str] = Counter()

    def strike(self, pace: float) -> None:
        """Wait for a random time, ``pace`` seconds in the mean, and kill one process."""
        time.sleep(self._random.expovariate(1 / pace))
        kind = self._random.choices(list(self.KINDS), list(self.KINDS.values()))[0]
        victims = self._victims(kind)
        if victims and kill(*self._random.choice(victims)):
            self.killed[kind] += 1

    def kill_all(self, *kinds: str) -> int:
        """All processes of these kinds, at once; how many."""
        killed = [kind for kind in kinds for victim in self._victims(kind) if kill(*victim)]
        self.killed.update(killed)
        return len(killed)

    def _victims(self, kind: str) -> list[tuple[int, int]]:
        """Processes of a kind, each with its parent."""
        services = self._stack.processes().items()
        if kind == "watchdog":
            return [(pid, os.getpid()) for name, pid in services if name.startswith("watchdog")]
        if kind == "node":
            return [(pid, os.getpid()) for name, pid in services if name.startswith(("worker", "effects"))]
        of = "worker" if kind == "worker" else "effects"
        spawners = [spawner for name, pid in services if name.startswith(of) for spawner in children(pid)]
        return [(pid, spawner) for spawner in spawners for pid in children(spawner)]


def children(pid: int) -> list[int]:
    """As the kernel tells it; empty when there is no such process (any more)."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def kill(pid: int, parent: int) -> bool:
    """By a descriptor, looked at once it is held: a number may have become another process's. Was it killed?"""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if pid not in children(parent):
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


class ProviderHandler(BaseHTTPRequestHandler):
    """A provider's side of HTTP, silent about who called."""

    def body(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        return read

    def answer(self, value: object, status: int = 200) -> None:
        self.answer_text(json.dumps(value), status)

    def answer_text(self, text: str, status: int = 200) -> None:
        """A caller that was killed meanwhile hears nothing, and that is no error of ours."""
        try:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def hung_up(self) -> bool:
        """Has the caller gone meanwhile?"""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name for it
        """Nothing."""


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Generator[str]:
    """The handler's server in threads of this process, on a free port; its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
