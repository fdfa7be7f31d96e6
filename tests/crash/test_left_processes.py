"""Processes that a handler started end with its worker, whoever dies; and nobody can harm more than its own group."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.conftest import wait_until
from tests.crash.node_harness import Decisions, NodeUnderTest, StartNode
from tests.crash.processes import alive, children
from tests.crash.recorder_app import Misbehave, Number

pytestmark = pytest.mark.crash


@pytest.fixture
def node(start_node: StartNode) -> NodeUnderTest:
    return start_node(application="tests.crash.family_app:tree", spares=0)


def start(decisions: Decisions, *agents: str) -> str:
    where = decisions.node_id()
    for agent in agents:
        decisions.register(agent)
        decisions.wait_running(agent, decisions.start(agent, where))
    return where


def leave_behind(decisions: Decisions, node: NodeUnderTest) -> list[int]:
    """Agent ``a`` has three children and one that detached itself; all their pids."""
    decisions.send("a", Misbehave(how="children"), Misbehave(how="detached"), Number(n=1))
    decisions.wait_numbers("a", [1])
    worker = int(decisions.agent("a")["pid"])
    known = {int(decisions.agent(each).get("pid") or 0) for each in ("a", "b")}
    wait_until(lambda: len([pid for pid in children(worker) if alive(pid)]) == 3, "three children", 5)
    attached = [pid for pid in children(worker) if alive(pid)]
    detached = [pid for pid in children(node.spawner()) if pid not in known]
    return attached + detached


def all_gone(pids: list[int]) -> Callable[[], bool]:
    return lambda: not any(map(alive, pids))


def test_they_end_with_their_worker_and_no_other_worker_notices(
    decisions: Decisions, node: NodeUnderTest
) -> None:
    start(decisions, "a", "b")
    left = leave_behind(decisions, node)

    os.kill(int(decisions.agent("a")["pid"]), signal.SIGKILL)

    assert decisions.wait_end("a")["reason"] == "signal:SIGKILL"
    wait_until(all_gone(left), f"{left} are gone", 5)
    decisions.send("b", Number(n=1))
    decisions.wait_numbers("b", [1])
    assert decisions.ends("b") == []
    wait_until(lambda: "left_processes_ended agent=a" in node.said(), "it is told", 5)
    assert len(children(node.spawner())) == 1


@pytest.mark.parametrize("victim", ["spawner", "node"])
def test_they_end_when_who_started_their_worker_is_killed(
    decisions: Decisions, node: NodeUnderTest, victim: str
) -> None:
    start(decisions, "a")
    left = leave_behind(decisions, node)
    attached = left[:3]

    os.kill(node.spawner() if victim == "spawner" else node.process.pid, signal.SIGKILL)

    # A detached one is found by a spawner alone; all others by the node, too.
    wait_until(all_gone(attached if victim == "spawner" else left), f"{left} are gone", 5)
    for pid in left:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_stopped_spawner_ends_them_too_when_its_node_is_killed(
    decisions: Decisions, node: NodeUnderTest
) -> None:
    start(decisions, "a")
    left = [*leave_behind(decisions, node), int(decisions.agent("a")["pid"])]

    os.kill(node.spawner(), signal.SIGSTOP)
    node.kill()

    wait_until(all_gone(left), f"{left} are gone", 5)


def test_a_signal_to_its_own_group_reaches_no_other(decisions: Decisions, node: NodeUnderTest) -> None:
    start(decisions, "a", "b")
    spawner = node.spawner()
    decisions.send("a", Misbehave(how="kill the group"))

    assert decisions.wait_end("a")["reason"] == "signal:SIGKILL"
    decisions.send("b", Number(n=1))
    decisions.wait_numbers("b", [1])
    assert node.spawner() == spawner
