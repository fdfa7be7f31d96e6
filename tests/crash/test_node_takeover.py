"""Two nodes, one agent: whoever was frozen while another took over changes nothing when it wakes."""

from __future__ import annotations

import os
import signal

import pytest

from tests.conftest import wait_until
from tests.crash.node_harness import Decisions, NodeUnderTest, StartNode, numbers
from tests.crash.processes import alive, cpu_ticks, descendants
from tests.crash.recorder_app import Misbehave

pytestmark = pytest.mark.crash


def send_to_all(node: NodeUnderTest, number: signal.Signals) -> None:
    for pid in [node.process.pid, *descendants(node.process.pid)]:
        os.kill(pid, number)


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "inside a handler"])
def test_a_frozen_owner_is_refused_when_it_wakes(
    decisions: Decisions, start_node: StartNode, busy: bool
) -> None:
    first = start_node()
    one = decisions.node_id()
    decisions.register("a")
    pid = decisions.wait_running("a", decisions.start("a", one))
    decisions.send("a", *numbers(1, 3))
    decisions.wait_numbers("a", [1, 2, 3])
    if busy:
        before = cpu_ticks(pid)
        decisions.send("a", Misbehave(how="slow"))
        wait_until(lambda: cpu_ticks(pid) > before + 5, "the handler works")
    send_to_all(first, signal.SIGSTOP)

    start_node()
    wait_until(lambda: decisions.node_id() != one, "a second node joins")
    decisions.start("a", decisions.node_id())
    decisions.send("a", *numbers(4, 6))
    expected = [1, 2, 3, *([-1] if busy else []), 4, 5, 6]
    decisions.wait_numbers("a", expected)
    send_to_all(first, signal.SIGCONT)

    wait_until(lambda: not alive(pid), "the frozen owner ends by itself or by its node")
    decisions.send("a", *numbers(7, 9))
    decisions.wait_numbers("a", [*expected, 7, 8, 9])
    assert decisions.agent("a")["incarnation"] == "2"
    assert decisions.dead("a") == []
    assert decisions.ends("a") == []


def test_a_node_killed_while_it_starts_workers_leaves_none_behind(
    decisions: Decisions, start_node: StartNode
) -> None:
    parent = start_node()
    node = decisions.node_id()
    for number in range(20):
        decisions.register(f"a{number}")
        decisions.start(f"a{number}", node)
    wait_until(lambda: len(descendants(parent.process.pid)) > 3, "some workers are forked")
    family = descendants(parent.process.pid)

    parent.kill()

    wait_until(lambda: not any(map(alive, family)), "all are gone", timeout=10)
    claimed = {int(decisions.agent(f"a{number}").get("pid") or 0) for number in range(20)} - {0}
    wait_until(lambda: not any(map(alive, claimed)), "also those that were just being forked", timeout=10)


def test_a_second_sigterm_hurries(decisions: Decisions, start_node: StartNode) -> None:
    parent = start_node(drain=30.0)
    decisions.register("a")
    decisions.send("a", Misbehave(how="spin"))
    pid = decisions.wait_running("a", decisions.start("a", decisions.node_id(), deadline_ms="60000"))
    wait_until(lambda: cpu_ticks(pid) > 10, "the handler spins")
    parent.ask_to_end()
    wait_until(lambda: "node_drains" in parent.said(), "the drain begins")

    parent.ask_to_end()

    assert parent.process.wait(3) == 0
    assert decisions.wait_end("a")["reason"] == "drained"


def test_fifty_workers_killed_in_one_instant_are_all_told(
    decisions: Decisions, start_node: StartNode
) -> None:
    start_node()
    node = decisions.node_id()
    agents = [f"a{number}" for number in range(50)]
    for agent in agents:
        decisions.register(agent)
        decisions.start(agent, node)
    pids = [decisions.wait_running(agent, 1) for agent in agents]

    for pid in pids:
        os.kill(pid, signal.SIGKILL)

    for agent in agents:
        assert decisions.wait_end(agent)["reason"] == "signal:SIGKILL"
        decisions.start(agent, node)
    for agent in agents:
        decisions.wait_running(agent, 2)
