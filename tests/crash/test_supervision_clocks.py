"""Hosts whose clocks are an hour off: nobody is declared lost, restarts are as ever, stamps in Redis are Redis's."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from regrow import Supervisor
from regrow_signals import views
from regrow_signals.calls import Command
from tests.conftest import PrivateServer, wait_until
from tests.crash.supervision_app import Played, player
from tests.crash.supervision_harness import LONG, ROOT, Service, SupervisedSystem, Watched, kill_agent

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

HOUR = 3600
PACE = {"REGROW_NODE_TIMEOUT": "1.5", "REGROW_HEARTBEAT": "0.25", "REGROW_LEASE": "1.5"}

SHIFTED = """
import datetime, os, time

_off = float(os.environ["WALL_CLOCK_OFF"])
_time, _time_ns, _gettime = time.time, time.time_ns, time.clock_gettime
_clock = datetime.datetime


class _Shifted(_clock):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls):
        return cls.fromtimestamp(time.time(), datetime.timezone.utc).replace(tzinfo=None)


time.time = lambda: _time() + _off
time.time_ns = lambda: _time_ns() + int(_off * 1e9)
time.clock_gettime = lambda clock: _gettime(clock) + (_off if clock == time.CLOCK_REALTIME else 0)
datetime.datetime = _Shifted
"""
"""Python's own ``sitecustomize``, found on the path of one process and of those that it starts."""


class Hosts:
    """A system whose processes each believe in a time of their own."""

    def __init__(self, system: SupervisedSystem, folder: Path) -> None:
        self.system = system
        (folder / "sitecustomize.py").write_text(SHIFTED, encoding="utf-8")
        rooms = (str(ROOT / room) for room in ("signals", "workers", "supervisor", "."))
        self._path = os.pathsep.join([str(folder), *rooms])

    def start(self, word: str, off: int) -> Service:
        system = self.system
        settings = {**PACE, "PYTHONPATH": self._path, "WALL_CLOCK_OFF": str(off)}
        return system.start(word, system.tree, **settings)

    def now_ms(self) -> int:
        """Redis's."""
        return self.system.look.command(Command(("TIME",), lambda t: int(t[0]) * 1000 + int(t[1]) // 1000))

    def believed_off(self, service: Service) -> timedelta:
        """How far off the process's log says that its clock is."""
        stamp = re.search(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", service.log.read_text(errors="replace"))
        assert stamp, f"no time in {service.log}"
        return datetime.fromisoformat(stamp[0]).replace(tzinfo=UTC) - datetime.now(UTC)

    def stamps(self, branch: Watched) -> dict[str, int]:
        """Every point in time that the system wrote, in ms."""
        system, keys = self.system, self.system.keys
        found: dict[str, int] = {}
        for agent in branch.agents():
            record = system.record(agent)
            for name in ("created_ms", "start_ms", "started_ms", "exit_ms"):
                if name in record:
                    found[f"{agent} {name}"] = int(record[name])
            for entry, fields in system.look.command(views.journal(keys, agent, count=100)):
                found[f"{agent} journal {entry}"] = int(fields["at_ms"])
        for path in (branch.path, "stage"):
            state = system.supervisor(path)
            found[f"{path} started_ms"] = state.started_ms
            for child in state.children.values():
                found[f"{path} {child.id} started_ms"] = child.started_ms
            for stamp in (
                *state.stamps,
                *(stamp for child in state.children.values() for stamp in child.stamps),
            ):
                found[f"{path} stamp {stamp}"] = stamp * 1000
        for node in system.node_ids():
            record = system.look.command(views.node_record(keys, node))
            found |= {
                f"{node} {name}": int(record[name]) for name in record if name in ("beat_ms", "joined_ms")
            }
            score = system.look.command(Command(("ZSCORE", keys.nodes, node), float))
            found[f"{node} beat"] = int(score)
        for event in system.events():
            found[f"event {event['event']} {event.get('agent', '')} {event['at_ms']}"] = int(event["at_ms"])
        return found

    def beats(self) -> int:
        """Of all nodes so far."""
        records = (
            self.system.look.command(views.node_record(self.system.keys, node))
            for node in self.system.node_ids()
        )
        return sum(int(record.get("beats", "0")) for record in records)


@pytest.fixture
def hosts(own_server: PrivateServer, tmp_path: Path) -> Iterator[Hosts]:
    system = SupervisedSystem(own_server)
    try:
        yield Hosts(system, tmp_path)
    finally:
        system.end()


@pytest.mark.parametrize(
    ("watchdog_off", "node_off", "other_off"), [(HOUR, 0, 0), (0, HOUR, -HOUR), (-HOUR, HOUR, 0)]
)
def test_clocks_an_hour_off_change_nothing(
    hosts: Hosts, watchdog_off: int, node_off: int, other_off: int
) -> None:
    system = hosts.system
    began = hosts.now_ms()
    watchdog = hosts.start("watchdog", watchdog_off)
    nodes = [hosts.start("worker", off) for off in (node_off, other_off)]
    system.wait_nodes(2)
    a, b = player("clock-a", backoff=0.3), player("clock-b")
    with system.branch(
        Supervisor("clocks", [a, b, player("clock-c")], max_restarts=9, max_seconds=60)
    ) as branch:
        for service, off in ((watchdog, watchdog_off), *zip(nodes, (node_off, other_off), strict=True)):
            assert abs(hosts.believed_off(service) - timedelta(seconds=off)) < timedelta(minutes=5)
        branch.watch()

        # A death is one restart, counted once; a backoff is as long as it says; who is not concerned is left alone.
        kill_agent(system.life("clock-a").pid)
        wait_until(
            lambda: system.is_running("clock-a") and system.life("clock-a").incarnation == 2, "back", LONG
        )
        kill_agent(system.life("clock-b").pid)
        wait_until(
            lambda: system.is_running("clock-b") and system.life("clock-b").incarnation == 2, "back", LONG
        )
        assert branch.untouched() == {"clock-c"}
        assert len(system.supervisor(branch.path).stamps) == 2
        for agent in branch.agents():
            assert system.client.send(agent, Played(n=1)).wait(LONG).state == "applied"

        # For more than two node timeouts of beats, and over a takeover by a watchdog of another time, nobody is lost.
        before = hosts.beats()
        wait_until(
            lambda: hosts.beats() - before > 2 * 2 * 1.5 / 0.25, "both nodes have beaten for a while", LONG
        )
        watchdog.kill()
        hosts.start("watchdog", -watchdog_off or HOUR)
        kill_agent(system.life("clock-c").pid)
        wait_until(
            lambda: system.is_running("clock-c") and system.life("clock-c").incarnation == 2, "back", LONG
        )
        lives = json.dumps({agent: system.life(agent).incarnation for agent in branch.agents()})
        assert lives == '{"clock-a": 2, "clock-b": 2, "clock-c": 2}'
        assert system.counter("nodes_lost_total") == 0
        reasons = {event["reason"] for event in system.events() if event["event"] == "exited"}
        assert reasons == {"signal:SIGKILL"}

        stamps, ended = hosts.stamps(branch), hosts.now_ms()
        strange = {name: at for name, at in stamps.items() if not began - 1000 <= at <= ended}
        assert strange == {} and len(stamps) > 30
