"""Supervision: how long a decision takes, and how long until agents work again after the larger losses.

Default settings throughout. Each time runs from the instant of the kill until every agent concerned has committed a
signal that was sent to it right after.
"""

from __future__ import annotations

import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regrow.bench.app import Add
from regrow.bench.many import AGENTS
from regrow.bench.system import BenchError, kill_worker, percentile, until
from regrow.child_environment import child_environment
from regrow.embedded_redis import EmbeddedRedis
from regrow.settings import load_settings
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.client import Client, Message
from regrow_signals.connection import Connection
from regrow_supervisor.decide import decide
from regrow_supervisor.events import Event, Exited, Started, StartTree
from regrow_supervisor.states import SupervisorState

__all__ = ["measure_supervision"]

APPLICATION = "regrow.bench.many:tree"
NAMESPACE = "bench"
START_SECONDS = 60.0
HEAL_SECONDS = 60.0


def measure_supervision(rounds: int = 3, children: int = 1000) -> dict[str, Any]:
    """All figures; of the losses the worst of ``rounds``."""
    report: dict[str, Any] = {
        "what": "a decision; then each loss until all agents concerned have committed their next signal",
        "agents": len(AGENTS),
        "rounds": rounds,
        **decision_times(children),
    }
    for name, lose in (
        ("killed_at_once", _killed_at_once),
        ("node_lost", _node_lost),
        ("watchdog_lost", _watchdog_lost),
    ):
        with _running() as fleet:
            times = [lose(fleet) for _ in range(rounds)]
        report[f"{name}_median_s"] = round(statistics.median(times), 3)
        report[f"{name}_max_s"] = round(max(times), 3)
    return report


def decision_times(children: int, events: int = 500) -> dict[str, float]:
    """One supervisor of so many children: a death and the start that follows, each a decision of its own."""
    specs = [{"id": f"c{n}", "start": {"type": "x"}} for n in range(children)]
    definition = {
        "strategy": "one_for_one",
        "max_restarts": 10 * events,
        "max_seconds": 5,
        "children": specs,
    }
    states: dict[str, SupervisorState] = {}
    states.update(decide(states, StartTree(path="many", definition=definition), 0).states)
    for n in range(children):
        states.update(decide(states, Started(path="many", child=f"c{n}", incarnation=1), 0).states)
    times: list[float] = []
    for n in range(events):
        child = f"c{n % children}"
        number = states["many"].children[child].incarnation
        death = Exited(path="many", child=child, incarnation=number, reason="signal:SIGKILL")
        start = Started(path="many", child=child, incarnation=number + 1)
        times += [_one_decision(states, death), _one_decision(states, start)]
    return {
        f"decision_{children}_children_median_ms": round(statistics.median(times), 4),
        f"decision_{children}_children_p99_ms": round(percentile(times, 99), 4),
    }


def _one_decision(states: dict[str, SupervisorState], event: Event) -> float:
    began = time.perf_counter()
    decision = decide(states, event, 1000)
    elapsed = (time.perf_counter() - began) * 1000
    if not decision.states:
        raise BenchError(f"{event} was not taken")
    states.update(decision.states)
    return elapsed


class _Fleet:
    """Watchdogs and nodes as processes of their own, which nobody starts again."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.client = Client(url, namespace=NAMESPACE)
        self.keys = self.client.keys
        self.watcher = Connection.open(url, name="regrow-bench")
        self.processes: list[subprocess.Popen[bytes]] = []
        self._path = folder / "services.log"
        self._log = self._path.open("ab")

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """A service; for a node, once it has joined."""
        known = len(self.node_ids())
        process = subprocess.Popen(
            [sys.executable, "-m", "regrow", name, APPLICATION],
            env=child_environment(self.url, NAMESPACE, {}),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        self.processes.append(process)
        if name == "worker":
            until(lambda: len(self.node_ids()) > known, "the node joins", START_SECONDS)
        return process

    def node_ids(self) -> list[str]:
        return self.watcher.command(views.node_ids(self.keys))

    def node_of(self, process: subprocess.Popen[bytes]) -> str:
        return next(node for node in self.node_ids() if f"-{process.pid}-" in node)

    def records(self, *fields: str) -> list[dict[str, str]]:
        return self.watcher.pipeline(views.agent_records(self.keys, list(AGENTS), *fields))

    def wait_all_run(self) -> None:
        def all_run() -> bool:
            self.check()
            return all(record["status"] == "running" for record in self.records("status"))

        until(all_run, "all agents run", START_SECONDS)

    def feed(self, agents: Sequence[str]) -> None:
        """One signal for each."""
        for result in self.client.send_many([Message(agent, Add()) for agent in agents]):
            if isinstance(result, Exception):
                raise result

    def incarnations(self) -> dict[str, int]:
        found = self.records("incarnation")
        return {agent: int(record["incarnation"]) for agent, record in zip(AGENTS, found, strict=True)}

    def heal(self, agents: Sequence[str], before: Mapping[str, int]) -> None:
        """Feed them, and wait until each has a new life that runs and has nothing left to do.

        A worker whose node was killed may live on for some milliseconds, and commit: that is not healed.
        """
        self.feed(agents)
        lengths = [views.mailbox_length(self.keys, agent) for agent in agents]
        records = views.agent_records(self.keys, list(agents), "status", "incarnation")

        def healed() -> bool:
            answers = self.watcher.pipeline([*records, *lengths])
            lives, waiting = answers[: len(agents)], answers[len(agents) :]
            return not any(waiting) and all(
                life["status"] == "running" and int(life["incarnation"]) > before[agent]
                for agent, life in zip(agents, lives, strict=True)
            )

        until(healed, "all have a new life and have committed their signal", HEAL_SECONDS)

    def check(self) -> None:
        """``BenchError`` with the last lines of the log when a service has ended that nobody killed."""
        for process in self.processes:
            if process.poll() is not None:
                last = self._path.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
                raise BenchError(f"a service ended with code {process.returncode}: {' | '.join(last)}")

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self._log.close()
        self.client.close()
        self.watcher.close()


@contextmanager
def _running() -> Generator[_Fleet]:
    """A server, a watchdog and a node with all agents; everything is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="regrow-bench-"))
    settings = load_settings(state_dir=folder, namespace=NAMESPACE, redis_url="")
    server = EmbeddedRedis(settings.state_folder, program=settings.redis_server)
    try:
        fleet = _Fleet(server.start().url, folder)
        try:
            fleet.start("watchdog")
            fleet.start("worker")
            fleet.wait_all_run()
            yield fleet
        finally:
            fleet.close()
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _killed_at_once(fleet: _Fleet) -> float:
    fleet.wait_all_run()
    before = fleet.incarnations()
    pids = [int(record["pid"]) for record in fleet.records("pid")]
    began = time.perf_counter()
    for pid in pids:
        kill_worker(pid, signal.SIGKILL)
    fleet.heal(AGENTS, before)
    return time.perf_counter() - began


def _node_lost(fleet: _Fleet) -> float:
    """All agents are on one node; it is killed whole, and another one stands by."""
    doomed = fleet.processes[-1]
    fleet.start("worker")
    fleet.wait_all_run()
    node = fleet.node_of(doomed)
    if any(record["node"] != node for record in fleet.records("node")):
        raise BenchError("not all agents are on the node that is to be lost")
    before = fleet.incarnations()
    began = time.perf_counter()
    doomed.kill()
    fleet.heal(AGENTS, before)
    elapsed = time.perf_counter() - began
    doomed.wait()
    fleet.processes.remove(doomed)
    return elapsed


def _watchdog_lost(fleet: _Fleet) -> float:
    """The leader is killed, and an agent in the gap; a standby takes over."""
    leader = fleet.processes.pop(0)
    standby = fleet.start("watchdog")
    fleet.processes.remove(standby)
    fleet.processes.insert(0, standby)
    until(lambda: _connected(fleet, 2), "the standby stands by", START_SECONDS)
    victim, before = AGENTS[0], fleet.incarnations()
    pid = int(fleet.records("pid")[0]["pid"])
    began = time.perf_counter()
    leader.kill()
    kill_worker(pid, signal.SIGKILL)
    fleet.heal([victim], before)
    elapsed = time.perf_counter() - began
    leader.wait()
    return elapsed


def _connected(fleet: _Fleet, watchdogs: int) -> bool:
    listed = fleet.watcher.command(Command(("CLIENT", "LIST"), str))
    return listed.count("name=regrow:watchdog ") == watchdogs
