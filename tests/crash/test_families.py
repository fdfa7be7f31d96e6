"""Spawned children as processes, with parent, children and watchdogs killed: each child is there once, told once."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.conftest import PrivateServer, wait_until
from tests.crash.processes import alive
from tests.crash.spawning_app import Boss, Hire, Job, Worker
from tests.crash.supervision_harness import LONG, Service, SupervisedSystem, kill_agent

pytestmark = [pytest.mark.crash, pytest.mark.timeout(240)]

CHILDREN = 8
SETTINGS = {"REGROW_LEASE": "0.6", "REGROW_HEARTBEAT": "0.3", "REGROW_NODE_TIMEOUT": "5"}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedSystem]:
    """One node and two watchdogs, of which one waits; each test has a boss of its own."""
    server = PrivateServer(tmp_path_factory.mktemp("redis"))
    server.start()
    made = SupervisedSystem(server, "tests.crash.spawning_app:tree")
    try:
        for _ in range(2):
            made.watchdog(**SETTINGS)
        made.node(**SETTINGS)
        made.wait_nodes(1)
        for boss in ("stormy", "gap", "ended", "watching"):
            wait_until(lambda boss=boss: made.is_running(boss), f"{boss} runs", LONG)  # type: ignore[misc]
        yield made
    finally:
        made.end()
        server.kill()


def watchdogs(system: SupervisedSystem) -> list[Service]:
    """Those that live."""
    return [one for one in system.services if "watchdog" in one.log.name and one.process.poll() is None]


class Storm:
    """Kills, until all is done; ``deaths`` counts those of each agent that hit a life."""

    def __init__(self, system: SupervisedSystem, seed: int) -> None:
        self.system = system
        self.dice = random.Random(seed)
        self.deaths: Counter[str] = Counter()
        self._killed: set[tuple[str, int]] = set()

    def kill(self, agent: str) -> None:
        record = self.system.record(agent)
        life = (agent, int(record.get("incarnation") or 0))
        if record.get("status") != "running" or life in self._killed:
            return
        try:
            kill_agent(int(record["pid"]))
        except ProcessLookupError:
            return
        self._killed.add(life)
        self.deaths[agent] += 1

    def kill_watchdog(self) -> None:
        """The one that leads, or the one that waits; another one comes."""
        self.dice.choice(watchdogs(self.system)).kill()
        self.system.watchdog(**SETTINGS)
        self.system.client.count_children("stage", timeout=LONG)  # only one that leads answers

    def pause(self) -> None:
        end = time.monotonic() + self.dice.random() * 0.06
        wait_until(lambda: time.monotonic() >= end, "a random instant")


def told(system: SupervisedSystem, boss: str) -> tuple[str, ...]:
    return system.client.state(boss, Boss).told


def test_each_child_is_spawned_once_and_told_of_once_whoever_dies(system: SupervisedSystem) -> None:
    storm, tags = Storm(system, seed=4), [f"w{n}" for n in range(CHILDREN)]
    for number, tag in enumerate(tags):
        system.client.send("stormy", Hire(tag=tag))
        for agent in ("stormy", *(f"stormy/{storm.dice.choice(tags)}" for _ in range(2))):
            if storm.dice.random() < 0.7:
                storm.kill(agent)
        if number % 3 == 1:
            storm.kill_watchdog()
        storm.pause()
    agents = [f"stormy/{tag}" for tag in tags]
    for round_ in range(12):
        wait_until(lambda: sum(map(system.is_running, agents)) > CHILDREN // 2, "most children run", LONG)
        for agent in storm.dice.sample(["stormy", *agents], 4):
            storm.kill(agent)
        if round_ % 6 == 2:
            storm.kill_watchdog()
        storm.pause()

    wait_until(lambda: all(map(system.is_running, ["stormy", *agents])), "all run again", 2 * LONG)
    lives = {agent: system.life(agent).incarnation for agent in agents}
    expected = {
        line
        for agent, last in lives.items()
        for n in range(1, last + 1)
        for line in (f"+{agent[7:]}#{n}", f"-{agent[7:]}#{n}")[: 1 if n == last else 2]
    }
    wait_until(lambda: set(told(system, "stormy")) == expected, "the boss was told of every life", LONG)

    assert len(told(system, "stormy")) == len(expected)
    assert sorted(system.client.state("stormy", Boss).hired) == tags
    assert {agent: system.client.state(agent, Worker).done for agent in agents} == dict.fromkeys(agents, (1,))
    assert {agent: lives[agent] - 1 for agent in agents if lives[agent] > 1} == {
        agent: n for agent, n in storm.deaths.items() if agent != "stormy"
    }
    assert system.record("stormy")["children"] == str(CHILDREN)
    assert all(alive(system.life(agent).pid) for agent in agents)
    assert sum(storm.deaths.values()) >= 15


def test_what_was_committed_before_the_watchdog_died_is_carried_out_by_the_next(
    system: SupervisedSystem,
) -> None:
    stopped = watchdogs(system)
    for watchdog in stopped:
        watchdog.send(signal.SIGSTOP)
    system.client.send("gap", Hire(tag="w"))
    wait_until(lambda: system.record("gap").get("child:w"), "the commit has landed", LONG)
    kill_agent(system.life("gap").pid)
    for watchdog in stopped:
        watchdog.kill()
    assert system.record("gap/w")["status"] == "registered"

    system.watchdog(**SETTINGS)

    wait_until(lambda: system.is_running("gap/w") and system.is_running("gap"), "both run", LONG)
    wait_until(lambda: told(system, "gap") == ("+w#1",), "the boss was told", LONG)
    assert system.life("gap/w").incarnation == 1
    assert system.client.send("gap/w", Job(n=2)).wait(LONG).state == "applied"
    assert system.client.state("gap/w", Worker).done == (1, 2)


def test_the_children_of_a_parent_that_ended_stop_live_on_or_are_orphans(system: SupervisedSystem) -> None:
    for policy in ("stop", "continue", "orphan"):
        system.client.send("ended", Hire(tag=policy, on_parent_death=policy))
    agents = ["ended/stop", "ended/continue", "ended/orphan"]
    wait_until(lambda: all(map(system.is_running, agents)), "all children run", LONG)
    stopped = system.life("ended/stop").pid
    system.client.send("ended", "retire")

    wait_until(lambda: system.record("ended/stop")["status"] == "stopped", "the first is stopped", LONG)
    wait_until(lambda: system.client.state("ended/orphan", Worker).orphan, "the last is told", LONG)
    wait_until(lambda: not alive(stopped), "the process of the first is gone", LONG)
    assert system.is_running("ended/continue") and system.is_running("ended/orphan")
    assert (
        system.record("ended/continue")["parent"] == "ended" and system.record("ended/orphan")["parent"] == ""
    )
    listed = {child.id for child in system.client.which_children("stage/ended.children")}
    assert listed == {"ended/continue", "ended/orphan"}
    shown = system.command("tree").stdout
    assert "ended.children" in shown and "ended/orphan" in shown


def test_a_monitor_and_a_stop_reach_real_processes(system: SupervisedSystem) -> None:
    system.client.send("watching", Hire(tag="w"))
    wait_until(lambda: system.is_running("watching/w"), "the child runs", LONG)
    system.client.send("watching", "watch", "watching/w").wait(LONG)
    pid = system.life("watching/w").pid
    kill_agent(pid)
    wait_until(
        lambda: system.life("watching/w").incarnation == 2 and system.is_running("watching/w"), "again", LONG
    )
    system.client.send("watching", "fire", "w")
    wait_until(lambda: "-w#2 gone" in told(system, "watching"), "the child is gone", LONG)

    assert sorted(told(system, "watching")) == sorted(
        ["+w#1", "-w#1", "down watching/w signal:SIGKILL", "+w#2", "-w#2 gone"]
    )  # fmt: skip
    assert system.record("watching/w")["status"] == "stopped"
