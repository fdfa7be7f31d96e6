"""A whole system as processes: watchdogs and nodes as a Procfile starts them, on a Redis that may die.

Every test ends with ``assert_clean``: nothing lost, order kept, one owner for each agent, and nothing left over.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import redis

from regrow import Client, Message, Payload, RegrowError
from regrow_signals.keys import Keys
from tests.conftest import PrivateServer, wait_until
from tests.crash.acceptance_app import Number
from tests.crash.marked_processes import MARK, Marked, end_all, marked, workers_of_nodes
from tests.crash.node_harness import NODE_MAIN
from tests.crash.processes import children, default_signals

__all__ = ["Service", "WholeSystem", "clean_environment", "numbers_up_to"]

ROOT = Path(__file__).resolve().parents[2]
TIED = ROOT / "regrow" / "tied.py"
LONG = 40.0
"""Seconds for what must happen at all; how quickly is measured elsewhere."""


def numbers_up_to(last: int, *, first: int = 1) -> list[Number]:
    return [Number(n=n) for n in range(first, last + 1)]


def clean_environment(mark: str, **more: str) -> dict[str, str]:
    """Ours without any setting of regrow, with the mark that all processes of a test bear."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("REGROW_", "REDIS_URL"))
    }
    return {**kept, MARK: mark, "PYTHONUNBUFFERED": "1", **more}


class Service:
    """One process of the system, and what it says. It dies with the test's process, should that be killed."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        tied = [sys.executable, "-I", "-S", str(TIED), str(os.getpid()), str(int(signal.SIGKILL))]
        with log.open("ab") as output, default_signals():
            self.process = subprocess.Popen(
                [*tied, *words],
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def send(self, number: int) -> None:
        """To our own child, not reaped yet."""
        if not self.ended:
            self.process.send_signal(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait(LONG)

    def said(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()


class WholeSystem:
    """Services of one application on one server, everything they started, and what Redis says of them."""

    def __init__(self, server: PrivateServer, tree: str) -> None:
        self.server = server
        self.tree = f"tests.crash.acceptance_app:{tree}"
        self.mark = secrets.token_hex(8)
        self.keys = Keys("regrow")
        self.services: list[Service] = []
        self.raw: Any = redis.Redis.from_url(server.url, decode_responses=True, socket_timeout=30)
        self.client = Client(server.url, timeout=30)
        self.make_durable()

    @classmethod
    @contextmanager
    def on(cls, server: PrivateServer, tree: str) -> Generator[WholeSystem, None, None]:
        """Afterwards everything is killed, and shown should the test fail."""
        system = cls(server, tree)
        try:
            yield system
        finally:
            system.client.close()
            system.raw.close()
            end_all(system.mark)
            for service in system.services:
                service.process.wait(LONG)
                print(f"--- {service.log.name}", *service.said(), sep="\n")

    def make_durable(self) -> None:
        """What was answered is on disk, so that the test may demand it all back after a kill of the server."""
        self.raw.config_set("appendfsync", "always")

    # Processes.

    def start(self, name: str, *words: str, **more: str) -> Service:
        environment = clean_environment(self.mark, **{"REDIS_URL": self.server.url, **more})
        log = self.server.folder / f"{name}-{len(self.services)}.log"
        self.services.append(Service(words, environment, log))
        return self.services[-1]

    def watchdog(self, **more: str) -> Service:
        return self.start("watchdog", sys.executable, "-m", "regrow", "watchdog", self.tree, **more)

    def node(self, **more: str) -> Service:
        return self.start("worker", sys.executable, "-m", "regrow", "worker", self.tree, **more)

    def failing_node(self, fail_points: Mapping[str, int], url: str = "") -> Service:
        """A node whose workers kill themselves in their first incarnation; maybe behind a proxy."""
        return self.told_node({"fail_points": dict(fail_points)}, url)

    def told_node(self, settings: Mapping[str, Any], url: str = "") -> Service:
        """A node with settings that no variable of the environment can give it."""
        told = {"url": url or self.server.url, "application": self.tree, "settings": dict(settings)}
        return self.start("failing", sys.executable, "-c", NODE_MAIN, json.dumps(told))

    def processes(self) -> dict[int, Marked]:
        return marked(self.mark)

    def spawner_of(self, node: Service) -> int:
        (pid,) = children(node.pid)
        return pid

    def family(self, node: Service) -> list[int]:
        """The node, its spawner, its workers, from the top."""
        spawners = children(node.pid)
        return [node.pid, *spawners, *(worker for each in spawners for worker in children(each))]

    # Signals.

    def send(self, agent: str, *payloads: Payload) -> None:
        """All of them are accepted when this returns."""
        results = self.client.send_many([Message(agent, each) for each in payloads])
        refused = [each for each in results if isinstance(each, RegrowError)]
        assert refused == []

    # What Redis says.

    def agent(self, agent: str) -> dict[str, str]:
        return dict(self.raw.hgetall(self.keys.agent(agent)))

    def agents(self) -> list[str]:
        return sorted(self.raw.zrange(self.keys.agents, 0, -1))

    def numbers(self, agent: str) -> list[int]:
        return list(json.loads(self.agent(agent).get("state") or "{}").get("numbers", []))

    def incarnations(self) -> dict[str, str]:
        return {agent: self.agent(agent)["incarnation"] for agent in self.agents()}

    def pids(self) -> dict[str, int]:
        return {agent: int(self.agent(agent).get("pid") or 0) for agent in self.agents()}

    def dead(self, agent: str) -> list[dict[str, str]]:
        return [fields for _, fields in self.raw.xrange(self.keys.dead(agent))]

    def events(self, event: str = "", agent: str = "") -> list[dict[str, str]]:
        found = [fields for _, fields in self.raw.xrange(self.keys.events)]
        return [
            each
            for each in found
            if each["event"] == (event or each["event"]) and each.get("agent") == (agent or each.get("agent"))
        ]

    # Waiting.

    def wait_running(self, *agents: str, timeout: float = LONG) -> dict[str, int]:
        """Until each of them (all of them) runs in a process that lives; their pids."""

        def run() -> bool:
            found = agents or self.agents()
            living = workers_of_nodes(self.processes())
            return bool(found) and all(
                record.get("status") == "running" and record.get("owner") and int(record["pid"]) in living
                for record in map(self.agent, found)
            )

        wait_until(run, f"{agents or 'all agents'} run", timeout)
        return self.pids()

    def wait_idle(self, *agents: str, timeout: float = LONG) -> None:
        """Until each of these pooled agents is at rest, in nobody's hands."""

        def at_rest() -> bool:
            return all(
                (record.get("status"), record.get("owner"), record.get("queued")) == ("idle", "", "")
                for record in map(self.agent, agents)
            )

        wait_until(at_rest, f"{agents} are idle", timeout)

    def wait_numbers(self, agent: str, expected: list[int], timeout: float = LONG) -> None:
        def matches() -> bool:
            return len(self.numbers(agent)) >= len(expected)

        wait_until(matches, f"{agent} has seen {len(expected)} numbers", timeout)
        assert self.numbers(agent) == expected

    # The end of every test.

    def assert_clean(self, expected: Mapping[str, int], dead: Mapping[str, int] | None = None) -> None:
        """``expected``: each agent saw 1 up to this number, once and in order. Then all ends; nothing is left."""
        assert sorted(expected) == self.agents()
        self.assert_settled(expected, dead)
        if not self._are_pooled(expected):
            self.wait_running()
            wait_until(self._one_owner_each, "each agent has one worker, and no other worker lives", LONG)
        self._assert_gone()

    def assert_settled(self, expected: Mapping[str, int], dead: Mapping[str, int] | None = None) -> None:
        """The same, and nothing ends; those that are pooled are at rest."""
        for agent, last in expected.items():
            self.wait_numbers(agent, list(range(1, last + 1)))
            wait_until(partial(self._mailbox_empty, agent), f"the mailbox of {agent} is empty", LONG)
            assert len(self.dead(agent)) == (dead or {}).get(agent, 0), self.dead(agent)
            self._assert_journal(agent)
        if self._are_pooled(expected):
            self.wait_idle(*expected)

    def _are_pooled(self, agents: Collection[str]) -> bool:
        return bool(agents) and all(self.agent(agent).get("isolation") == "pool" for agent in agents)

    def _mailbox_empty(self, agent: str) -> bool:
        return int(self.raw.xlen(self.keys.mailbox(agent))) == 0

    def _one_owner_each(self) -> bool:
        return sorted(self.pids().values()) == sorted(workers_of_nodes(self.processes()))

    def _assert_journal(self, agent: str) -> None:
        """No signal was applied twice, and versions only grow."""
        kept = [fields for _, fields in self.raw.xrange(self.keys.journal(agent))]
        entries = [tuple(map(int, each["entry"].split("-"))) for each in kept]
        versions = [int(each["version"]) for each in kept]
        assert entries == sorted(set(entries))
        assert versions == sorted(versions)

    def _assert_gone(self) -> None:
        for service in reversed(self.services):
            service.send(signal.SIGCONT)
            service.send(signal.SIGTERM)
        wait_until(lambda: all(each.ended for each in self.services), "told to end, all services end", LONG)
        wait_until(lambda: not self.processes(), "no process is left", LONG)
        assert not self.raw.exists(self.keys.leader) or self.raw.pttl(self.keys.leader) > 0
        assert [agent for agent in self.agents() if self.agent(agent)["clean"] != "1"] == []
