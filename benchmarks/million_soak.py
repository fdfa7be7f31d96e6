"""A million signals over ten thousand pooled agents, while a slot, a node or a watchdog is killed every second.

``python -m benchmarks.million_soak``; exit code 1 if anything is wrong. ``--signals 50000`` is a short one. Two nodes
and two watchdogs run; whatever is killed (SIGKILL) is started again at once. A node or a watchdog is killed while the
other one of its kind is at work: on a slow machine that is less often. The signals are numbered for each agent.
At the end, read from Redis: every count is exact, every order kept, no dead letter is there, nobody is parked, and
nothing is left in queues, in slots' hands or in the watchdog's mailbox.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.counting_app import Increment, Tally
from benchmarks.million_app import agent_id, application
from benchmarks.tended import Tended
from regrow.bench.system import BenchError, children, kill_worker, until
from regrow.embedded_redis import EmbeddedRedis
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.client import Client, Message
from regrow_signals.connection import Connection
from regrow_signals.errors import RegrowError

NAMESPACE = "soak"
ROOT = Path(__file__).resolve().parent.parent
SERVICES = ("watchdog-1", "watchdog-2", "worker-1", "worker-2")
KINDS = ("slot", "node", "watchdog")
PART = 500
NOTHING: Mapping[str, str] = {}
AHEAD = 50_000
"""Signals that wait at most, over all agents: the sender waits for the slots, not the slots for the sender."""

START_SECONDS, STILL_SECONDS = 180.0, 60.0
"""For the start of all agents; and for how long nothing may be applied, before the soak is given up."""

SHOWN = 5.0


class Killer(threading.Thread):
    """A SIGKILL for a random slot, node or watchdog every ``pace`` seconds until it is told to end.

    The kinds take turns in a random order. Where nobody would be left of a kind, it is a slot's turn.
    """

    def __init__(self, services: Tended, pace: float, seed: int, most: float) -> None:
        super().__init__(name="killer", daemon=True)
        self._services = services
        self._pace = pace
        self._most = most
        self._random = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.ended = threading.Event()

    def run(self) -> None:
        turns: list[str] = []
        while self.kills.total() < self._most and not self.ended.wait(self._pace):
            turns = turns or self._random.sample(KINDS, len(KINDS))
            kind = turns.pop()
            victims = self._victims(kind) if kind != "slot" else []
            if not victims:
                kind, victims = "slot", _slots(self._services)
            if not victims:
                continue
            try:
                kill_worker(self._random.choice(victims), signal.SIGKILL)
            except ProcessLookupError:
                continue  # it has ended between the two looks
            self.kills[kind] += 1

    def _victims(self, kind: str) -> list[int]:
        """Those at work. A node and a watchdog only while the other one of its kind is, too: it is what stands by."""
        pids = self._services.processes("worker" if kind == "node" else kind)
        up = [pid for name, pid in pids.items() if name in self._services.up]
        if kind == "node":
            up = [node for node in up if _slots_of(node)]
        return up if len(up) > 1 else []


def _slots(services: Tended) -> list[int]:
    return [slot for node in services.processes("worker").values() for slot in _slots_of(node)]


def _slots_of(node: int) -> list[int]:
    return [slot for spawner in _children(node) for slot in _children(spawner)]


def _children(pid: int) -> list[int]:
    try:
        return children(pid)
    except OSError:
        return []  # it has ended just now


@dataclass(slots=True)
class Progress:
    """How many signals are applied; the longest time in which none was."""

    began: float
    seen: int = 0
    moved: float = 0.0
    still: float = 0.0
    shown: float = 0.0

    def look(self, applied: int, text: str) -> None:
        """A line now and then. ``TimeoutError``: nothing has moved for far too long."""
        now = time.monotonic()
        if applied != self.seen:
            self.seen, self.moved = applied, now
        self.still = max(self.still, now - self.moved)
        if now - self.moved > STILL_SECONDS:
            raise TimeoutError(f"nothing was applied for {STILL_SECONDS:g} s, after {applied} signals")
        if now - self.shown > SHOWN:
            self.shown = now
            print(f"{now - self.began:6.1f} s  {applied:9,} applied  {text}", file=sys.stderr, flush=True)


def soak(
    signals: int = 1_000_000,
    agents: int = 10_000,
    every: float = 1.0,
    seed: int = 1,
    *,
    rate: float = float("inf"),
    most_kills: float = float("inf"),
    environment: Mapping[str, str] = NOTHING,
) -> dict[str, Any]:
    """The report; what was wrong, in ``wrong``. The services' logs are kept if anything was.

    ``rate``: signals a second at most. ``environment``: settings for the services.
    """
    folder = Path(tempfile.mkdtemp(prefix="regrow-soak-"))
    report: dict[str, Any] = {"wrong": ["it came to no end"]}
    try:
        with EmbeddedRedis(folder / "redis") as server:
            services = Tended(
                application(agents), SERVICES, url=server.info.url, namespace=NAMESPACE, logs=folder,
                environment={"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]), **environment},
            )  # fmt: skip
            with services, Client(server.info.url, namespace=NAMESPACE) as client:
                report = Soak(client, services, signals, agents, rate).run(every, seed, most_kills)
    finally:
        if report["wrong"]:
            print(f"the logs are in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return report


class Soak:
    """One soak on a system that has just been started."""

    def __init__(self, client: Client, services: Tended, signals: int, agents: int, rate: float) -> None:
        self._client = client
        self._keys = client.keys
        self._connection: Connection = client.connection
        self._services = services
        self._signals = signals
        self._agents = agents
        self._rate = rate

    def run(self, every: float, seed: int, most_kills: float) -> dict[str, Any]:
        started = time.monotonic()
        until(self._all_begun, f"all {self._agents} agents have begun", START_SECONDS, pause=0.1)
        until(lambda: bool(_slots(self._services)), "there are slots", START_SECONDS, pause=0.1)
        killer = Killer(self._services, every, seed, most_kills)
        progress = Progress(time.monotonic(), moved=time.monotonic())
        killer.start()
        gave_up = ""
        try:
            for sent in self._send_all():
                while (
                    sent - self._look(progress, killer) > AHEAD
                    or time.monotonic() < progress.began + sent / self._rate
                ):
                    time.sleep(0.02)
            while self._look(progress, killer) < self._signals:
                time.sleep(0.05)
        except TimeoutError as error:
            gave_up = str(error)
        killer.ended.set()
        killer.join()
        applied_after = time.monotonic() - progress.began
        wrong = self._wrong_at_rest(gave_up)
        return {
            "signals": self._signals,
            "agents": self._agents,
            "kills": {kind: killer.kills[kind] for kind in KINDS},
            "restarts": sum(int(record["restarts"] or 0) for record in self._records("restarts")),
            "begun_after_s": round(progress.began - started, 1),
            "seconds": round(applied_after, 1),
            "per_second": round(self._signals / applied_after),
            "longest_standstill_s": round(progress.still, 2),
            "wrong": wrong,
        }

    # While it runs.

    def _all_begun(self) -> bool:
        if self._services.failed:
            raise BenchError(self._services.failed)
        record = self._connection.command(views.agent_record(self._keys, agent_id(self._agents - 1)))
        return record.get("status") == "idle"

    def _send_all(self) -> Iterator[int]:
        """In turn to each agent; how many were sent so far."""
        part = min(PART, self._agents)
        for first in range(0, self._signals, part):
            numbers = range(first, min(first + part, self._signals))
            for result in self._client.send_many([
                Message(agent_id(number % self._agents), Increment(number=number // self._agents + 1))
                for number in numbers
            ]):  # fmt: skip
                if isinstance(result, RegrowError):
                    raise result
            yield numbers.stop

    def _look(self, progress: Progress, killer: Killer) -> int:
        applied = self._applied()
        progress.look(applied, " ".join(f"{kind} {killer.kills[kind]}" for kind in KINDS))
        return applied

    def _applied(self) -> int:
        command = Command(
            ("HGET", self._keys.counters, "signals_applied_total|type=tally"), lambda reply: int(reply or 0)
        )
        return self._connection.command(command)

    # When it is over.

    def _wrong_at_rest(self, gave_up: str) -> list[str]:
        """What is not as it should be once nothing moves any more."""
        end = time.monotonic() + STILL_SECONDS
        while (left := self._left_over()) and time.monotonic() < end:
            time.sleep(0.2)
        applied = self._applied()
        wrong = [gave_up] if gave_up else []
        wrong += left
        if applied != self._signals:
            wrong.append(f"{self._signals} signals were sent, the counter says {applied} were applied")
        return wrong + self._wrong_agents()

    def _left_over(self) -> list[str]:
        """In run queues, in slots' hands, in the watchdog's mailbox; agents that are not at rest."""
        found: list[str] = []
        for kind, length in (("ready", "LLEN"), ("claims", "SCARD")):
            found += [
                f"{key}: {self._connection.command(Command((length, key), int))} left"
                for key in self._found(f"{self._keys.tag}:{kind}:*")
            ]
        waiting = self._connection.command(Command(("XLEN", self._keys.exits), int))
        found += [f"{waiting} entries in {self._keys.exits}"] if waiting else []
        statuses = Counter(record["status"] for record in self._records("status"))
        return found + [
            f"{count} agents are {status}" for status, count in statuses.items() if status != "idle"
        ]

    def _found(self, pattern: str) -> list[str]:
        cursor, found = "0", set[str]()
        while True:
            command = Command(("SCAN", cursor, "MATCH", pattern, "COUNT", 1000), lambda reply: reply)
            cursor, some = self._connection.command(command)
            found.update(map(str, some))
            if str(cursor) == "0":
                return sorted(found)

    def _wrong_agents(self) -> list[str]:
        wrong: list[str] = []
        every = [agent_id(number) for number in range(self._agents)]
        letters = self._piped([views.dead_length(self._keys, agent) for agent in every])
        mailboxes = self._piped([views.mailbox_length(self._keys, agent) for agent in every])
        states = self._records("state", "owner")
        for place, agent in enumerate(every):
            due = len(range(place, self._signals, self._agents))
            tally = Tally.model_validate_json(states[place]["state"] or "{}")
            if (tally.count, tally.last, tally.out_of_order) != (due, due, 0):
                wrong.append(f"{agent}: {due} signals were sent, its state is {tally!r}")
            if letters[place] or mailboxes[place] or states[place]["owner"]:
                wrong.append(
                    f"{agent}: {letters[place]} dead letters, {mailboxes[place]} signals wait, "
                    f"owner {states[place]['owner']!r}"
                )
        return wrong

    def _records(self, *fields: str) -> list[dict[str, str]]:
        every = [agent_id(number) for number in range(self._agents)]
        return self._piped(views.agent_records(self._keys, every, *fields))

    def _piped(self, commands: list[Command[Any]]) -> list[Any]:
        answers: list[Any] = []
        for first in range(0, len(commands), 1000):
            answers += self._connection.pipeline(commands[first : first + 1000])
        for each in answers:
            if isinstance(each, RegrowError):
                raise each
        return answers


def main() -> int:
    """Run it and print a report."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--signals", type=int, default=1_000_000)
    options.add_argument("--agents", type=int, default=10_000)
    options.add_argument("--every", type=float, default=1.0, help="seconds between two kills")
    options.add_argument("--seed", type=int, default=1)
    told = options.parse_args()
    report = soak(told.signals, told.agents, told.every, told.seed)
    wrong = report["wrong"]
    shown = {**report, "wrong": wrong[:20], "wrong_in_all": len(wrong)}
    sys.stdout.write(json.dumps(shown, indent=2) + "\n")
    verdict = "exact: nothing lost, nothing doubled, nothing out of order" if not wrong else "NOT EXACT"
    sys.stdout.write(f"{verdict}\n")
    return 1 if wrong or not sum(report["kills"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
