"""A watchdog and nodes as processes, with branches put in and taken out at run time: what supervision tests need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from regrow import Client, Supervisor
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.keys import Keys
from regrow_supervisor.codec import from_fields
from regrow_supervisor.states import SupervisorState
from tests.conftest import PrivateServer, wait_until
from tests.crash.processes import alive, descendants

__all__ = ["Life", "Service", "SupervisedSystem", "Watched", "kill_agent"]

ROOT = Path(__file__).resolve().parents[2]
TIED = ROOT / "regrow" / "tied.py"
LONG = 30.0
"""Seconds for what must happen at all; how quickly is measured by the benchmarks."""


@dataclass(frozen=True, slots=True)
class Life:
    """Who runs an agent: unchanged means untouched."""

    incarnation: int
    pid: int


class Service:
    """One process of the system; it dies with the test's process."""

    def __init__(self, words: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        tied = [sys.executable, "-I", "-S", str(TIED), str(os.getpid()), str(int(signal.SIGKILL))]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*tied, *words],
                env=dict(environment),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def send(self, number: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait(LONG)


class SupervisedSystem:
    """Services of ``tests.crash.supervision_app``, a client, and what Redis says."""

    def __init__(self, server: PrivateServer, tree: str = "tests.crash.supervision_app:tree") -> None:
        self.server = server
        self.tree = tree
        self.keys = Keys("regrow")
        self.client = Client(server.url, timeout=30)
        self.look = Connection.open(server.url, name="test", timeout=30)
        self.services: list[Service] = []

    @classmethod
    @contextmanager
    def running(cls, *, nodes: int = 1, **settings: str) -> Generator[SupervisedSystem]:
        """A server, a watchdog and nodes; nothing is left afterwards."""
        with tempfile.TemporaryDirectory(prefix="regrow-supervision-") as folder:
            server = PrivateServer(Path(folder))
            server.start()
            system = cls(server)
            try:
                system.watchdog(**settings)
                for _ in range(nodes):
                    system.node(**settings)
                system.wait_nodes(nodes)
                yield system
            finally:
                system.end()
                server.kill()

    def end(self) -> None:
        left = [pid for service in self.services for pid in descendants(service.process.pid)]
        for service in self.services:
            service.send(signal.SIGCONT)
            service.kill()
            print(f"--- {service.log.name}", service.log.read_text(errors="replace"), sep="\n")
        self.client.close()
        self.look.close()
        wait_until(lambda: not any(map(alive, left)), "no worker outlives its node", LONG)

    # Processes.

    def start(self, *words: str, **settings: str) -> Service:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("REGROW_", "REDIS_URL"))
        }
        environment = {
            **kept,
            "PYTHONPATH": os.pathsep.join(
                str(ROOT / room) for room in ("signals", "workers", "supervisor", ".")
            ),
            "PYTHONUNBUFFERED": "1",
            "REDIS_URL": self.server.url,
            **settings,
        }
        log = self.server.folder / f"{words[0]}-{len(self.services)}.log"
        service = Service([sys.executable, "-m", "regrow", *words], environment, log)
        self.services.append(service)
        return service

    def watchdog(self, tree: str = "", **settings: str) -> Service:
        return self.start("watchdog", tree or self.tree, **settings)

    def node(self, **settings: str) -> Service:
        return self.start("worker", self.tree, **settings)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """``regrow WORDS`` as a person types it."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("REGROW_")}
        environment = {**kept, "REDIS_URL": self.server.url}
        return subprocess.run(
            [sys.executable, "-m", "regrow", *words],
            env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def wait_nodes(self, count: int) -> None:
        def ready() -> bool:
            return len(self.node_ids()) == count and "stage" in self.paths()

        wait_until(ready, f"{count} nodes have joined and the tree is stored", LONG)

    # What Redis says.

    def node_ids(self) -> list[str]:
        return self.look.command(views.node_ids(self.keys))

    def node_of(self, service: Service) -> str:
        """The id of the node that this process is."""
        return next(node for node in self.node_ids() if f"-{service.process.pid}-" in node)

    def paths(self) -> list[str]:
        return self.look.command(views.supervisor_paths(self.keys))

    def record(self, agent: str) -> dict[str, str]:
        return self.look.command(views.agent_record(self.keys, agent))

    def supervisor(self, path: str) -> SupervisorState:
        record = self.look.command(views.supervisor_record(self.keys, path))
        return from_fields(record)

    def counter(self, name: str) -> int:
        return self.look.command(views.counters(self.keys)).get(name, 0)

    def life(self, agent: str) -> Life:
        record = self.record(agent)
        return Life(int(record.get("incarnation") or 0), int(record.get("pid") or 0))

    def is_running(self, agent: str) -> bool:
        return self.record(agent).get("status") == "running"

    def newest_event(self) -> str:
        return self.look.command(views.newest_entry(self.keys.events)) or "0-0"

    def events(self, after: str = "0-0") -> list[dict[str, str]]:
        return [fields for _, fields in self.look.command(views.events(self.keys, after=after, count=10_000))]

    def at_rest(self, path: str) -> bool:
        """Nothing is under way in this branch, nor in the watchdog's mailbox."""
        waiting = self.look.command(Command(("XLEN", self.keys.exits), int))
        branch = [each for each in self.paths() if each == path or each.startswith(f"{path}/")]
        return waiting == 0 and all(_is_idle(self.supervisor(each)) for each in branch)

    @contextmanager
    def branch(self, branch: Supervisor) -> Generator[Watched]:
        """A branch under the root, from its start to its removal."""
        self.client.start_child("stage", branch, timeout=LONG)
        try:
            yield Watched(self, f"stage/{branch.name}")
        finally:
            self.client.terminate_child("stage", branch.name, timeout=LONG)
            self.client.delete_child("stage", branch.name, timeout=LONG)


@dataclass(slots=True)
class Watched:
    """A branch, as it was when the test began to watch, and what happened in it since."""

    system: SupervisedSystem
    path: str
    lives: dict[str, Life] = field(default_factory=dict[str, Life])
    since: str = ""

    def watch(self) -> None:
        """Take down who runs now, once all is at rest."""
        wait_until(lambda: self.system.at_rest(self.path), f"{self.path} is at rest", LONG)
        self.lives = {agent: self.system.life(agent) for agent in self.agents()}
        self.since = self.system.newest_event()

    def agents(self) -> list[str]:
        """Of the whole branch, in the order of their start."""
        return self._agents(self.path)

    def _agents(self, path: str) -> list[str]:
        found: list[str] = []
        for child in self.system.supervisor(path).children.values():
            found += self._agents(f"{path}/{child.id}") if child.is_supervisor else [child.id]
        return found

    def untouched(self) -> set[str]:
        """Those whose incarnation and process are what they were."""
        return {agent for agent, life in self.lives.items() if self.system.life(agent) == life}

    def story(self) -> list[str]:
        """Ends and starts in the order in which they happened: ``"-c"``, ``"+a"``."""
        signs = {"exited": "-", "started": "+"}
        return [
            f"{signs[event['event']]}{event['agent']}"
            for event in self.system.events(self.since)
            if event["event"] in signs and event["agent"] in self.lives
        ]

    def reports(self, context: str, path: str = "") -> list[tuple[str, str]]:
        """(agent, reason) of the reports of a kind by this supervisor, or by the one at ``path`` below it."""
        return [
            (event.get("agent", ""), event.get("reason", ""))
            for event in self.system.events(self.since)
            if event["event"] == context and event.get("supervisor") == self.path + path
        ]


def _is_idle(state: SupervisorState) -> bool:
    return state.waiting is None and not state.queue and not state.plan and not state.dues


def kill_agent(pid: int, number: int = signal.SIGKILL) -> None:
    """By pidfd: should the process have ended just now, no other one is hit."""
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)
