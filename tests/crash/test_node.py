"""A node and its workers, without a watchdog: what ends is told once with its reason, and nothing accepted is lost."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.crash.node_harness import Decisions, StartNode, numbers
from tests.crash.processes import alive, cpu_ticks, descendants, private_bytes
from tests.crash.recorder_app import Misbehave, Number

pytestmark = pytest.mark.crash


def test_a_killed_worker_is_told_and_the_next_life_goes_on(
    decisions: Decisions, start_node: StartNode
) -> None:
    start_node()
    node = decisions.node_id()
    decisions.register("a")
    decisions.send("a", *numbers(1, 5))
    pid = decisions.wait_running("a", decisions.start("a", node))
    decisions.wait_numbers("a", [1, 2, 3, 4, 5])

    os.kill(pid, signal.SIGKILL)
    end = decisions.wait_end("a")
    decisions.send("a", *numbers(6, 7))
    decisions.start("a", node)

    assert (end["reason"], end["charged"]) == ("signal:SIGKILL", "1")
    decisions.wait_numbers("a", [1, 2, 3, 4, 5, 6, 7])
    assert decisions.dead("a") == []


@pytest.mark.parametrize(
    ("step", "times"),
    [
        ("before_claim", 1), ("before_read", 1), ("after_read", 1), ("in_handler", 1), ("in_handler", 150),
        ("before_commit", 2), ("after_commit", 1), ("after_commit", 3),
    ],
)  # fmt: skip
def test_a_kill_at_any_step_loses_and_doubles_nothing(
    decisions: Decisions, start_node: StartNode, step: str, times: int
) -> None:
    start_node(fail_points={step: times})
    node = decisions.node_id()
    decisions.register("a")
    decisions.start("a", node)
    if step in ("before_read", "after_read"):
        decisions.wait_running("a", 1) if step == "after_read" else None
    decisions.send("a", *numbers(1, 400))

    end = decisions.wait_end("a")
    decisions.start("a", node)

    assert end["reason"] == "signal:SIGKILL"
    decisions.wait_numbers("a", list(range(1, 401)), timeout=20)
    assert decisions.dead("a") == []


@pytest.mark.parametrize(
    ("how", "reason", "dead_reason"),
    [
        ("raise", "exception:ValueError: told to raise", "exception"),
        ("exit", "exit:3", "attempts"),
        ("sys.exit", "exit:0", "attempts"),
        ("segfault", "signal:SIGSEGV", "attempts"),
        ("spin", "deadline", "attempts"),
        ("hold the lock", "deadline", "attempts"),
    ],
)  # fmt: skip
def test_a_poison_signal_costs_its_attempts_and_then_is_a_dead_letter(
    decisions: Decisions, start_node: StartNode, how: str, reason: str, dead_reason: str
) -> None:
    start_node()
    node = decisions.node_id()
    decisions.register("a")
    decisions.send("a", Number(n=1), Misbehave(how=how), Number(n=2))
    lives = 1 if how == "raise" else 2

    for life in range(1, lives + 1):
        decisions.start("a", node, deadline_ms="400")
        end = decisions.wait_end("a", life)
        assert (end["reason"], end["charged"]) == (reason, "1")
    decisions.start("a", node)

    decisions.wait_numbers("a", [1, 2])
    (letter,) = decisions.dead("a")
    assert letter["type"] == "test.misbehave"
    assert dead_reason in letter["reason"]


def test_a_returned_stop_is_a_normal_end_and_a_clean_release(
    decisions: Decisions, start_node: StartNode
) -> None:
    start_node()
    decisions.register("a")
    decisions.send("a", Misbehave(how="stop"))

    decisions.start("a", decisions.node_id())

    assert decisions.wait_end("a")["reason"] == "normal"
    assert decisions.agent("a")["clean"] == "1"


def test_a_stop_order_ends_an_idle_worker_at_once(decisions: Decisions, start_node: StartNode) -> None:
    start_node()
    node = decisions.node_id()
    decisions.register("a")
    pid = decisions.wait_running("a", decisions.start("a", node))

    decisions.order(node, order="stop", agent="a", incarnation="1", shutdown_ms="-1")

    wait_until(lambda: not alive(pid), "the idle worker ends", timeout=0.9)
    assert decisions.wait_end("a")["reason"] == "shutdown"
    assert decisions.agent("a")["clean"] == "1"


def test_a_worker_that_does_not_stop_in_time_is_killed(decisions: Decisions, start_node: StartNode) -> None:
    start_node()
    node = decisions.node_id()
    decisions.register("a")
    decisions.send("a", Misbehave(how="spin"))
    pid = decisions.wait_running("a", decisions.start("a", node, deadline_ms="60000"))
    wait_until(lambda: cpu_ticks(pid) > 10, "the handler spins")

    decisions.order(node, order="stop", agent="a", incarnation="1", shutdown_ms="200")

    assert decisions.wait_end("a")["reason"] == "killed"


@pytest.mark.parametrize(
    ("order", "reason", "charged"),
    [
        ({"order": "stop", "shutdown_ms": "0"}, "killed", "1"),
        ({"order": "kill", "reason": "operator"}, "operator", "0"),
    ],
)
def test_a_brutal_kill_and_an_operators_kill(
    decisions: Decisions, start_node: StartNode, order: dict[str, str], reason: str, charged: str
) -> None:
    start_node()
    node = decisions.node_id()
    decisions.register("a")
    decisions.wait_running("a", decisions.start("a", node))

    decisions.order(node, agent="a", incarnation="1", **order)

    end = decisions.wait_end("a")
    assert (end["reason"], end["charged"]) == (reason, charged)


def test_an_order_for_another_life_changes_nothing(decisions: Decisions, start_node: StartNode) -> None:
    start_node()
    node = decisions.node_id()
    decisions.register("a")
    pid = decisions.wait_running("a", decisions.start("a", node))

    decisions.order(node, order="kill", agent="a", incarnation="7", reason="operator")
    decisions.order(node, order="stop", agent="stranger", incarnation="1", shutdown_ms="0")
    decisions.send("a", Number(n=1))

    decisions.wait_numbers("a", [1])
    assert alive(pid)
    assert decisions.ends("a") == []


def test_a_type_that_the_application_lacks_is_a_failed_start(
    decisions: Decisions, start_node: StartNode
) -> None:
    start_node()
    decisions.register("a")

    decisions.start("a", decisions.node_id(), type="tape")

    end = decisions.wait_end("a")
    assert end["reason"].startswith("start_failed")
    assert "tape" in end["reason"] + end["error"]


def test_a_killed_spawner_is_the_uncharged_end_of_its_workers_and_is_replaced(
    decisions: Decisions, start_node: StartNode
) -> None:
    parent = start_node()
    node = decisions.node_id()
    decisions.register("a")
    pid = decisions.wait_running("a", decisions.start("a", node))

    os.kill(parent.spawner(), signal.SIGKILL)
    end = decisions.wait_end("a")
    decisions.start("a", node)
    decisions.send("a", Number(n=1))

    assert (end["reason"], end["charged"]) == ("spawner_lost", "0")
    wait_until(lambda: not alive(pid), "the worker dies with its spawner", timeout=10)
    decisions.wait_numbers("a", [1])


def test_a_spawner_that_does_not_answer_is_replaced(decisions: Decisions, start_node: StartNode) -> None:
    parent = start_node(heartbeat=0.3, node_timeout=1.0)
    node = decisions.node_id()
    decisions.register("a")
    decisions.wait_running("a", decisions.start("a", node))

    os.kill(parent.spawner(), signal.SIGSTOP)

    assert decisions.wait_end("a", timeout=5)["reason"] == "spawner_lost"
    decisions.wait_running("a", decisions.start("a", node))


def test_an_unreadable_record_of_one_agent_disturbs_no_other(
    decisions: Decisions, start_node: StartNode
) -> None:
    start_node(heartbeat=0.3)
    node = decisions.node_id()
    for agent in ("a", "b"):
        decisions.register(agent)
        decisions.wait_running(agent, decisions.start(agent, node))

    decisions.raw.delete(decisions.keys.agent("a"))
    decisions.raw.set(decisions.keys.agent("a"), "not ours")
    decisions.send("b", Number(n=1))

    decisions.wait_numbers("b", [1])
    with pytest.raises(AssertionError):
        wait_until(lambda: decisions.ends("b"), "the other agent ends", timeout=1.5)


def test_a_killed_node_takes_all_its_processes_along(decisions: Decisions, start_node: StartNode) -> None:
    parent = start_node()
    decisions.register("a")
    pid = decisions.wait_running("a", decisions.start("a", decisions.node_id()))
    family = descendants(parent.process.pid)

    parent.kill()

    assert pid in family
    wait_until(lambda: not any(map(alive, family)), "spawner and workers are gone", timeout=10)


def test_sigterm_drains(decisions: Decisions, start_node: StartNode) -> None:
    parent = start_node()
    node = decisions.node_id()
    for agent in ("a", "b"):
        decisions.register(agent)
        decisions.wait_running(agent, decisions.start(agent, node))
    family = descendants(parent.process.pid)

    parent.ask_to_end()

    assert parent.process.wait(3) == 0
    assert not any(map(alive, family))
    for agent in ("a", "b"):
        end = decisions.wait_end(agent)
        assert (end["reason"], end["charged"]) == ("drained", "0")
        assert decisions.agent(agent)["clean"] == "1"
    events = [fields["event"] for _, fields in decisions.exits() if fields["kind"] == "node"]
    assert events == ["joined", "draining", "left"]


def test_a_drain_kills_what_does_not_end_in_its_time(decisions: Decisions, start_node: StartNode) -> None:
    parent = start_node(drain=0.5)
    decisions.register("a")
    decisions.send("a", Misbehave(how="spin"))
    pid = decisions.wait_running("a", decisions.start("a", decisions.node_id(), deadline_ms="60000"))
    wait_until(lambda: cpu_ticks(pid) > 10, "the handler spins")

    parent.ask_to_end()

    assert parent.process.wait(3) == 0
    end = decisions.wait_end("a")
    assert (end["reason"], end["charged"]) == ("drained", "0")


def test_sigterm_before_the_application_is_loaded_ends_the_node(start_node: StartNode) -> None:
    parent = start_node(application="tests.crash.slow_app:tree")
    wait_until(lambda: descendants(parent.process.pid), "the spawner is started")
    family = descendants(parent.process.pid)

    parent.ask_to_end()

    assert parent.process.wait(3) == 0
    wait_until(lambda: not any(map(alive, family)), "the spawner is gone", timeout=10)


def test_an_application_that_cannot_be_loaded_ends_the_node_with_one_line(start_node: StartNode) -> None:
    parent = start_node(application="tests.crash.no_such_app:tree")

    assert parent.process.wait(10) == 78
    lines = [line for line in parent.said().splitlines() if "ERROR" in line]
    assert len(lines) == 1
    assert "no_such_app" in lines[0]


def test_an_application_with_threads_runs_in_fresh_interpreters(
    decisions: Decisions, start_node: StartNode
) -> None:
    parent = start_node(application="tests.crash.threaded_app:tree")
    node = decisions.node_id()
    decisions.register("a")
    decisions.send("a", Number(n=1))

    pid = decisions.wait_running("a", decisions.start("a", node))

    decisions.wait_numbers("a", [1])
    assert "started ticker (tests.crash.threaded_app)" in parent.said()
    os.kill(pid, signal.SIGKILL)
    assert decisions.wait_end("a")["reason"] == "signal:SIGKILL"


def test_fresh_interpreters_keep_the_promises_of_forks(decisions: Decisions, start_node: StartNode) -> None:
    parent = start_node(application="tests.crash.threaded_app:tree", spares=0)
    node = decisions.node_id()
    for agent in ("a", "b"):
        decisions.register(agent)
        decisions.start(agent, node, deadline_ms="1000")
    pids = [decisions.wait_running(agent, 1) for agent in ("a", "b")]
    family = descendants(parent.process.pid)
    assert {*pids} <= {*family}

    decisions.send("a", Number(n=1), Misbehave(how="spin"))
    assert decisions.wait_end("a")["reason"] == "deadline"
    parent.ask_to_end()

    assert parent.process.wait(10) == 0
    assert decisions.wait_end("b")["reason"] == "drained"
    assert decisions.numbers("a") == [1]
    assert not any(map(alive, family))


def test_a_frozen_idle_worker_is_ended_from_outside(decisions: Decisions, start_node: StartNode) -> None:
    start_node(heartbeat=0.4, node_timeout=1.5)
    decisions.register("a")
    pid = decisions.wait_running("a", decisions.start("a", decisions.node_id()))

    os.kill(pid, signal.SIGSTOP)

    end = decisions.wait_end("a", timeout=5)
    assert (end["reason"], end["charged"]) == ("frozen", "1")


def test_a_node_paused_with_its_workers_ends_nobody_for_it(
    decisions: Decisions, start_node: StartNode
) -> None:
    parent = start_node(heartbeat=0.5, node_timeout=2.0)
    decisions.register("a")
    pid = decisions.wait_running("a", decisions.start("a", decisions.node_id()))
    family = [parent.process.pid, *descendants(parent.process.pid)]

    for each in family:
        os.kill(each, signal.SIGSTOP)
    beaten = decisions.raw.hget(decisions.keys.node(decisions.node_id()), "beats")
    with pytest.raises(AssertionError):
        wait_until(lambda: False, "three seconds go by", timeout=3)
    for each in reversed(family):
        os.kill(each, signal.SIGCONT)

    wait_until(
        lambda: decisions.raw.hget(decisions.keys.node(decisions.node_id()), "beats") != beaten,
        "the node beats again",
    )
    decisions.send("a", Number(n=1))
    decisions.wait_numbers("a", [1])
    assert alive(pid)
    assert decisions.ends("a") == []


def test_a_pause_in_the_middle_of_a_transition_uses_up_nothing_of_its_deadline(
    decisions: Decisions, start_node: StartNode, tmp_path: Path
) -> None:
    parent = start_node(heartbeat=0.3, node_timeout=1.0)
    decisions.register("a")
    decisions.wait_running("a", decisions.start("a", decisions.node_id(), deadline_ms="1000"))
    family = [parent.process.pid, *descendants(parent.process.pid)]
    gate = tmp_path / "gate"
    decisions.send("a", Misbehave(how=str(gate)), Number(n=1))
    wait_until((tmp_path / "gate.inside").is_symlink, "the handler is entered")

    for each in family:
        os.kill(each, signal.SIGSTOP)
    thaw_at = time.monotonic() + 2.5
    wait_until(lambda: time.monotonic() >= thaw_at, "more than twice the deadline goes by")
    # The node first: it looks at its workers before they can do anything about it.
    for each in family:
        os.kill(each, signal.SIGCONT)
    wait_until(lambda: "node_was_paused" in parent.said(), "the node has looked")
    gate.touch()

    decisions.wait_numbers("a", [1])
    assert decisions.ends("a") == []
    decisions.send("a", Misbehave(how="spin"))
    assert decisions.wait_end("a")["reason"] == "deadline"


def test_a_node_that_is_not_known_any_more_begins_anew(decisions: Decisions, start_node: StartNode) -> None:
    start_node(heartbeat=0.3)
    old = decisions.node_id()
    decisions.register("a")
    pid = decisions.wait_running("a", decisions.start("a", old))

    decisions.raw.zrem(decisions.keys.nodes, old)
    decisions.raw.delete(decisions.keys.node(old))

    wait_until(lambda: decisions.node_id() != old, "the node joins as a new one")
    wait_until(lambda: not alive(pid), "its old workers are ended")
    decisions.start("a", decisions.node_id())
    decisions.send("a", Number(n=1))
    decisions.wait_numbers("a", [1])


def test_a_life_that_a_beat_calls_stale_is_ended(decisions: Decisions, start_node: StartNode) -> None:
    start_node(heartbeat=0.3)
    node = decisions.node_id()
    decisions.register("a")
    pid = decisions.wait_running("a", decisions.start("a", node))

    decisions.raw.hset(decisions.keys.agent("a"), mapping={"incarnation": "9", "owner": ""})

    wait_until(lambda: not alive(pid), "the superseded worker is ended")
    assert decisions.ends("a") == []


def test_a_worker_has_little_memory_of_its_own(decisions: Decisions, start_node: StartNode) -> None:
    start_node()
    decisions.register("a")
    decisions.send("a", *numbers(1, 300))
    pid = decisions.wait_running("a", decisions.start("a", decisions.node_id()))
    decisions.wait_numbers("a", list(range(1, 301)))

    assert private_bytes(pid) < 6 << 20
