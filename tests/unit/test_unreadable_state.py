"""A stored state that the code cannot read parks its agent: bytes and mailbox kept, nobody else disturbed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from regrow import Agent, Payload, State, Step, Supervisor, handles, upcast
from regrow.errors import UnreadableState
from regrow.testing import Harness


class Add(Payload, type="add"):
    n: int = 1


class Sum(State, schema=2):
    total: int

    @upcast(1)
    @staticmethod
    def from_1(old: dict[str, Any]) -> dict[str, Any]:
        return {"total": old["sum"]}


class Counter(Agent[Sum], name="unreadable-counter"):
    @handles(Add)
    def add(self, state: Sum, add: Add) -> Step[Sum]:
        return state.evolve(total=state.total + add.n)


def harness(strategy: Any = "one_for_all") -> Harness:
    children = [Counter.child(name, init={"total": 0}) for name in ("a", "b")]
    return Harness(Supervisor("root", children, strategy=strategy, max_restarts=0))


def put_text(world: Harness, text: str, **fields: str) -> None:
    """What somebody writes into the hash by hand."""
    world.put_state("a", {}, schema=2)
    world.client.connection.command(_hset(world, {"state": text, **fields}))
    world.run()


def _hset(world: Harness, fields: dict[str, str]) -> Any:
    from regrow_signals.calls import Command

    words = [word for pair in fields.items() for word in pair]
    return Command(("HSET", world.client.keys.agent("a"), *words), int)


def test_a_state_of_an_earlier_schema_is_led_here_when_its_agent_starts() -> None:
    world = harness()
    world.put_state("a", {"sum": 40}, schema=1)
    world.run()
    assert (world.status("a"), json.loads(world.record("a")["state"])) == ("running", {"sum": 40})

    world.send("a", Add(n=2))
    world.run()

    assert json.loads(world.record("a")["state"]) == {"total": 42}
    assert world.record("a")["schema"] == "2"
    assert world.state("a", Counter) == Sum(total=42)


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
def test_a_state_that_cannot_be_led_here_parks_its_agent_alone(strategy: str) -> None:
    world = harness(strategy)
    world.put_state("a", {"amount": 40}, schema=1)

    world.run()

    record = world.record("a")
    assert record["status"] == "parked"
    assert record["exit_reason"].startswith(
        "unreadable_state:@upcast(1), Sum.from_1() raised KeyError: 'sum'"
    )
    assert record["last_error"] == "@upcast(1), Sum.from_1() raised KeyError: 'sum'"
    assert (record["state"], record["schema"]) == ('{"amount": 40}', "1")
    assert (world.status("b"), world.incarnation("b")) == ("running", 1)
    parked = [event for event in world.events() if event["event"] == "parked"]
    assert [(event["agent"], event["reason"]) for event in parked] == [("a", record["exit_reason"])]
    with pytest.raises(UnreadableState):
        world.state("a", Counter)


def test_signals_to_a_parked_agent_are_kept_and_applied_after_it_is_revived() -> None:
    world = harness()
    world.put_state("a", {"amount": 40}, schema=1)
    world.send("a", Add(n=1))
    world.run()
    receipt = world.send("a", Add(n=2))
    world.advance(3600)
    assert (world.status("a"), world.waiting("a")) == ("parked", 2)
    assert world.fate(receipt).state == "pending"

    world.revive("a")
    assert world.status("a") == "parked"
    world.put_state("a", {"sum": 40}, schema=1)  # code that reads it would do as well
    world.revive("a")

    assert (world.status("a"), world.state("a", Counter).total) == ("running", 43)
    assert (world.waiting("a"), world.dead_letters("a")) == (0, [])


def test_a_parked_agent_sits_out_restarts_of_its_group_and_is_tried_once_by_its_supervisors() -> None:
    world = harness()
    world.put_state("a", {"amount": 40}, schema=1)
    world.run()
    life = world.incarnation("a")

    world.kill("b", reason="operator")
    world.run()

    assert (world.status("b"), world.incarnation("b")) == ("running", 2)
    assert (world.status("a"), world.incarnation("a")) == ("parked", life)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("junk", "stored state does not fit Sum"),
        ('{"total":"many"}', "stored state does not fit Sum: total"),
        ('["total"]', "stored state does not fit Sum"),
    ],
)
def test_junk_written_by_hand_parks_the_agent(text: str, told: str) -> None:
    world = harness()

    put_text(world, text)

    assert (world.status("a"), world.record("a")["state"]) == ("parked", text)
    assert told in world.record("a")["last_error"]


def test_an_emptied_state_is_not_begun_anew() -> None:
    world = harness()
    world.send("a", Add(n=5))
    world.run()

    put_text(world, "")

    assert (world.status("a"), world.record("a")["state"]) == ("parked", "")
    assert "the state is gone, though the agent is at version 1" in world.record("a")["last_error"]


def test_a_record_that_cannot_be_read_parks_the_agent_too() -> None:
    world = harness()
    world.put_state("a", {"total": 1}, schema=2)

    put_text(world, '{"total":1}', version="x")

    assert world.status("a") == "parked"
    assert "unreadable version" in world.record("a")["last_error"]
    assert (world.status("b"), world.incarnation("b")) == ("running", 1)


def test_a_state_that_is_not_there_yet_begins_from_init() -> None:
    world = harness()

    world.send("a", Add(n=5))
    world.run()

    assert world.state("a", Counter).total == 5
