"""Pooled agents over real processes: slots killed at every step, or kept busy; each signal is applied once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from regrow.control import ask_watchdog
from tests.conftest import PrivateServer, wait_until
from tests.crash.acceptance_app import POISONS, POOLED, Hold, Poison
from tests.crash.whole_system import LONG, Service, WholeSystem, numbers_up_to

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

FIRST, *OTHERS = POOLED


@pytest.fixture
def system(own_server: PrivateServer) -> Iterator[WholeSystem]:
    with WholeSystem.on(own_server, "pooled") as system:
        yield system


@pytest.fixture
def poisoned(own_server: PrivateServer) -> Iterator[WholeSystem]:
    with WholeSystem.on(own_server, "pooled_poisoned") as system:
        yield system


def begin(system: WholeSystem) -> None:
    """The tree is stored, every agent's life has begun; no node runs any yet."""
    system.watchdog()
    wait_until(lambda: system.agents() == sorted(POOLED), "all agents are registered", LONG)
    system.wait_idle(*POOLED)


def inside(gate: Path) -> int:
    """The process that waits in a handler for this gate."""
    found = [int(link.name.rpartition(".")[2]) for link in gate.parent.glob(f"{gate.name}.*")]
    return found[-1] if found else 0


def wait_inside(gate: Path) -> int:
    wait_until(lambda: inside(gate) > 0, f"a slot waits at {gate.name}", LONG)
    return inside(gate)


def restarts(system: WholeSystem, *agents: str) -> set[str]:
    return {agent for agent in agents if system.agent(agent)["incarnation"] != "1"}


def slot_failing_node(system: WholeSystem, **points: int) -> Service:
    """A node with one slot at a time, the first of which kills itself at a step."""
    return system.told_node({"fail_points": points, "pool_slots": 1, "pool_extra_slots": 0})


def drain(node: Service) -> None:
    node.send(signal.SIGTERM)
    wait_until(lambda: node.ended, "the node has drained", LONG)
    assert node.process.returncode == 0


def test_a_slot_killed_at_any_step_costs_the_agent_in_hand_one_restart_and_nobody_a_signal(
    system: WholeSystem,
) -> None:
    steps = {"after_read": 1, "in_handler": 7, "before_commit": 2, "after_commit": 2, "before_read": 1}
    begin(system)
    sent = 0

    for step, times in steps.items():
        for agent in POOLED:
            system.send(agent, *numbers_up_to(sent + 5, first=sent + 1))
        sent += 5
        node = slot_failing_node(system, **{step: times})
        for agent in POOLED:
            system.wait_numbers(agent, list(range(1, sent + 1)))
        killed = [each for each in system.events("exited") if each["reason"] == "signal:SIGKILL"]
        assert (step, len(killed)) == (step, 0 if step == "after_read" else 1)
        drain(node)

    assert len(restarts(system, *POOLED)) == 1
    system.assert_clean(dict.fromkeys(POOLED, sent))


def test_a_slot_killed_with_thirty_agents_in_hand_costs_the_running_one_alone(
    system: WholeSystem, tmp_path: Path
) -> None:
    begin(system)
    gate = tmp_path / "gate"
    system.send(FIRST, Hold(n=1, gate=str(gate)))
    for agent in OTHERS:
        system.send(agent, *numbers_up_to(1))

    system.node(REGROW_POOL_SLOTS="1")
    os.kill(wait_inside(gate), signal.SIGKILL)
    for agent in OTHERS:
        system.wait_numbers(agent, [1])
    gate.touch()

    system.wait_numbers(FIRST, [1])
    assert restarts(system, *POOLED) == {FIRST}
    assert system.agent(FIRST)["exit_reason"] == "signal:SIGKILL"
    system.assert_clean(dict.fromkeys(POOLED, 1))


def test_a_fast_agent_answers_while_as_many_slow_ones_as_there_are_slots_run(
    system: WholeSystem, tmp_path: Path
) -> None:
    begin(system)
    slow, fast = POOLED[:4], POOLED[4]
    gates = [tmp_path / f"gate{number}" for number in range(4)]
    system.node(REGROW_POOL_SLOTS="2")
    for agent, gate in zip(slow, gates, strict=True):
        system.send(agent, Hold(n=1, gate=str(gate)))
    pids = {wait_inside(gate) for gate in gates}

    system.send(fast, *numbers_up_to(3))
    system.wait_numbers(fast, [1, 2, 3])

    assert len(pids) == 4
    assert all(system.numbers(agent) == [] for agent in slow)
    for gate in gates:
        gate.touch()
    for agent in slow:
        system.wait_numbers(agent, [1])
    assert restarts(system, *POOLED) == set()
    system.assert_clean({**dict.fromkeys(POOLED, 0), **dict.fromkeys(slow, 1), fast: 3})


def test_what_a_stuck_slot_has_not_begun_is_done_by_another(system: WholeSystem, tmp_path: Path) -> None:
    begin(system)
    gate = tmp_path / "gate"
    system.send(FIRST, Hold(n=1, gate=str(gate)))
    for agent in OTHERS:
        system.send(agent, *numbers_up_to(2))

    system.node(REGROW_POOL_SLOTS="1")
    for agent in OTHERS:
        system.wait_numbers(agent, [1, 2])
    assert system.numbers(FIRST) == []
    gate.touch()

    system.wait_numbers(FIRST, [1])
    assert restarts(system, *POOLED) == set()
    system.assert_clean({**dict.fromkeys(OTHERS, 2), FIRST: 1})


def test_a_poison_signal_kills_slots_up_to_its_bound_and_is_buried_and_its_neighbours_go_on(
    poisoned: WholeSystem,
) -> None:
    system = poisoned
    system.watchdog()
    system.node(REGROW_POOL_SLOTS="2")
    wait_until(lambda: len(system.agents()) == 6, "all agents are registered", LONG)
    system.send("neighbour", *numbers_up_to(1))
    for how in POISONS:
        system.send(how, *numbers_up_to(1), Poison(how=how), *numbers_up_to(2, first=2))

    for how in POISONS:
        system.wait_numbers(how, [1, 2])
    wait_until(lambda: all(map(system.dead, POISONS)), "each poison is a dead letter", LONG)
    reasons = {how: system.dead(how)[0]["reason"] for how in POISONS}
    assert reasons == {
        "exit": "max_attempts", "segfault": "max_attempts", "kill": "max_kills", "spin": "max_attempts",
        "raise": "exception",
    }  # fmt: skip
    system.wait_numbers("neighbour", [1])
    assert restarts(system, "neighbour") == set()
    system.assert_clean({**dict.fromkeys(POISONS, 2), "neighbour": 1}, dict.fromkeys(POISONS, 1))


def test_a_node_killed_hands_its_pooled_agents_to_another_uncharged(
    system: WholeSystem, tmp_path: Path
) -> None:
    begin(system)
    gate = tmp_path / "gate"
    first = system.node(REGROW_POOL_SLOTS="1")
    system.send(FIRST, Hold(n=1, gate=str(gate)))
    wait_inside(gate)
    system.node(REGROW_POOL_SLOTS="1")

    first.kill()
    gate.touch()
    for agent in OTHERS:
        system.send(agent, *numbers_up_to(2))

    system.wait_numbers(FIRST, [1])
    for agent in OTHERS:
        system.wait_numbers(agent, [1, 2])
    assert restarts(system, *POOLED) == set()
    system.assert_clean({**dict.fromkeys(OTHERS, 2), FIRST: 1})


def test_a_node_that_joins_while_nobody_leads_serves_pooled_agents_at_once(system: WholeSystem) -> None:
    begin(system)
    system.services[-1].kill()
    system.send(FIRST, *numbers_up_to(3))

    system.node(REGROW_POOL_SLOTS="1")
    system.wait_numbers(FIRST, [1, 2, 3])

    system.watchdog()
    system.assert_clean({**dict.fromkeys(OTHERS, 0), FIRST: 3})


def test_a_drained_node_gives_its_agents_back(system: WholeSystem) -> None:
    begin(system)
    first = system.node(REGROW_POOL_SLOTS="2")
    for agent in POOLED:
        system.send(agent, *numbers_up_to(200))

    wait_until(lambda: system.numbers(POOLED[0]) != [], "the slots are at work", LONG)
    drain(first)
    system.node(REGROW_POOL_SLOTS="2")

    for agent in POOLED:
        system.wait_numbers(agent, list(range(1, 201)))
    assert restarts(system, *POOLED) == set()
    assert system.events("exited") == []
    system.assert_clean(dict.fromkeys(POOLED, 200))


def test_the_steps_of_a_stopped_agent_are_refused_and_it_goes_on_when_started(
    system: WholeSystem, tmp_path: Path
) -> None:
    begin(system)
    gate = tmp_path / "gate"
    system.node(REGROW_POOL_SLOTS="1")
    system.send(FIRST, Hold(n=1, gate=str(gate)))
    wait_inside(gate)

    ask_watchdog(system.client.connection, system.keys, "hold", {"target": FIRST})
    gate.touch()
    system.send(OTHERS[0], *numbers_up_to(1))
    system.wait_numbers(OTHERS[0], [1])
    assert (system.numbers(FIRST), system.agent(FIRST)["status"]) == ([], "held")

    ask_watchdog(system.client.connection, system.keys, "unhold", {"target": FIRST})
    system.wait_numbers(FIRST, [1])
    record = system.agent(FIRST)
    assert (record["incarnation"], json.loads(record["state"])["numbers"]) == ("2", [1])
    system.assert_clean({**dict.fromkeys(POOLED, 0), FIRST: 1, OTHERS[0]: 1})
