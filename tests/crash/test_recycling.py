"""A worn worker gives way to a fresh process between two steps: same life, nothing lost, nothing charged."""

from __future__ import annotations

import os

import pytest

from tests.conftest import wait_until
from tests.crash.node_harness import Decisions, StartNode, numbers
from tests.crash.recorder_app import Misbehave, Number

pytestmark = pytest.mark.crash


def test_after_so_many_signals_a_fresh_process_goes_on(decisions: Decisions, start_node: StartNode) -> None:
    node = start_node()
    decisions.register("a")
    decisions.start("a", decisions.node_id(), max_signals="10")
    first = decisions.wait_running("a", 1)

    decisions.send("a", *numbers(1, 15))
    decisions.wait_numbers("a", list(range(1, 16)))
    wait_until(lambda: decisions.agent("a")["pid"] != str(first), "another process has the agent", 10)
    decisions.send("a", *numbers(16, 100))
    decisions.wait_numbers("a", list(range(1, 101)))

    record = decisions.agent("a")
    assert (record["incarnation"], record["restarts"]) == ("1", "0")
    assert decisions.ends("a") == []
    assert decisions.dead("a") == []
    assert "worker_recycled" in node.said()
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_growth_is_seen_between_two_steps(decisions: Decisions, start_node: StartNode) -> None:
    node = start_node(application="tests.crash.memory_app:tree")
    decisions.register("a")
    decisions.start("a", decisions.node_id(), max_growth=str(30 << 20))
    first = decisions.wait_running("a", 1)

    decisions.send("a", *[Misbehave(how="leak")] * 5)
    wait_until(lambda: decisions.agent("a")["version"] == "5", "the leak was applied", 10)
    decisions.send("a", Number(n=1))
    wait_until(lambda: decisions.agent("a")["pid"] != str(first), f"another process has it {node.said()}", 10)

    decisions.wait_numbers("a", [1])
    assert decisions.ends("a") == []


def test_a_killed_successor_is_an_end_like_any_other(decisions: Decisions, start_node: StartNode) -> None:
    start_node()
    where = decisions.node_id()
    decisions.register("a")
    decisions.start("a", where, max_signals="1")
    first = decisions.wait_running("a", 1)
    decisions.send("a", Number(n=1))
    wait_until(lambda: decisions.agent("a")["pid"] != str(first), "another process has the agent", 10)

    decisions.send("a", Misbehave(how="segfault"))
    assert decisions.wait_end("a")["reason"] == "signal:SIGSEGV"
    decisions.start("a", where)
    decisions.send("a", Number(n=2))
    decisions.wait_end("a", 2)
    decisions.start("a", where)

    decisions.wait_numbers("a", [1, 2])
