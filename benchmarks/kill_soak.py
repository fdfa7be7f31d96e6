"""A SIGKILL every 100 ms while agents count: ``python -m benchmarks.kill_soak``; exit code 1 if anything is wrong.

Numbered increments go to a hundred agents while a random worker is killed ten times a second. At the end every count is
exact, every order kept, and nobody's dead letters hold an innocent signal. The signals are sent as fast as is needed to
keep the kills going for their whole time.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.counting_app import AGENTS, Increment, Numbered
from regrow.bench.system import kill_worker, until
from regrow.settings import load_settings
from regrow.up import Stack
from regrow_signals import views
from regrow_signals.client import Client
from regrow_signals.connection import Connection
from regrow_signals.errors import RegrowError

APPLICATION = "benchmarks.counting_app:tree"
ROOT = Path(__file__).resolve().parent.parent


class Killer(threading.Thread):
    """Kills a random running worker every ``pace`` seconds until it is told to end."""

    def __init__(self, url: str, namespace: str, pace: float, seed: int) -> None:
        super().__init__(name="killer", daemon=True)
        self._client = Client(url, namespace=namespace)
        self._connection = Connection.open(url, name="regrow-kill-soak")
        self._pace = pace
        self._random = random.Random(seed)
        self.kills = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(self._pace):
            agent = self._random.choice(AGENTS)
            record = self._connection.command(views.agent_record(self._client.keys, agent))
            if record.get("status") != "running" or not record.get("pid"):
                continue
            try:
                kill_worker(int(record["pid"]), signal.SIGKILL)
            except ProcessLookupError:
                continue  # it has ended between the two looks
            self.kills += 1
        self._connection.close()
        self._client.close()


def soak(increments: int = 10_000, pace: float = 0.1, rate: float = 250.0, seed: int = 1) -> dict[str, Any]:
    """``increments`` in all, ``rate`` a second; what was wrong, in ``wrong``."""
    folder = Path(tempfile.mkdtemp(prefix="regrow-soak-"))
    try:
        settings = load_settings(state_dir=folder, namespace="soak", redis_url="")
        with Stack(
            APPLICATION,
            settings=settings,
            services=("watchdog", "worker"),
            environment={"PYTHONPATH": str(ROOT)},
        ) as stack:
            return _storm(stack, increments, pace, rate, seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _storm(stack: Stack, increments: int, pace: float, rate: float, seed: int) -> dict[str, Any]:
    with Client(stack.url, namespace="soak", limits=stack.settings.limits) as client:
        until(lambda: _running(client) == len(AGENTS), "all agents run", 120.0)
        killer = Killer(stack.url, "soak", pace, seed)
        killer.start()
        began = time.monotonic()
        for number in range(increments):
            agent = AGENTS[number % len(AGENTS)]
            client.send(agent, Increment(number=number // len(AGENTS) + 1), id=f"{agent}:{number}")
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
        killer.ended.set()
        killer.join()
        until(lambda: _waiting(client) == 0, "all signals are dealt with", 120.0)
        return {
            "increments": increments,
            "agents": len(AGENTS),
            "kills": killer.kills,
            "seconds": round(time.monotonic() - began, 1),
            "wrong": _wrong(client, increments),
        }


def _records(client: Client) -> list[dict[str, str]]:
    connection = client.connection
    found: list[dict[str, str]] = []
    for record in connection.pipeline([views.agent_record(client.keys, agent) for agent in AGENTS]):
        if isinstance(record, RegrowError):
            raise record
        found.append(record)
    return found


def _running(client: Client) -> int:
    return sum(record.get("status") == "running" for record in _records(client))


def _waiting(client: Client) -> int:
    lengths = client.connection.pipeline([views.mailbox_length(client.keys, agent) for agent in AGENTS])
    return sum(int(length) for length in lengths)


def _wrong(client: Client, increments: int) -> list[str]:
    wrong: list[str] = []
    for place, agent in enumerate(AGENTS):
        due = len(range(place, increments, len(AGENTS)))
        tally = client.state(agent, Numbered)
        if (tally.count, tally.last, tally.out_of_order) != (due, due, 0):
            wrong.append(f"{agent}: {due} increments were sent, its state is {tally!r}")
        wrong += [f"{agent}: dead letter {fields}" for _, fields in client.dead_letters(agent)]
    return wrong


def main() -> int:
    """Run it and print a report."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--increments", type=int, default=10_000)
    options.add_argument("--pace", type=float, default=0.1, help="seconds between two kills")
    options.add_argument("--rate", type=float, default=250.0, help="increments a second")
    options.add_argument("--seed", type=int, default=1)
    told = options.parse_args()
    report = soak(told.increments, told.pace, told.rate, told.seed)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 1 if report["wrong"] or not report["kills"] else 0


if __name__ == "__main__":
    sys.exit(main())
