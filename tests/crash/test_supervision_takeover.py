"""A leader killed or frozen in the middle of a plan: the next one goes on from there, and nothing is done twice."""

from __future__ import annotations

import signal
from collections.abc import Generator

import pytest

from regrow import Supervisor
from tests.conftest import wait_until
from tests.crash.processes import cpu_ticks
from tests.crash.supervision_app import Deaf, Played, player
from tests.crash.supervision_harness import LONG, Service, SupervisedSystem, Watched, kill_agent
from tests.crash.watchdog_storm import storm_settings

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


@pytest.fixture
def system() -> Generator[SupervisedSystem]:
    with SupervisedSystem.running(nodes=1, **storm_settings()) as running:
        yield running


def replace_leader(system: SupervisedSystem, how: int) -> Service:
    """Whoever leads is killed or stopped; returns once a standby answers in its place."""
    leader = next(service for service in system.services if "watchdog" in service.log.name)
    standby = system.watchdog(**storm_settings())
    wait_until(lambda: "watchdog_started" in standby.log.read_text(), "the standby stands by", LONG)
    leader.send(how)
    wait_until(lambda: "INFO leading" in standby.log.read_text(), "the standby leads", LONG)
    return leader


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_a_group_restart_is_continued_after_two_of_five_were_stopped(
    system: SupervisedSystem, how: signal.Signals
) -> None:
    """The third takes a minute to stop, so the leader is lost in the middle of its shutdown."""
    deaf = Deaf.child("c", shutdown=60, deadline=120)
    children = [player("a"), player("b"), deaf, player("d"), player("e")]
    system.client.start_child("stage", Supervisor("five", children, strategy="one_for_all", max_restarts=1))
    branch = Watched(system, "stage/five")
    branch.watch()
    busy = system.life("c").pid
    before = cpu_ticks(busy)
    system.client.send("c", Played(n=1))
    wait_until(lambda: cpu_ticks(busy) > before + 3, "c is busy", LONG)

    kill_agent(system.life("a").pid)
    wait_until(lambda: system.record("c")["status"] == "stopping", "c is asked to stop", LONG)
    leader = replace_leader(system, how)
    assert branch.story() == ["-a", "-e", "-d"]
    kill_agent(busy)
    wait_until(
        lambda: all(map(system.is_running, branch.lives)) and system.at_rest(branch.path),
        "all are back",
        LONG,
    )
    leader.send(signal.SIGCONT)  # what it held is refused
    system.client.count_children(branch.path)
    wait_until(lambda: system.at_rest(branch.path), "all is at rest", LONG)

    assert branch.story() == ["-a", "-e", "-d", "-c", "-b", "+a", "+b", "+c", "+d", "+e"]
    assert {system.life(agent).incarnation for agent in branch.lives} == {2}
    assert len(system.supervisor(branch.path).stamps) == 1
    assert {system.record(agent)["restarts"] for agent in branch.lives} == {"1"}


def test_a_backoff_goes_on_under_the_next_leader(system: SupervisedSystem) -> None:
    child = player("a", backoff=3)
    system.client.start_child("stage", Supervisor("slow", [child, player("b")], max_restarts=1))
    branch = Watched(system, "stage/slow")
    branch.watch()

    kill_agent(system.life("a").pid)
    wait_until(lambda: system.supervisor(branch.path).children["a"].due_ms, "its backoff runs", LONG)
    replace_leader(system, signal.SIGKILL)
    wait_until(lambda: system.is_running("a") and system.at_rest(branch.path), "it is back", LONG)

    assert branch.story() == ["-a", "+a"]
    assert branch.untouched() == {"b"}
    assert len(branch.reports("backoff")) == 1
    assert len(system.supervisor(branch.path).stamps) == 1


def test_a_hold_and_a_parked_child_outlive_the_leader(system: SupervisedSystem) -> None:
    weak = player("weak", max_restarts=0, max_seconds=60, on_exceeded="park")
    children = [weak, player("held"), player("b")]
    system.client.start_child("stage", Supervisor("kept", children, strategy="one_for_all"))
    branch = Watched(system, "stage/kept")
    branch.watch()
    system.command("stop", "held")
    kill_agent(system.life("weak").pid)
    wait_until(lambda: system.record("weak")["status"] == "parked", "it is parked", LONG)

    replace_leader(system, signal.SIGKILL)
    killed = system.life("b").incarnation
    kill_agent(system.life("b").pid)
    wait_until(
        lambda: (
            system.life("b").incarnation > killed and system.is_running("b") and system.at_rest(branch.path)
        ),
        "the group is restarted",
        LONG,
    )

    assert [system.record(agent)["status"] for agent in ("weak", "held", "b")] == [
        "parked",
        "held",
        "running",
    ]
