"""A worker in a long transition is lowered, alone; afterwards it is as before, or a fresh process goes on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.crash.node_harness import Decisions, StartNode, numbers
from tests.crash.recorder_app import Misbehave, Number

pytestmark = pytest.mark.crash


def nice(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


def test_only_the_one_in_a_long_transition_is_lowered_and_then_put_back(
    decisions: Decisions, start_node: StartNode, tmp_path: Path
) -> None:
    node = start_node()
    where = decisions.node_id()
    for agent in ("long", "good"):
        decisions.register(agent)
        decisions.start(agent, where)
    pid, good = decisions.wait_running("long", 1), decisions.wait_running("good", 1)
    before = nice(pid)
    gate = tmp_path / "gate"

    decisions.send("long", Misbehave(how=str(gate)))
    wait_until(lambda: nice(pid) > before, "the long one is lowered")
    decisions.send("good", *numbers(1, 3))
    decisions.wait_numbers("good", [1, 2, 3])
    assert (nice(good), nice(node.spawner()), nice(node.pid)) == (before, before, before)

    gate.touch()
    decisions.send("long", Number(n=1))
    decisions.wait_numbers("long", [1])
    # Whoever may not raise a priority gives way to a fresh process; either way it does not stay low.
    wait_until(lambda: nice(int(decisions.agent("long")["pid"])) == before, "it has its own priority again")
    assert decisions.agent("long")["incarnation"] == "1"
    assert decisions.ends("long") == []


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="takes root, and util-linux")
def test_where_priorities_cannot_be_raised_a_fresh_process_goes_on(
    decisions: Decisions, start_node: StartNode
) -> None:
    start_node(launcher=("setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"))
    decisions.register("a")
    decisions.start("a", decisions.node_id())
    first = decisions.wait_running("a", 1)
    before = nice(first)

    decisions.send("a", Misbehave(how="slow"), *numbers(1, 20))
    decisions.wait_numbers("a", [-1, *range(1, 21)])

    wait_until(lambda: decisions.agent("a")["pid"] != str(first), "another process has the agent")
    assert nice(int(decisions.agent("a")["pid"])) == before
    assert decisions.agent("a")["incarnation"] == "1"
    assert decisions.ends("a") == []
    counted = decisions.raw.hget(
        decisions.keys.counters, "workers_recycled_total|type=recorder|reason=priority"
    )
    assert counted == "1"


def test_it_can_be_turned_off(decisions: Decisions, start_node: StartNode) -> None:
    node = start_node(lower_after=0)
    decisions.register("a")
    decisions.start("a", decisions.node_id())
    pid = decisions.wait_running("a", 1)
    before = nice(pid)

    decisions.send("a", Misbehave(how="slow"), Number(n=1))
    decisions.wait_numbers("a", [-1, 1])

    assert nice(pid) == before
    assert "priority_lowered" not in node.said()
