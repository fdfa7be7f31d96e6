"""What the watchdog makes of an agent that a ``send`` created: one start, or a reason that is seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from regrow import Client
from regrow.errors import Refused
from regrow_signals.client import Message
from regrow_signals.mailbox import Receipt
from regrow_supervisor.spec import Supervisor
from tests.integration.test_watchdog import KEYS, Support, World


@pytest.fixture
def world(redis_url: str) -> Iterator[World]:
    made = World(redis_url)
    yield made
    for connection in (made.look, *made.opened):
        connection.close()


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    with Client(redis_url) as client:
        yield client


def crowd(**flags: Any) -> Supervisor:
    return Supervisor(
        "desk", [Support.child("first"), Supervisor("crowd", strategy="dynamic", agents=[Support], **flags)]
    )


def send(client: Client, agent: str, **fields: Any) -> Receipt:
    return client.send(agent, "ticket.opened", {}, create=Support.child(under="desk/crowd", **fields))


def backlog(world: World, agent: str) -> int:
    return int(world.raw("XLEN", KEYS.mailbox(agent)))


def test_it_starts_under_its_supervisor_with_what_its_sender_said(world: World, client: Client) -> None:
    node, watchdog = world.node("n1"), world.watchdog(crowd())
    world.settle(watchdog, node)
    birth = send(client, "guest", init={"open": 7}).birth

    world.settle(watchdog, node)

    record = world.agent("guest")
    assert (record["status"], record["incarnation"], record["birth"]) == ("running", "1", birth)
    assert record["state"] == '{"open":7}' and backlog(world, "guest") == 1
    assert "child:guest" in world.record("desk/crowd") and world.waiting() == 0
    assert not world.raw("KEYS", "*reply*create*") and world.reloads == 0
    node.end("guest", "signal:SIGKILL")
    world.settle(watchdog, node)
    assert world.agent("guest")["incarnation"] == "2"


def test_a_leader_that_comes_later_starts_it_once(world: World, client: Client) -> None:
    node, first = world.node("n1"), world.watchdog(crowd())
    world.settle(first, node)
    for _ in range(3):
        send(client, "guest")
    first.resign()
    second = world.watchdog(crowd())

    world.settle(second, node)

    assert [order["agent"] for order in node.orders if order["order"] == "start"].count("guest") == 1
    assert world.agent("guest")["status"] == "running" and backlog(world, "guest") == 3


def test_without_a_node_it_waits_as_any_child(world: World, client: Client) -> None:
    watchdog = world.watchdog(crowd())
    world.settle(watchdog)
    send(client, "guest")
    world.settle(watchdog)
    assert world.agent("guest")["status"] == "waiting"

    node = world.node("n1")
    world.settle(watchdog, node)

    assert world.agent("guest")["status"] == "running"


def test_one_too_many_stays_registered_with_its_mailbox_and_says_why(world: World, client: Client) -> None:
    node, watchdog = world.node("n1"), world.watchdog(crowd(max_children=1))
    world.settle(watchdog, node)
    send(client, "guest-1")
    receipt = send(client, "guest-2")

    world.settle(watchdog, node)

    record = world.agent("guest-2")
    assert (record["status"], record["last_error"]) == ("registered", "not started: max_children")
    [event] = world.events("not_started")
    assert (event["agent"], event["supervisor"], event["reason"]) == ("guest-2", "desk/crowd", "max_children")
    assert client.status(receipt).state == "pending" and backlog(world, "guest-2") == 1
    with pytest.raises(Refused, match="1 signals"):
        client.delete("guest-2")  # what was accepted is not thrown away in passing
    send(client, "guest-2")  # there by now: only sent
    world.settle(watchdog, node)
    assert len(world.events("not_started")) == 1 and backlog(world, "guest-2") == 2


def test_a_start_that_fails_says_why(world: World, client: Client) -> None:
    node, watchdog = world.node("n1"), world.watchdog(crowd())
    world.settle(watchdog, node)
    send(client, "guest")
    watchdog.run_once()
    [order] = [order for order in node.read() if order["agent"] == "guest"]
    world.raw(
        "XADD", KEYS.exits, "*", "kind", "exited", "agent", "guest", "incarnation", order["incarnation"],
        "node", "n1", "reason", "start_failed:no such module", "charged", "1",
    )  # fmt: skip

    world.settle(watchdog, node)

    record = world.agent("guest")
    assert record["status"] == "registered"
    assert record["last_error"] == "not started: start_failed: start_failed:no such module"
    assert backlog(world, "guest") == 1 and "child:guest" not in world.record("desk/crowd")


def test_a_supervisor_that_went_in_between_leaves_it_registered(world: World, client: Client) -> None:
    node, watchdog = world.node("n1"), world.watchdog(crowd())
    world.settle(watchdog, node)
    world.ask("terminate_child", path="desk", child="crowd")
    send(client, "guest")

    world.settle(watchdog, node)

    record = world.agent("guest")
    assert record["status"] == "registered" and "noproc" in record["last_error"]
    assert [event["agent"] for event in world.events("not_started")] == ["guest"]
    assert backlog(world, "guest") == 1


def test_one_that_was_deleted_meanwhile_is_not_made_again(world: World, client: Client) -> None:
    node, watchdog = world.node("n1"), world.watchdog(crowd())
    world.settle(watchdog, node)
    send(client, "guest")
    client.delete("guest", force=True)

    world.settle(watchdog, node)

    assert world.agent("guest") == {} and "child:guest" not in world.record("desk/crowd")


def test_a_spec_that_the_supervisor_cannot_read_disturbs_nobody(world: World, client: Client) -> None:
    node, watchdog = world.node("n1"), world.watchdog(crowd())
    world.settle(watchdog, node)
    send(client, "guest")
    world.raw("DEL", KEYS.exits)
    world.raw(
        "XADD", KEYS.exits, "*", "kind", "request", "request", "r", "op", "create", "path", "desk/crowd",
        "child", "guest", "spec", '{"id": "guest", "start": {"type": 3}}',
    )  # fmt: skip

    world.settle(watchdog, node)

    assert "invalid_child_spec" in world.agent("guest")["last_error"]
    assert world.agent("first")["status"] == "running"


def test_many_that_wait_come_on_record_in_one_step_and_one_that_cannot_costs_the_others_nothing(
    world: World, client: Client
) -> None:
    node, watchdog = world.node("n1"), world.watchdog(crowd())
    world.settle(watchdog, node)
    version = int(world.record("desk/crowd")["version"])
    for number in range(20):
        send(client, f"guest-{number}")

    watchdog.run_once()

    assert int(world.record("desk/crowd")["version"]) == version + 1
    world.settle(watchdog, node)
    assert {world.agent(f"guest-{number}")["status"] for number in range(20)} == {"running"}

    for number in range(20, 25):
        send(client, f"guest-{number}")
    world.raw("DEL", KEYS.agent("guest-22"))
    world.settle(watchdog, node)
    others = [number for number in range(20, 25) if number != 22]
    assert {world.agent(f"guest-{number}")["status"] for number in others} == {"running"}
    assert "child:guest-22" not in world.record("desk/crowd") and world.waiting() == 0


def test_many_are_created_by_one_call_and_what_cannot_be_leaves_its_error_in_its_place(
    world: World, client: Client
) -> None:
    node, watchdog = world.node("n1"), world.watchdog(crowd())
    world.settle(watchdog, node)
    messages = [
        Message(f"guest-{number % 120}", "ticket.opened", {}, id=f"s-{number}") for number in range(240)
    ]

    results = client.send_many(messages, create=Support.child(under="desk/crowd"))

    assert all(isinstance(result, Receipt) for result in results)
    again = client.send_many(messages[:3], create=Support.child(under="desk/crowd"))
    assert [result.duplicate for result in again if isinstance(result, Receipt)] == [True] * 3
    world.settle(watchdog, node)
    assert {backlog(world, f"guest-{number}") for number in range(120)} == {2}
    assert {world.agent(f"guest-{number}")["status"] for number in range(120)} == {"running"}
    astray = client.send_many(
        [Message("one", "x", {}), Message("first", "x", {})], create=Support.child(under="no")
    )
    assert [type(result).__name__ for result in astray] == ["SupervisorNotFound", "SentReceipt"]
