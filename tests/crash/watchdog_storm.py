"""Watchdogs killed and stopped at random instants while agents die: what has to be true in the end.

Every wanted agent runs once, each death led to one restart, and all counts agree.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field

from regrow import Supervisor
from tests.conftest import wait_until
from tests.crash.processes import alive, children, is_spare
from tests.crash.supervision_app import player
from tests.crash.supervision_harness import LONG, Service, SupervisedSystem, Watched, kill_agent

__all__ = ["Storm", "storm_settings"]

AGENTS = 8
WATCHDOGS = 3


def storm_settings() -> dict[str, str]:
    """A short lease, so that an instant costs well under a second."""
    return {"REGROW_LEASE": "0.6", "REGROW_HEARTBEAT": "0.3", "REGROW_NODE_TIMEOUT": "5"}


@dataclass
class Storm:
    """One system with a branch of agents; ``run`` makes the weather and ``check`` says what is wrong, if anything."""

    system: SupervisedSystem
    seed: int
    name: str = "storm"
    deaths: Counter[str] = field(default_factory=Counter[str])
    frozen: list[Service] = field(default_factory=list[Service])
    watchdogs: list[Service] = field(default_factory=list[Service])

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.agents = [f"{self.name}-{n}" for n in range(AGENTS)]
        self._killed: set[tuple[str, int]] = set()
        self.branch = Watched(self.system, f"stage/{self.name}")

    def tree(self) -> Supervisor:
        children = [player(agent) for agent in self.agents]
        return Supervisor(self.name, children, max_restarts=100_000, max_seconds=1)

    def run(self, instants: int) -> None:
        """From the start of the branch until all is calm again."""
        self.watchdogs = [service for service in self.system.services if "watchdog" in service.log.name]
        while len(self.watchdogs) < WATCHDOGS:
            self._another()
        self.system.client.start_child("stage", self.tree(), timeout=LONG)
        self.branch.watch()
        for _ in range(instants):
            self._instant()
        self._wake_all()
        wait_until(self._calm, "all agents run again and nothing is under way", 2 * LONG)

    def check(self) -> list[str]:
        """What is not as it must be."""
        wrong: list[str] = []
        lives = {agent: self.system.life(agent) for agent in self.agents}
        for agent, life in lives.items():
            deaths, restarts = self.deaths[agent], int(self.system.record(agent)["restarts"])
            if restarts != deaths or life.incarnation != deaths + 1:
                wrong.append(f"{agent}: {deaths} deaths, {restarts} restarts, incarnation {life.incarnation}")
            if not alive(life.pid):
                wrong.append(f"{agent}: pid {life.pid} is not there")
        workers = self._workers()
        if sorted(workers) != sorted(life.pid for life in lives.values()):
            wrong.append(f"workers {workers} are not those of the records {lives}")
        counted = self.system.counter(f"restarts_total|supervisor={self.branch.path}|reason=signal")
        if counted != sum(self.deaths.values()):
            wrong.append(f"{sum(self.deaths.values())} deaths, {counted} counted")
        return wrong

    def _instant(self) -> None:
        for agent in self.dice.sample(self.agents, self.dice.randint(1, 4)):
            self._kill_agent(agent)
        end = time.monotonic() + self.dice.random() * 0.05
        wait_until(lambda: time.monotonic() >= end, "a random instant")
        leader = self._leader()
        if leader is None:
            return
        if self.dice.random() < 0.3:
            leader.kill()
            self.watchdogs.remove(leader)
            self._another()
        else:
            leader.send(signal.SIGSTOP)
            self.frozen.append(leader)
        if len(self.frozen) >= len(self.watchdogs) - 1:
            self._wake_all()
        # Only a leader that is awake answers.
        self.system.client.count_children(self.branch.path, timeout=LONG)

    def _kill_agent(self, agent: str) -> None:
        record = self.system.record(agent)
        life = (agent, int(record["incarnation"]))
        if record["status"] != "running" or life in self._killed:
            return
        try:
            kill_agent(int(record["pid"]))
        except ProcessLookupError:
            return
        self._killed.add(life)
        self.deaths[agent] += 1

    def _leader(self) -> Service | None:
        """Whoever said last that it leads, of those that are awake."""
        for service in self.watchdogs:
            if service in self.frozen:
                continue
            said = [line for line in service.log.read_text().splitlines() if "leading" in line]
            if said and "not_leading" not in said[-1]:
                return service
        return None

    def _another(self) -> None:
        self.watchdogs.append(self.system.watchdog(**storm_settings()))

    def _wake_all(self) -> None:
        for service in self.frozen:
            service.send(signal.SIGCONT)
        self.frozen.clear()

    def _workers(self) -> list[int]:
        (node,) = [service for service in self.system.services if "worker" in service.log.name]
        forked = [pid for spawner in children(node.process.pid) for pid in children(spawner)]
        return [pid for pid in forked if alive(pid) and not is_spare(pid)]

    def _calm(self) -> bool:
        return (
            all(map(self.system.is_running, self.agents))
            and self.system.at_rest(self.branch.path)
            and len(self._workers()) == AGENTS
        )
