"""Starts of workers while the application logs, imports and uses Redis: none hangs, none is on another's socket."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.conftest import wait_until
from tests.crash.node_harness import Decisions, NodeUnderTest
from tests.crash.processes import children, sockets
from tests.crash.recorder_app import Number

__all__ = ["ForkStorm", "Verdict"]

LONG = 60.0


@dataclass
class Verdict:
    """What a storm came to. ``wrong`` is empty where all is well."""

    starts: int = 0
    in_spares: int = 0
    seconds: float = 0.0
    slowest_round: float = 0.0
    looks_at_sockets: int = 0
    wrong: list[str] = field(default_factory=list[str])


class ForkStorm:
    """``agents`` of them on one node, all killed and started again, round after round, a signal to each every time."""

    def __init__(self, decisions: Decisions, node: NodeUnderTest, agents: int) -> None:
        self.decisions = decisions
        self.node = node
        self.agents = [f"a{number}" for number in range(agents)]
        self.verdict = Verdict()

    def rage(self, starts: int, say: Callable[[str], object] = lambda _: None) -> Verdict:
        """At least ``starts`` starts; then everything is judged."""
        decisions, verdict = self.decisions, self.verdict
        where = decisions.node_id()
        for agent in self.agents:
            decisions.register(agent, max_kills=1000)
        began = time.monotonic()
        rounds = -(-starts // len(self.agents))
        for number in range(1, rounds + 1):
            before = time.monotonic()
            self._one_round(where, number)
            verdict.slowest_round = max(verdict.slowest_round, time.monotonic() - before)
            if number % 20 == 0:
                say(f"{verdict.starts} starts, {verdict.seconds:.0f} s")
            verdict.seconds = time.monotonic() - began
        self._judge(rounds)
        return verdict

    def _one_round(self, where: str, number: int) -> None:
        decisions = self.decisions
        spares = self.node.spares()
        for agent in self.agents:
            decisions.send(agent, Number(n=number))
            decisions.start(agent, where)
        pids = [self._running(agent, number) for agent in self.agents]
        self.verdict.starts += len(pids)
        self.verdict.in_spares += len({*pids} & {*spares})
        for agent in self.agents:
            wait_until(lambda agent=agent: self._last(agent) == number, f"{agent} has seen {number}", LONG)  # type: ignore[misc]
        self._look_at_sockets()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for agent in self.agents:
            end = decisions.wait_end(agent, number, LONG)
            if end["reason"] != "signal:SIGKILL":
                self.verdict.wrong.append(f"{agent} ended by itself: {end['reason']}")

    def _running(self, agent: str, number: int) -> int:
        def claimed() -> bool:
            record = self.decisions.agent(agent)
            return record["incarnation"] == str(number) and bool(record["owner"])

        wait_until(claimed, f"start {number} of {agent}", LONG)
        return int(self.decisions.agent(agent)["pid"])

    def _last(self, agent: str) -> int:
        return (self.decisions.numbers(agent) or [0])[-1]

    def _look_at_sockets(self) -> None:
        """No socket is in two of the processes."""
        spawner = self.node.spawner()
        owners: dict[str, int] = {}
        for pid in (self.node.pid, spawner, *children(spawner)):
            for each in sockets(pid):
                other = owners.setdefault(each, pid)
                if other != pid:
                    self.verdict.wrong.append(f"{each} is in {other} and in {pid}")
        self.verdict.looks_at_sockets += 1

    def _judge(self, rounds: int) -> None:
        for agent in self.agents:
            record = self.decisions.agent(agent)
            if (record["version"], record["failed"]) != (str(rounds), "0"):
                self.verdict.wrong.append(f"{agent}: {rounds} signals, {record['version']} applied")
            if letters := self.decisions.dead(agent):
                self.verdict.wrong.append(f"{agent}: dead letters {letters[0]['reason']}")
