"""A spare is a replacement that is there before it is needed, and nobody until then."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.crash.node_harness import Decisions, StartNode, numbers
from tests.crash.processes import alive, cpu_ticks, descendants, private_bytes
from tests.crash.recorder_app import Misbehave, Number

pytestmark = pytest.mark.crash


@pytest.fixture
def hooks() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="regrow-hooks-") as folder:
        yield Path(folder)


def test_the_next_life_runs_in_the_spare_and_another_one_comes(
    decisions: Decisions, start_node: StartNode
) -> None:
    parent = start_node()
    where = decisions.node_id()
    decisions.register("a")
    first = decisions.wait_running("a", decisions.start("a", where))
    spare = parent.wait_spare()
    decisions.send("a", *numbers(1, 3))
    decisions.wait_numbers("a", [1, 2, 3])

    os.kill(first, signal.SIGKILL)
    decisions.wait_end("a")
    decisions.send("a", *numbers(4, 6))
    pid = decisions.wait_running("a", decisions.start("a", where))

    assert pid == spare
    decisions.wait_numbers("a", [1, 2, 3, 4, 5, 6])
    assert parent.wait_spare() != spare
    assert private_bytes(pid) < 6 << 20


@pytest.mark.parametrize(
    ("application", "how", "limit", "reason"),
    [
        ("recorder_app", "spin", {"deadline_ms": "400"}, "deadline"),
        ("memory_app", "grow", {"max_memory": str(96 << 20)}, "memory"),
        ("memory_app", "jump", {"max_memory": str(96 << 20)}, "memory"),
    ],
)
def test_a_life_in_a_spare_has_its_own_limits(
    decisions: Decisions,
    start_node: StartNode,
    application: str,
    how: str,
    limit: dict[str, str],
    reason: str,
) -> None:
    parent = start_node(application=f"tests.crash.{application}:tree")
    where = decisions.node_id()
    decisions.register("a")
    spare = parent.wait_spare()

    pid = decisions.wait_running("a", decisions.start("a", where, **limit))
    decisions.send("a", Misbehave(how=how))

    assert pid == spare
    assert decisions.wait_end("a")["reason"] == reason


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_of_a_spare_is_no_loss(
    decisions: Decisions, start_node: StartNode, number: signal.Signals
) -> None:
    parent = start_node()
    where = decisions.node_id()
    decisions.register("a")
    spare = parent.wait_spare()

    os.kill(spare, number)
    wait_until(lambda: not alive(spare), "the spare is gone")
    pid = decisions.wait_running("a", decisions.start("a", where))
    decisions.send("a", Number(n=1))

    decisions.wait_numbers("a", [1])
    assert parent.wait_spare() not in (spare, pid)
    assert decisions.ends("a") == []
    assert "spare_lost" in parent.said()


@pytest.mark.parametrize("killed", [False, True])
def test_a_spare_that_does_not_take_its_agent_gives_way_to_a_fork(
    decisions: Decisions, start_node: StartNode, killed: bool
) -> None:
    parent = start_node()
    where = decisions.node_id()
    decisions.register("a")
    decisions.send("a", Number(n=1))
    spare = parent.wait_spare()

    os.kill(spare, signal.SIGSTOP)
    decisions.start("a", where)
    wait_until(lambda: parent.said().count("worker_forked") == 1, "the spare was given the agent")
    if killed:
        os.kill(spare, signal.SIGKILL)

    assert decisions.wait_running("a", 1) != spare
    decisions.wait_numbers("a", [1])
    assert decisions.ends("a") == []
    assert not alive(spare)


def test_an_order_to_kill_reaches_a_life_that_a_frozen_spare_was_given(
    decisions: Decisions, start_node: StartNode
) -> None:
    parent = start_node()
    where = decisions.node_id()
    decisions.register("a")
    spare = parent.wait_spare()
    os.kill(spare, signal.SIGSTOP)
    decisions.start("a", where)
    wait_until(lambda: parent.said().count("worker_forked") == 1, "the spare was given the agent")

    decisions.order(where, order="kill", agent="a", incarnation="1", reason="operator")

    end = decisions.wait_end("a")
    assert (end["reason"], end["charged"]) == ("operator", "0")
    assert parent.wait_spare() != spare
    assert parent.said().count("worker_forked") == 1


def test_a_spare_costs_no_command_and_no_time(decisions: Decisions, start_node: StartNode) -> None:
    parent = start_node(heartbeat=0.3)
    where = decisions.node_id()
    spare = parent.wait_spare()
    used = cpu_ticks(spare)
    (client,) = [each for each in decisions.raw.client_list() if each["name"] == "regrow-spare"]
    beats = decisions.raw.hget(decisions.keys.node(where), "beats")

    wait_until(
        lambda: int(decisions.raw.hget(decisions.keys.node(where), "beats")) > int(beats) + 5,
        "the node beats five times",
    )

    (later,) = [each for each in decisions.raw.client_list() if each["name"] == "regrow-spare"]
    assert (later["id"], later["tot-cmds"]) == (client["id"], client["tot-cmds"])
    assert cpu_ticks(spare) == used


def test_spares_can_be_had_in_any_number(decisions: Decisions, start_node: StartNode) -> None:
    parent = start_node(spares=0)
    where = decisions.node_id()
    decisions.register("a")
    decisions.wait_running("a", decisions.start("a", where))
    assert parent.spares() == []
    parent.kill()

    several = start_node(spares=3)
    wait_until(lambda: several.said().count("spare_ready") == 3, "three are ready")
    assert len(several.spares()) == 3


def test_a_drain_takes_the_spare_along(decisions: Decisions, start_node: StartNode) -> None:
    parent = start_node()
    decisions.node_id()
    parent.wait_spare()
    family = descendants(parent.process.pid)

    parent.ask_to_end()

    assert parent.process.wait(3) == 0
    assert not any(map(alive, family))


def test_a_spare_dies_with_its_spawner(decisions: Decisions, start_node: StartNode) -> None:
    parent = start_node()
    decisions.node_id()
    spare = parent.wait_spare()

    os.kill(parent.spawner(), signal.SIGKILL)

    wait_until(lambda: not alive(spare), "the spare is gone", timeout=10)
    wait_until(lambda: parent.said().count("spare_ready") == 2, "the next spawner has a spare of its own")


def test_hooks_run_once_in_a_spare_and_each_process_has_its_own_chance(
    decisions: Decisions, start_node: StartNode, hooks: Path
) -> None:
    parent = start_node(
        application="tests.crash.hooked_app:tree", environment={"REGROW_TEST_HOOKS": str(hooks)}
    )
    where = decisions.node_id()
    decisions.register("a")
    spare = parent.wait_spare()
    assert (hooks / f"ran-{spare}").exists()
    (hooks / f"ran-{spare}").rename(hooks / "first")

    assert decisions.wait_running("a", decisions.start("a", where)) == spare
    second = parent.wait_spare()

    assert not (hooks / f"ran-{spare}").exists()
    assert (hooks / "first").read_text() != (hooks / f"ran-{second}").read_text()


@pytest.mark.parametrize("how", ["fail", "hang"])
def test_a_hook_that_fails_in_a_spare_fails_no_start_and_is_not_tried_all_the_time(
    decisions: Decisions, start_node: StartNode, hooks: Path, how: str
) -> None:
    (hooks / how).touch()
    parent = start_node(
        application="tests.crash.hooked_app:tree",
        environment={"REGROW_TEST_HOOKS": str(hooks)},
        start_timeout=1.0,
    )
    where = decisions.node_id()
    decisions.register("a")
    told = "spare_failed" if how == "fail" else "spare_overdue"
    wait_until(lambda: told in parent.said(), "it is told")
    spare_tries = parent.said().count("spare_lost")
    (hooks / how).unlink()

    pid = decisions.wait_running("a", decisions.start("a", where))
    decisions.send("a", Number(n=1))

    decisions.wait_numbers("a", [1])
    assert (hooks / f"ran-{pid}").exists()
    assert spare_tries <= 1
    assert decisions.ends("a") == []


def test_fresh_interpreters_have_a_spare_as_well(decisions: Decisions, start_node: StartNode) -> None:
    parent = start_node(application="tests.crash.threaded_app:tree")
    where = decisions.node_id()
    decisions.register("a")
    decisions.send("a", Number(n=1))
    spare = parent.wait_spare()

    assert decisions.wait_running("a", decisions.start("a", where)) == spare
    decisions.wait_numbers("a", [1])
