"""Watchdogs as processes: told to end, killed, stopped and woken, while a node in the test goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from regrow_signals import agents, nodes, views
from regrow_signals.agents import Owner
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.ids import new_id
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from tests.conftest import PrivateServer, wait_until

pytestmark = pytest.mark.crash

ROOT = Path(__file__).parents[2]
KEYS = Keys("regrow")
AGENTS = 8

APPLICATION = f"""
from regrow_supervisor.spec import Supervisor
from regrow_workers.agent import Agent
from regrow_workers.state import State

class Desk(State):
    open: int = 0

class Support(Agent[Desk], name="support"):
    pass

tree = Supervisor("desk", [Support.child(f"s{{i}}") for i in range({AGENTS})], max_restarts=1000, max_seconds=60)
"""

PROGRAM = """
import sys
from regrow_supervisor.watchdog import WatchdogSettings, run_watchdog
from regrow_workers import log
log.configure()
settings = WatchdogSettings(lease=float(sys.argv[2]), node_timeout=3.0)
sys.exit(run_watchdog(settings, url=sys.argv[1], namespace="regrow", application="desk_of_tests:tree"))
"""


class Stage:
    """A server, watchdog processes, and one node that claims whatever it is told to start."""

    def __init__(self, url: str, folder: Path) -> None:
        (folder / "desk_of_tests.py").write_text(APPLICATION)
        self.url = url
        self.folder = folder
        self.watchdogs: list[subprocess.Popen[bytes]] = []
        self.connection = Connection.open(url)
        self.cursor = "0"
        self.running: dict[str, Owner] = {}
        self.claims = 0
        types: dict[str, dict[str, str | int]] = {"support": {"code": "c", "schema": 1}}
        self.connection.call(
            nodes.join(KEYS, "n1", kind="worker", host="h", pid=1, labels={}, types=types, version="0")
        )

    def start(self, lease: float = 0.6) -> subprocess.Popen[bytes]:
        rooms = [self.folder, ROOT / "signals", ROOT / "workers", ROOT / "supervisor", ROOT]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, rooms))}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, self.url, str(lease)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.watchdogs.append(process)
        return process

    def obey(self) -> None:
        """One look at the orders, one beat."""
        for entry, fields in self.connection.read_stream(KEYS.control("n1"), self.cursor, count=100):
            self.cursor = entry
            order = {name: str(value) for name, value in fields.items()}
            if order["order"] == "start":
                owner = Owner(order["agent"], int(order["incarnation"]), new_id(), "n1")
                self.connection.call(agents.claim(KEYS, Limits(), owner, pid=1))
                self.running[owner.agent] = owner
                self.claims += 1
        lives = [(owner.agent, owner.incarnation) for owner in self.running.values()]
        self.connection.call(nodes.beat(KEYS, "n1", lives, load=len(lives)))

    def kill(self, agent: str) -> None:
        owner = self.running.pop(agent)
        report = nodes.ExitReport("n1", agent, owner.incarnation, "signal:SIGKILL", "none", charged=True)
        assert self.connection.call(nodes.report_exit(KEYS, report)) == "recorded"

    def all_run(self) -> bool:
        self.obey()
        waiting = self.connection.command(Command(("XLEN", KEYS.exits), int))
        return len(self.running) == AGENTS and waiting == 0

    def leader(self) -> str:
        return self.connection.command(views.leader(KEYS))

    def record(self, agent: str) -> dict[str, str]:
        return self.connection.command(views.agent_record(KEYS, agent))

    def end(self) -> None:
        for process in self.watchdogs:
            process.kill()
            process.wait()
        self.connection.close()


@pytest.fixture
def stage(own_server: PrivateServer, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(own_server.url, tmp_path)
    yield stage
    stage.end()


def test_told_to_end_a_watchdog_resigns_and_leaves_at_once(stage: Stage) -> None:
    process = stage.start(lease=3.0)
    wait_until(stage.all_run, "all agents run")

    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=2) == 0
    assert stage.leader() == ""
    assert {stage.record(f"s{i}")["status"] for i in range(AGENTS)} == {"running"}


def test_a_death_while_no_watchdog_lives_is_mended_by_the_standby(stage: Stage) -> None:
    leader = stage.start()
    wait_until(stage.all_run, "all agents run")
    stage.start()
    leader.kill()
    stage.kill("s3")

    wait_until(stage.all_run, "the standby took over and mended it", timeout=15)

    assert stage.record("s3")["incarnation"] == "2"
    assert {stage.record(f"s{i}")["incarnation"] for i in range(AGENTS) if i != 3} == {"1"}


@pytest.mark.slow
def test_watchdogs_killed_and_stopped_in_a_storm_leave_one_restart_per_death(stage: Stage) -> None:
    """Whatever happens to the leaders: in the end every agent runs once, and each death led to one restart."""
    dice = random.Random(7)
    stage.start()
    stage.start()
    wait_until(stage.all_run, "all agents run", timeout=20)
    deaths = 0
    for _ in range(6):
        for agent in dice.sample(sorted(stage.running), 5):
            stage.kill(agent)
            deaths += 1
        instant = time.monotonic() + dice.random() * 0.03
        wait_until(lambda end=instant: time.monotonic() >= end, "a random instant")  # type: ignore[misc]
        stage.obey()
        for process in list(stage.watchdogs):
            if dice.random() < 0.5:
                process.send_signal(signal.SIGSTOP)
            else:
                process.kill()
                process.wait()
                stage.watchdogs.remove(process)
        stage.start()
        wait_until(stage.all_run, "all agents run again", timeout=20)
        for process in stage.watchdogs:
            process.send_signal(signal.SIGCONT)

    wait_until(stage.all_run, "all agents run in the end", timeout=20)
    restarts = [int(stage.record(f"s{i}")["restarts"]) for i in range(AGENTS)]
    incarnations = [int(stage.record(f"s{i}")["incarnation"]) for i in range(AGENTS)]
    counted = stage.connection.command(views.counters(KEYS))
    assert sum(restarts) == deaths
    assert sum(incarnations) == deaths + AGENTS
    assert stage.claims == deaths + AGENTS
    assert counted["restarts_total|supervisor=desk|reason=signal"] == deaths
