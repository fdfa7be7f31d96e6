"""``idle_delete`` against a real Redis: an idle agent is deleted whole, and whatever races with it is not lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from regrow import Client
from regrow.errors import NoSuchAgent, NotIdle
from regrow_signals.connection import Connection
from regrow_signals.keys import Keys
from regrow_supervisor.idle_deletion import IdleDeletion
from regrow_supervisor.spec import Supervisor
from regrow_supervisor.watchdog import Watchdog
from tests.integration.conftest import Unchanged
from tests.integration.stage import Stage
from tests.integration.test_watchdog import KEYS, SimulatedNode, Support, World

IDLE = 10.0
TREE = Supervisor("desk", strategy="dynamic", agents=[Support])
GUEST = Support.child(under="desk", idle_delete=IDLE)


@pytest.fixture
def world(redis_url: str) -> Iterator[World]:
    made = World(redis_url)
    yield made
    assert made.reloads == 0, "a conflict without a cause"
    for connection in (made.look, *made.opened):
        connection.close()


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    with Client(redis_url) as client:
        yield client


def applied(world: World, agent: str) -> None:
    """As its worker's commit leaves it, once all is applied."""
    entries: Any = world.raw("XREVRANGE", KEYS.mailbox(agent), "+", "-", "COUNT", 1)
    world.raw("HSET", KEYS.agent(agent), "cursor", entries[0][0], "version", "1", "handled", "1")
    world.raw("XTRIM", KEYS.mailbox(agent), "MAXLEN", 0)


def guest(world: World, client: Client, node: SimulatedNode, watchdog: Watchdog) -> None:
    client.send("guest", "ticket.opened", {}, id="s-1", create=GUEST)
    world.settle(watchdog, node)
    assert world.agent("guest")["status"] == "running"


def pass_time(world: World, watchdog: Watchdog, seconds: float, node: SimulatedNode) -> None:
    """As ``World.pass_time``, with a node that also obeys."""
    end = world.clock.now + seconds
    while world.clock.now < end:
        world.pass_time(watchdog, 0.25, node)
        world.settle(watchdog, node)


def test_one_that_has_nothing_to_do_is_stopped_uncharged_and_nothing_is_left(
    world: World, client: Client
) -> None:
    node, watchdog = world.node("n1"), world.watchdog(TREE)
    world.settle(watchdog, node)
    guest(world, client, node, watchdog)
    applied(world, "guest")

    pass_time(world, watchdog, IDLE - 1, node)
    assert world.agent("guest")["status"] == "running"
    pass_time(world, watchdog, IDLE / 2, node)

    assert [order["agent"] for order in node.orders if order["order"] == "stop"] == ["guest"]
    left: list[str] = world.raw("KEYS", "*")
    assert not [key for key in left if key.endswith(":guest")]
    assert not [field for field in world.record("desk") if field.endswith(":guest")]
    assert "guest" not in world.raw("ZRANGE", KEYS.agents, 0, -1)
    assert world.events("deleted")[-1]["reason"] == "idle"
    with pytest.raises(NoSuchAgent):
        client.send("guest", "ticket.opened", {})


def test_it_is_made_anew_by_the_next_who_wants_it(world: World, client: Client) -> None:
    node, watchdog = world.node("n1"), world.watchdog(TREE)
    world.settle(watchdog, node)
    guest(world, client, node, watchdog)
    applied(world, "guest")
    pass_time(world, watchdog, 2 * IDLE, node)

    guest(world, client, node, watchdog)

    record = world.agent("guest")
    assert (record["version"], record["handled"]) == ("0", "0")
    assert world.raw("XLEN", KEYS.mailbox("guest")) == 1


@pytest.mark.parametrize("what", ["mailbox", "outbox", "dead"])
def test_one_with_anything_in_it_stays(world: World, client: Client, what: str) -> None:
    node, watchdog = world.node("n1"), world.watchdog(TREE)
    world.settle(watchdog, node)
    guest(world, client, node, watchdog)
    applied(world, "guest")
    world.raw("XADD", getattr(KEYS, what)("guest"), "*", "id", "x")

    pass_time(world, watchdog, 3 * IDLE, node)

    assert world.agent("guest")["incarnation"] == "1" and world.agent("guest")["status"] == "running"


def test_one_that_works_now_and_then_stays(world: World, client: Client) -> None:
    node, watchdog = world.node("n1"), world.watchdog(TREE)
    world.settle(watchdog, node)
    guest(world, client, node, watchdog)
    for _ in range(4):
        applied(world, "guest")
        pass_time(world, watchdog, IDLE * 0.7, node)
        client.send("guest", "ticket.opened", {})

    assert world.agent("guest")["incarnation"] == "1"


def test_what_is_sent_while_it_stops_brings_it_back(world: World, client: Client) -> None:
    node, watchdog = world.node("n1"), world.watchdog(TREE)
    world.settle(watchdog, node)
    guest(world, client, node, watchdog)
    applied(world, "guest")
    while not any(order["order"] == "stop" for order in node.read()):
        world.pass_time(watchdog, 0.25, node)
    receipt = client.send("guest", "ticket.opened", {}, create=GUEST)
    node.end("guest", "shutdown", charged=False)

    pass_time(world, watchdog, 1, node)

    assert world.agent("guest")["incarnation"] == "2" and world.agent("guest")["status"] == "running"
    assert world.agent("guest")["birth"] == receipt.birth
    assert client.status(receipt).state == "pending"


def test_a_leader_lost_between_stop_and_delete_is_followed_by_one_that_deletes(
    world: World, client: Client
) -> None:
    node, first, second = world.node("n1"), world.watchdog(TREE), world.watchdog(TREE)
    world.settle(first, node)
    guest(world, client, node, first)
    applied(world, "guest")
    while not any(order["order"] == "stop" for order in node.read()):
        world.pass_time(first, 0.25, node)
    first.resign()
    node.end("guest", "shutdown", charged=False)

    world.settle(second, node)
    pass_time(world, second, 1, node)

    assert world.agent("guest") == {}


def test_a_damaged_one_disturbs_nobody(world: World, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    node, watchdog = world.node("n1"), world.watchdog(TREE)
    world.settle(watchdog, node)
    guest(world, client, node, watchdog)
    applied(world, "guest")
    deletion = IdleDeletion.delete

    def damaged_first(self: IdleDeletion, view: Any, child: Any) -> None:
        world.raw("DEL", KEYS.dead("guest"))
        world.raw("SET", KEYS.dead("guest"), "junk")
        deletion(self, view, child)

    monkeypatch.setattr(IdleDeletion, "delete", damaged_first)
    pass_time(world, watchdog, 2 * IDLE, node)

    assert watchdog.leading and world.agent("guest")["status"] == "stopped"


@pytest.fixture
def stage(connection: Connection, raw: Any, keys: Keys) -> Stage:
    stage = Stage(connection, raw, keys)
    stage.lead()
    stage.node("n1")
    return stage


def test_the_step_is_refused_whole_while_anything_is_in_it(stage: Stage, unchanged: Unchanged) -> None:
    owner, _ = stage.live("a")
    with unchanged(), pytest.raises(NotIdle, match="a has something to do"):
        stage.decide(deletions=["a"])
    stage.die(owner)
    stage.feed("a")
    with unchanged(), pytest.raises(NotIdle):
        stage.decide(deletions=["a"], events=[{"event": "never"}])
    stage.raw.xtrim(stage.keys.mailbox("a"), maxlen=0)

    stage.decide(deletions=["a"])

    assert stage.agent("a") == {}
    stage.decide(deletions=["a"])  # gone already: nothing to do
