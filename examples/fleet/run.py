"""One run: start everything, send, watch, kill where asked to, and look at what came of it."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import redis

from regrow import Client, Message, RegrowError
from regrow.settings import load_settings
from regrow.up import Stack

from ..running import until
from .app import DEVICE, Operations, Twin
from .load import Load
from .verdict import Report
from .view import Line, Look

__all__ = ["run"]

APPLICATION = "examples.fleet.app:tree"
NAMESPACE = "fleet"
START_SECONDS, REST_SECONDS = 60.0, 120.0
SPARE = "regrow-spare"
"""The name of a process that is kept ready and serves nobody yet."""

PART = 500
AHEAD = 20_000
"""Signals that wait at most: the generator waits for the devices."""


def run(
    *, devices: int = 10_000, readings: int = 10, seconds: float = 120.0, kill_every: float = 0.0
) -> Report:
    """``readings`` of each device, for so many seconds at most; ``kill_every``: seconds between two slots' deaths."""
    with tempfile.TemporaryDirectory(prefix="regrow-fleet-") as folder:
        settings = load_settings(state_dir=Path(folder), namespace=NAMESPACE, redis_url="")
        with Stack(APPLICATION, settings=settings, services=("watchdog", "worker")) as stack:
            return _Fleet(stack, Load(devices, readings)).live(seconds, kill_every)


class _Killer(threading.Thread):
    """A SIGKILL for a random one of ``slots()`` every ``pace`` seconds."""

    def __init__(self, slots: Callable[[], list[int]], pace: float) -> None:
        super().__init__(name="killer", daemon=True)
        self._slots = slots
        self._pace = pace
        self.kills = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(self._pace):
            if slots := self._slots():
                try:
                    os.kill(random.choice(slots), signal.SIGKILL)
                except ProcessLookupError:
                    continue
                self.kills += 1


def _children(pid: int | None) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]
    except OSError:
        return []


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("ascii").strip()
    except OSError:
        return SPARE  # gone


class _Fleet:
    """A running system, and who looks at it from outside: by the public keys, and by sending."""

    def __init__(self, stack: Stack, load: Load) -> None:
        self._stack = stack
        self._load = load
        self._redis: Any = redis.Redis.from_url(stack.url, decode_responses=True)  # pyright: ignore[reportUnknownMemberType]
        self._client = Client(stack.url, namespace=NAMESPACE)
        self._line = Line()
        self._began = time.monotonic()
        self._sent = 0

    def live(self, seconds: float, kill_every: float) -> Report:
        killer = _Killer(self._slots, kill_every)
        with self._client:
            until(lambda: self._status("operations") == "running", "operations runs", START_SECONDS)
            self._began = time.monotonic()
            if kill_every > 0:
                killer.start()
            rounds = self._send(seconds, killer)
            until(lambda: self._looked(killer) >= self._sent, "all signals are applied", REST_SECONDS)
            took = time.monotonic() - self._began
            killer.ended.set()
            alarms = sum(due.alarms for due in self._load.due(rounds).values())
            until(lambda: self._alarms() >= alarms, "all alarms are heard", REST_SECONDS)
            until(lambda: set(self._statuses()) <= {"idle"}, "all devices are at rest", REST_SECONDS)
            self._line.show(self._look(killer), last=True)
            report = self._report(rounds, took, killer)
        self._redis.close()
        return report

    def _slots(self) -> list[int]:
        """What the node's spawner has started, but for the process of operations and spares."""
        found = [
            slot
            for spawner in _children(self._stack.processes().get("worker"))
            for slot in _children(spawner)
        ]
        operations = self._redis.hget(f"{{{NAMESPACE}}}:agent:operations", "pid")
        return [slot for slot in found if str(slot) != operations and _name(slot) != SPARE]

    # Sending.

    def _send(self, seconds: float, killer: _Killer) -> int:
        """Rounds, for so long; how many were sent whole."""
        for number in range(1, self._load.rounds + 1):
            for part in _parts(list(self._load.round(number)), PART):
                while self._sent - self._looked(killer) > AHEAD:
                    time.sleep(0.01)
                if number == 1:
                    # Whoever is not there yet is made by its first message.
                    for device, what in part:
                        self._client.send(device, what, create=DEVICE)
                else:
                    results = self._client.send_many([Message(device, what) for device, what in part])
                    for refused in (each for each in results if isinstance(each, RegrowError)):
                        raise refused
                self._sent += len(part)
            if time.monotonic() - self._began > seconds:
                return number
        return self._load.rounds

    # What Redis says.

    def _look(self, killer: _Killer) -> Look:
        counters = self._redis.hgetall(f"{{{NAMESPACE}}}:counters")
        return Look(
            at=time.monotonic() - self._began,
            devices=max(0, int(self._redis.zcard(f"{{{NAMESPACE}}}:agents")) - 1),
            sent=self._sent,
            applied=int(counters.get("signals_applied_total|type=device", 0)),
            alarms=int(counters.get("signals_applied_total|type=operations", 0)),
            kills=killer.kills,
            restarts=self._restarts(),
        )

    def _looked(self, killer: _Killer) -> int:
        """How many are applied; and the line is shown, once a second."""
        if self._line.due:
            look = self._look(killer)
            self._line.show(look)
            return look.applied
        key = f"{{{NAMESPACE}}}:counters"
        return int(self._redis.hget(key, "signals_applied_total|type=device") or 0)

    def _restarts(self) -> int:
        events: list[tuple[str, dict[str, str]]] = self._redis.xrange(f"{{{NAMESPACE}}}:events")
        return sum(each["event"] == "exited" and each.get("agent") != "operations" for _, each in events)

    def _status(self, agent: str) -> str:
        return str(self._redis.hget(f"{{{NAMESPACE}}}:agent:{agent}", "status") or "")

    def _alarms(self) -> int:
        return self._client.state("operations", Operations).alarms

    def _statuses(self) -> Counter[str]:
        return Counter(status or "" for status in self._of_all("hget", "agent", "status"))

    def _of_all(self, command: str, kind: str, *words: str) -> list[Any]:
        """One command for the key of this kind of each device."""
        found: list[Any] = []
        for part in _parts(sorted(self._load.due(0)), 1000):
            pipe = self._redis.pipeline(transaction=False)
            for device in part:
                getattr(pipe, command)(f"{{{NAMESPACE}}}:{kind}:{device}", *words)
            found += pipe.execute()
        return found

    def _report(self, rounds: int, took: float, killer: _Killer) -> Report:
        devices = sorted(self._load.due(0))
        states = dict(zip(devices, self._of_all("hget", "agent", "state"), strict=True))
        letters = dict(zip(devices, self._of_all("xlen", "dead"), strict=True))
        return Report(
            due=self._load.due(rounds),
            twins={device: Twin.model_validate_json(text) for device, text in states.items() if text},
            letters={device: count for device, count in letters.items() if count},
            statuses=self._statuses(),
            alarms_heard=self._alarms(),
            signals=self._sent,
            seconds=took,
            kills=killer.kills,
            restarts=self._restarts(),
        )


def _parts(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
