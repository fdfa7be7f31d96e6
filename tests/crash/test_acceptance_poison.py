"""Signals that kill their process, and a handler that spoils its state: a failure stays where it is."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from tests.conftest import PrivateServer, wait_until
from tests.crash.acceptance_app import POISONS, Poison, Spoil
from tests.crash.marked_processes import workers_of_nodes
from tests.crash.whole_system import LONG, WholeSystem, numbers_up_to

pytestmark = [pytest.mark.crash, pytest.mark.timeout(150)]

ENDS = {
    "exit": ["exit:3"] * 2,
    "segfault": ["signal:SIGSEGV"] * 2,
    "kill": ["signal:SIGKILL"] * 3,
    "spin": ["deadline"] * 2,
    "raise": ["exception:ValueError: told to raise"],
}
LETTERS = {
    "exit": "max_attempts",
    "segfault": "max_attempts",
    "kill": "max_kills",
    "spin": "max_attempts",
    "raise": "exception",
}


@pytest.fixture(params=["poisoned", "pooled_poisoned"])
def poisoned(own_server: PrivateServer, request: pytest.FixtureRequest) -> Iterator[WholeSystem]:
    """In a process of its own each, and in slots."""
    with WholeSystem.on(own_server, request.param) as system:
        system.watchdog()
        system.node()
        wait_until(lambda: len(system.agents()) == 1 + len(POISONS), "all agents are registered", LONG)
        yield system


@pytest.fixture(params=["one", "one_pooled"])
def one(own_server: PrivateServer, request: pytest.FixtureRequest) -> Iterator[WholeSystem]:
    with WholeSystem.on(own_server, request.param) as system:
        system.watchdog()
        system.node()
        wait_until(lambda: system.agents() == ["a"], "the agent is registered", LONG)
        yield system


def is_pooled(system: WholeSystem) -> bool:
    return "pooled" in system.tree


def test_poison_costs_its_tries_and_is_a_dead_letter_and_the_neighbour_notices_nothing(
    poisoned: WholeSystem,
) -> None:
    neighbour = 0 if is_pooled(poisoned) else poisoned.wait_running("neighbour", *POISONS)["neighbour"]

    for how in POISONS:
        poisoned.send(how, *numbers_up_to(20), Poison(how=how), *numbers_up_to(40, first=21))
        poisoned.send(
            "neighbour", *numbers_up_to(8 * (POISONS.index(how) + 1), first=8 * POISONS.index(how) + 1)
        )

    for agent in (*POISONS, "neighbour"):
        poisoned.wait_numbers(agent, list(range(1, 41)))
    assert {how: [each["reason"] for each in poisoned.events("exited", how)] for how in POISONS} == ENDS
    letters = {how: poisoned.dead(how) for how in POISONS}
    assert {how: [each["reason"] for each in letters[how]] for how in POISONS} == {
        how: [reason] for how, reason in LETTERS.items()
    }
    assert all(letters[how][0]["type"] == "acceptance.poison" for how in POISONS)
    assert all(json.loads(letters[how][0]["data"]) == {"how": how} for how in POISONS)
    assert {how: [each["reason"] for each in poisoned.events("dead_letter", how)] for how in POISONS} == {
        how: [reason] for how, reason in LETTERS.items()
    }
    restarted = {how: str(1 + len(ENDS[how])) for how in POISONS}
    assert poisoned.incarnations() == {"neighbour": "1", **restarted}
    assert is_pooled(poisoned) or poisoned.pids()["neighbour"] == neighbour
    poisoned.assert_clean(dict.fromkeys((*POISONS, "neighbour"), 40), dead=dict.fromkeys(POISONS, 1))


def test_a_state_spoiled_by_a_handler_that_rejects_is_stored_byte_for_byte_as_it_was(
    one: WholeSystem,
) -> None:
    one.send("a", *numbers_up_to(5))
    one.wait_numbers("a", [1, 2, 3, 4, 5])
    before = one.agent("a")

    one.send("a", Spoil())
    wait_until(lambda: len(one.dead("a")) == 1, "the signal is a dead letter", LONG)

    after = one.agent("a")
    assert after["state"].encode() == before["state"].encode()
    assert after["incarnation"] == before["incarnation"]
    assert is_pooled(one) or after["pid"] == before["pid"]
    # Good signals around it, in one batch and in the next life, see nothing of it either.
    one.send("a", *numbers_up_to(7, first=6), Spoil(), *numbers_up_to(9, first=8))
    one.wait_numbers("a", list(range(1, 10)))
    for worker in workers_of_nodes(one.processes()):
        os.kill(worker, signal.SIGKILL)
    one.send("a", *numbers_up_to(10, first=10))
    one.wait_numbers("a", list(range(1, 11)))
    assert json.loads(one.agent("a")["state"])["nested"] == [[1, 2], [3]]
    assert [each["reason"] for each in one.dead("a")] == ["rejected", "rejected"]
    one.assert_clean({"a": 10}, dead={"a": 2})
