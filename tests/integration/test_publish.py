"""Publishing from outside, on a real server: who gets it, in which order, and what is told of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from regrow import AsyncClient, Client, Payload
from regrow.errors import (
    BadInput,
    BadTypeName,
    CorruptKey,
    DeadLettersFull,
    IdConflict,
    MailboxFull,
    NoSuchAgent,
    StoreError,
    SubscriptionsFull,
    TooManySubscribers,
)
from regrow_signals.deletion import delete_agent
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from tests.integration.conftest import Unchanged
from tests.integration.stage import LAST_ID, Stage
from tests.routing_pairs import PAIRS


class Opened(Payload, type="ticket.opened"):
    n: int = 0


@pytest.fixture
def stage(connection: Any, raw: redis.Redis, keys: Keys) -> Stage:
    stage = Stage(connection, raw, keys)
    stage.register("a", "b", "c")
    return stage


@pytest.fixture
def client(redis_url: str, stage: Stage) -> Iterator[Client]:
    with Client(redis_url) as client:
        yield client


def ids(stage: Stage, agent: str) -> list[str]:
    return [one["id"] for one in stage.entries(stage.keys.mailbox(agent))]


def fill(stage: Stage, agent: str, count: int, type_name: str = "ticket.opened") -> None:
    """``count`` waiting signals ``w-1``, ``w-2``, ... and no room for more."""
    stage.raw.hset(stage.keys.agent(agent), "max_mailbox", count)
    for n in range(1, count + 1):
        fields = {"id": f"w-{n}", "type": type_name, "source": "test", "data": "1", "at_ms": "1"}
        stage.raw.xadd(stage.keys.mailbox(agent), fields)  # type: ignore[arg-type]


def test_every_subscriber_gets_the_signal_and_its_receipt_says_so(client: Client, stage: Stage) -> None:
    client.subscribe("a", "ticket.*")
    client.subscribe("b", "ticket.opened")
    client.subscribe("c", "order.*")

    told = client.publish(Opened(n=7), id="p-1", subject="s")

    assert [one.agent for one in told.receipts] == ["b", "a"]
    assert (told.signal_id, told.refused) == ("p-1", {})
    assert told.receipts[0].status().state == "pending"
    [fields] = stage.entries(stage.keys.mailbox("a"))
    assert (fields["id"], fields["type"], fields["data"], fields["subject"]) == (
        "p-1", "ticket.opened", '{"n":7}', "s"
    )  # fmt: skip
    assert ids(stage, "c") == []
    assert stage.counters()["signals_accepted_total|type=desk"] == 2
    assert stage.counters()["published_total|type=client"] == 1


def test_nobody_subscribes_is_counted_and_no_error(client: Client, stage: Stage) -> None:
    told = client.publish("nobody.listens", 1)

    assert (told.receipts, told.refused) == ((), {})
    assert stage.counters()["published_unrouted_total|type=client"] == 1


def test_order_is_priority_then_specificity_then_registration_and_each_agent_is_served_once(
    client: Client, stage: Stage
) -> None:
    stage.register("d", "e")
    client.subscribe("a", "**")
    client.subscribe("b", "ticket.**")
    client.subscribe("c", "**")
    client.subscribe("d", "ticket.opened", priority=-1)
    client.subscribe("e", "**", priority=1)
    client.subscribe("a", "ticket.opened", priority=-5)

    told = client.publish(Opened())

    assert [one.agent for one in told.receipts] == ["e", "b", "a", "c", "d"]
    assert [one.agent for one in client.subscriptions(type="ticket.opened")] == ["e", "b", "a", "c", "d"]
    assert all(len(ids(stage, agent)) == 1 for agent in "abcde")


def test_patterns_of_equal_specificity_are_served_in_order_of_registration(
    client: Client, stage: Stage
) -> None:
    client.subscribe("b", "**.y.**")
    client.subscribe("a", "**.x.**")

    assert [one.agent for one in client.publish("x.y", 1).receipts] == ["b", "a"]


def test_a_repeated_id_reaches_only_who_lacks_it(client: Client, stage: Stage) -> None:
    client.subscribe("a", "ticket.*")
    client.publish(Opened(), id="p-1")
    client.subscribe("b", "ticket.*")

    told = client.publish(Opened(), id="p-1")

    assert [(one.agent, one.duplicate) for one in told.receipts] == [("a", True), ("b", False)]
    assert ids(stage, "a") == ids(stage, "b") == ["p-1"]
    assert set(client.publish(Opened(n=2), id="p-1").refused) == {"a", "b"}
    assert isinstance(client.publish(Opened(n=2), id="p-1").refused["a"], IdConflict)


def test_a_full_subscriber_refuses_and_disturbs_no_other(client: Client, stage: Stage) -> None:
    for agent in "abc":
        client.subscribe(agent, "ticket.*", policy="hold" if agent == "c" else "refuse")
    fill(stage, "a", 1)
    fill(stage, "c", 1)

    told = client.publish(Opened(), id="p-1")

    assert [one.agent for one in told.receipts] == ["b"]
    assert {agent: type(error) for agent, error in told.refused.items()} == {
        "a": MailboxFull,
        "c": MailboxFull,
    }
    stage.raw.delete(stage.keys.mailbox("a"))
    assert [(one.agent, one.duplicate) for one in client.publish(Opened(), id="p-1").receipts] == [
        ("a", False), ("b", True)
    ]  # fmt: skip


def test_dead_letters_at_their_bound_refuse_too(redis_url: str, stage: Stage) -> None:
    stage.raw.xadd(stage.keys.dead("a"), {"id": "x"})
    with Client(redis_url, limits=Limits(max_dead=1)) as client:
        client.subscribe("a", "**", policy="latest")
        fill(stage, "a", 1)
        assert isinstance(client.publish(Opened()).refused["a"], DeadLettersFull)
    assert ids(stage, "a") == ["w-1"]


def test_latest_drops_the_oldest_of_its_type_to_the_dead_letters(client: Client, stage: Stage) -> None:
    client.subscribe("a", "ticket.*", policy="latest")
    fill(stage, "a", 1, "order.made")
    fill(stage, "a", 3)
    stage.raw.hset(stage.keys.agent("a"), "max_mailbox", 4)
    dropped = stage.ids(stage.keys.mailbox("a"))[1]

    told = client.publish(Opened(), id="p-1")

    assert [one.agent for one in told.receipts] == ["a"]
    assert ids(stage, "a") == ["w-1", "w-2", "w-3", "p-1"]  # the first w-1 is the order
    [letter] = stage.entries(stage.keys.dead("a"))
    assert (letter["reason"], letter["id"], letter["entry"], letter["type"], letter["data"]) == (
        "overflow", "w-1", dropped, "ticket.opened", "1"
    )  # fmt: skip
    assert stage.raw.hget(stage.keys.fate("a"), "w-1") == "dead overflow"
    assert stage.agent("a")["dropped"] == dropped
    assert stage.counters()["signals_dead_total|type=desk|reason=overflow"] == 1
    assert client.publish(Opened(), id="p-1").receipts[0].duplicate
    assert len(stage.entries(stage.keys.dead("a"))) == 1


def test_latest_without_one_of_its_type_refuses(client: Client, stage: Stage) -> None:
    client.subscribe("a", "ticket.*", policy="latest")
    fill(stage, "a", 2, "order.made")

    assert isinstance(client.publish(Opened()).refused["a"], MailboxFull)
    assert ids(stage, "a") == ["w-1", "w-2"]


def test_latest_leaves_the_signal_that_is_being_tried(client: Client, stage: Stage) -> None:
    client.subscribe("a", "ticket.*", policy="latest")
    fill(stage, "a", 2)
    first = stage.ids(stage.keys.mailbox("a"))[0]
    stage.raw.hset(stage.keys.agent("a"), "trying", f"{first} 0 0")

    client.publish(Opened(), id="p-1")

    assert ids(stage, "a") == ["w-1", "p-1"]


def test_latest_finds_its_type_behind_many_others(client: Client, stage: Stage) -> None:
    client.subscribe("a", "ticket.*", policy="latest")
    fill(stage, "a", 150, "order.made")
    fill(stage, "a", 1)
    stage.raw.hset(stage.keys.agent("a"), "max_mailbox", 151)

    assert client.publish(Opened(), id="p-1").refused == {}
    assert ids(stage, "a")[-1] == "p-1" and len(ids(stage, "a")) == 151


def test_a_subscriber_that_was_deleted_or_is_another_registration_leaves(
    client: Client, stage: Stage
) -> None:
    for agent in "abc":
        client.subscribe(agent, "ticket.*")
    stage.raw.delete(stage.keys.agent("a"))
    stage.raw.hset(stage.keys.agent("b"), "birth", "another")

    assert [one.agent for one in client.publish(Opened()).receipts] == ["c"]
    assert set(stage.raw.hgetall(stage.keys.subscribers("ticket.*"))) == {"c"}
    assert stage.raw.hget(stage.keys.subscriptions, "ticket.*") == "1"
    assert not stage.raw.exists(stage.keys.agent("a"))


def test_deleting_an_agent_ends_its_subscriptions(client: Client, stage: Stage) -> None:
    client.subscribe("a", "ticket.*")
    client.subscribe("a", "order.made")
    client.subscribe("b", "ticket.*")

    client.connection.run(delete_agent(stage.keys, stage.limits, "a"))

    assert [(one.agent, one.pattern) for one in client.subscriptions()] == [("b", "ticket.*")]
    assert not stage.raw.exists(stage.keys.subscribers("order.made"))


def test_an_idle_agents_deletion_ends_its_subscriptions(client: Client, stage: Stage) -> None:
    client.subscribe("a", "ticket.*")

    stage.decide(deletions=["a"])

    assert client.subscriptions() == []
    assert not stage.raw.exists(stage.keys.subscribers("ticket.*"), stage.keys.wildcards)


def test_subscribing_again_changes_priority_and_policy_and_keeps_the_place(
    client: Client, stage: Stage
) -> None:
    assert client.subscribe("a", "ticket.**.*") is True
    assert client.subscribe("b", "ticket.*.**") is True
    assert client.subscribe("a", "ticket.*.**", priority=3, policy="hold") is False

    [first, second] = client.subscriptions()
    assert (first.agent, first.pattern, first.priority, first.policy) == ("a", "ticket.*.**", 3, "hold")
    assert first.order < second.order
    assert client.subscriptions("b") == [second]
    assert stage.agent("a")["subscriptions"] == "1"


def test_unsubscribing_leaves_nothing_behind(client: Client, stage: Stage) -> None:
    client.subscribe("a", "ticket.*")

    assert client.unsubscribe("a", "ticket.*") is True
    assert client.unsubscribe("a", "ticket.*") is False
    assert client.publish(Opened()).receipts == ()
    assert [field for field in stage.agent("a") if field.startswith("subscri")] == []
    assert not stage.raw.exists(stage.keys.wildcards, stage.keys.subscribers("ticket.*"))


def test_what_cannot_be_is_refused_before_anything_is_written(
    client: Client, stage: Stage, unchanged: Unchanged
) -> None:
    with unchanged():
        with pytest.raises(NoSuchAgent):
            client.subscribe("nobody", "ticket.*")
        with pytest.raises(NoSuchAgent):
            client.subscriptions("nobody")
        with pytest.raises(BadTypeName):
            client.subscribe("a", "ticket.**x")
        with pytest.raises(BadInput, match="priority=101"):
            client.subscribe("a", "ticket.*", priority=101)
        with pytest.raises(BadInput, match="policy='newest' is none of refuse, hold, latest"):
            client.subscribe("a", "ticket.*", policy="newest")  # type: ignore[arg-type]
        with pytest.raises(BadTypeName):
            client.publish("not a type", 1)


def test_bounds(redis_url: str, client: Client, stage: Stage, unchanged: Unchanged) -> None:
    with Client(redis_url, limits=Limits(max_subscribers=2, max_patterns=2)) as small:
        small.subscribe("a", "x.*")
        small.subscribe("b", "x.*")
        small.subscribe("b", "y.*")
        with unchanged():
            with pytest.raises(SubscriptionsFull, match="pattern x"):
                small.subscribe("c", "x.*")
            with pytest.raises(SubscriptionsFull, match="agent b"):
                small.subscribe("b", "z.z")
            with pytest.raises(SubscriptionsFull, match="patterns with wildcards"):
                small.subscribe("c", "z.*")
        small.subscribe("c", "x.y")
        with unchanged(), pytest.raises(TooManySubscribers, match=r"x\.y has 3 subscribers"):
            small.publish("x.y", 1)


@pytest.mark.parametrize("key", ["wildcards", "subscriptions"])
def test_a_damaged_key_refuses_whole(client: Client, stage: Stage, unchanged: Unchanged, key: str) -> None:
    client.subscribe("a", "ticket.*")
    name = getattr(stage.keys, key)
    stage.raw.delete(name)
    stage.raw.rpush(name, "junk")

    with unchanged():
        with pytest.raises(CorruptKey):
            client.publish(Opened())
        with pytest.raises(CorruptKey):
            client.subscribe("a", "order.*")


@pytest.mark.parametrize("key", ["agent", "mailbox", "dead", "seen", "seen_old", "fate"])
def test_a_damaged_subscriber_disturbs_no_other(client: Client, stage: Stage, key: str) -> None:
    client.subscribe("a", "ticket.*", policy="latest")
    client.subscribe("b", "ticket.*")
    name = getattr(stage.keys, key)("a")
    stage.raw.delete(name)
    stage.raw.set(name, "junk")

    told = client.publish(Opened())

    assert [one.agent for one in told.receipts] == ["b"]
    assert isinstance(told.refused["a"], StoreError)


def test_a_mailbox_without_ids_left_drops_nothing_for_the_newest(client: Client, stage: Stage) -> None:
    client.subscribe("a", "ticket.*", policy="latest")
    fill(stage, "a", 1)
    stage.raw.hset(stage.keys.agent("a"), "max_mailbox", 2)
    stage.raw.xadd(stage.keys.mailbox("a"), {"id": "last", "type": "x"}, id=LAST_ID)

    assert set(client.publish(Opened()).refused) == {"a"}
    assert ids(stage, "a") == ["w-1", "last"]


def test_the_script_and_the_table_of_pairs_agree(client: Client, stage: Stage) -> None:
    for pattern, type_name, fits, _ in PAIRS:
        client.subscribe("a", pattern)
        told = client.publish(type_name, 1)
        assert [one.agent for one in told.receipts] == (["a"] if fits else []), (pattern, type_name)
        client.unsubscribe("a", pattern)


async def publish_awaited(url: str) -> None:
    async with AsyncClient(url) as client:
        assert await client.subscribe("a", "ticket.*")
        told = await client.publish(Opened(), id="p-1")
        assert (await told.receipts[0].status()).state == "pending"
        assert [one.pattern for one in await client.subscriptions("a")] == ["ticket.*"]
        assert await client.unsubscribe("a", "ticket.*")


def test_the_awaited_client_does_the_same(redis_url: str, stage: Stage) -> None:
    import asyncio

    asyncio.run(publish_awaited(redis_url))
    assert ids(stage, "a") == ["p-1"]


def test_what_an_earlier_registration_subscribed_to_ends_alone(client: Client, stage: Stage) -> None:
    client.subscribe("a", "ticket.opened")
    stage.raw.delete(stage.keys.agent("a"))
    stage.register("a")
    client.subscribe("a", "ticket.*")

    told = client.publish(Opened(), id="p-1")

    assert [one.agent for one in told.receipts] == ["a"]
    assert ids(stage, "a") == ["p-1"]
    assert [one.pattern for one in client.subscriptions("a")] == ["ticket.*"]
