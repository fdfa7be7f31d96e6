"""Client and AsyncClient against a real server, with the watchdog's and worker's parts played by hand."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from pydantic import BaseModel

from regrow_signals.client import AsyncClient, Client, Message, SentReceipt
from regrow_signals.errors import BadId, BadInput, FateUnknown, MailboxFull, NoSuchAgent, StoreUnavailable
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.mailbox import BULK, Receipt, Status
from regrow_signals.signal import Payload


class TicketOpened(Payload, type="ticket.opened"):
    subject: str


class Desk(BaseModel):
    open: int = 0


class Support:
    """What ``Client.state`` takes: anything that reads a stored state."""

    @classmethod
    def parse_state(cls, text: str, schema: int) -> Desk:
        assert schema == 1
        return Desk.model_validate_json(text)


@pytest.fixture(autouse=True)
def support(raw: Any, keys: Keys) -> None:
    raw.hset(keys.agent("support"), mapping={"birth": "b", "type": "support", "cursor": "0-0", "schema": "1"})


@pytest.fixture
def client(redis_url: str) -> Any:
    with Client(redis_url) as opened:
        yield opened


def apply(raw: Any, keys: Keys, receipt: Receipt, state: str = '{"open":1}') -> None:
    """What a commit does to one signal."""
    raw.hset(keys.agent("support"), mapping={"cursor": receipt.entry, "state": state})
    raw.xdel(keys.mailbox("support"), receipt.entry)


def test_signal_sent_waited_for_and_its_state_read(client: Client, raw: Any, keys: Keys) -> None:
    receipt = client.send("support", TicketOpened(subject="printer on fire"), id="t-17")
    assert receipt.status() == Status("pending")
    assert client.state("support", Support).open == 0

    timer = threading.Timer(0.05, apply, (raw, keys, receipt))
    timer.start()
    assert receipt.wait(timeout=5) == Status("applied")
    timer.join()

    assert client.state("support", Support).open == 1


def test_wait_gives_up_as_pending(client: Client) -> None:
    assert client.send("support", "a.b", {"x": 1}).wait(timeout=0.05) == Status("pending")
    assert client.send("support", "a.b", {"x": 1}).wait(timeout=0) == Status("pending")


def test_same_id_is_sent_once(client: Client, raw: Any, keys: Keys) -> None:
    first = client.send("support", "a.b", {"x": 1}, id="t-1")
    again = client.send("support", "a.b", {"x": 1}, id="t-1")

    assert again.duplicate and again.entry == first.entry
    assert raw.xlen(keys.mailbox("support")) == 1


def test_attributes_travel_with_the_signal(client: Client, raw: Any, keys: Keys) -> None:
    client.send(
        "support",
        "a.b",
        subject="s",
        source="shop",
        traceparent="00-1",
        causationid="c",
        replyto="r",
        time="t",
    )
    [(_, fields)] = raw.xrange(keys.mailbox("support"))
    assert {
        "subject": "s",
        "source": "shop",
        "traceparent": "00-1",
        "causationid": "c",
        "replyto": "r",
    }.items() <= fields.items()
    assert fields["data"] == "null"


@pytest.mark.parametrize(
    ("agent", "what", "data", "error"),
    [
        ("su pport", "a.b", 1, BadId),
        ("support", "a b", 1, BadInput),
        ("support", "a.b", float("nan"), BadInput),
        ("nobody", "a.b", 1, NoSuchAgent),
    ],
)
def test_refusals_are_typed_and_change_nothing(
    client: Client, unchanged: Any, agent: str, what: str, data: Any, error: type[Exception]
) -> None:
    with unchanged(), pytest.raises(error):
        client.send(agent, what, data)


def test_own_limits_are_applied(redis_url: str) -> None:
    with Client(redis_url, limits=Limits(max_mailbox=1)) as client:
        client.send("support", "a.b")
        with pytest.raises(MailboxFull):
            client.send("support", "a.b")


def test_namespaces_are_apart(redis_url: str) -> None:
    with Client(redis_url, namespace="other") as client, pytest.raises(NoSuchAgent):
        client.send("support", "a.b")


def test_many_are_sent_in_order_over_several_calls(client: Client, raw: Any, keys: Keys) -> None:
    count = BULK * 2 + 1
    results = client.send_many([Message("support", "a.b", n) for n in range(count)])

    assert all(isinstance(result, SentReceipt) for result in results)
    stored = [fields["data"] for _, fields in raw.xrange(keys.mailbox("support"))]
    assert stored == [str(n) for n in range(count)]
    assert not raw.exists(keys.seen("support"))


def test_many_stand_each_alone_and_given_ids_are_remembered(client: Client) -> None:
    one, two, three = client.send_many(
        [
            Message("support", "a.b", 1, id="t-1"),
            Message("nobody", "a.b"),
            Message("support", "a.b", 1, id="t-1"),
        ]
    )
    assert isinstance(one, SentReceipt) and one.status() == Status("pending")
    assert isinstance(two, NoSuchAgent)
    assert isinstance(three, SentReceipt) and three.duplicate


def test_wrong_message_stops_a_bulk_before_the_first_is_sent(client: Client, unchanged: Any) -> None:
    with unchanged(), pytest.raises(BadInput):
        client.send_many([Message("support", "a.b"), Message("support", "a b")])


def test_no_server_is_one_clear_error() -> None:
    with Client("unix:///nowhere/redis.sock") as client:
        with pytest.raises(StoreUnavailable):
            client.send("support", "a.b")
        with pytest.raises(StoreUnavailable):
            client.send_many([Message("support", "a.b")])


def test_lost_answer_leaves_a_receipt_to_ask_about(own_server: Any, raw: Any) -> None:
    import signal as os_signals

    import redis

    person = redis.Redis.from_url(own_server.url)
    person.hset("{regrow}:agent:support", mapping={"birth": "b", "type": "support", "cursor": "0-0"})
    with Client(own_server.url, timeout=0.3) as client:
        client.send("support", "a.b", 0)
        own_server.process.send_signal(os_signals.SIGSTOP)
        with pytest.raises(FateUnknown) as caught:
            client.send("support", "a.b", 1, id="t-1")
        own_server.process.send_signal(os_signals.SIGCONT)

        receipt = caught.value.receipt
        assert isinstance(receipt, SentReceipt) and receipt.signal_id == "t-1"
        assert client.send("support", "a.b", 1, id="t-1").agent == "support"
        assert receipt.status() == Status("pending")
        assert person.xlen("{regrow}:mailbox:support") == 2
    person.close()


def test_dead_letter_is_listed_retried_and_dropped(client: Client, raw: Any, keys: Keys) -> None:
    letter = raw.xadd(
        keys.dead("support"), {"entry": "1-1", "reason": "reject", "id": "t-1", "type": "a.b", "data": "1"}
    )
    [(listed, fields)] = client.dead_letters("support")
    assert listed == letter and fields["reason"] == "reject"

    assert client.dead_retry("support", letter).status() == Status("pending")
    assert client.dead_letters("support") == []

    again = raw.xadd(keys.dead("support"), {"id": "t-2", "reason": "x"})
    assert client.dead_drop("support", again) == "t-2"


def test_state_of_nobody_is_no_such_agent(client: Client) -> None:
    with pytest.raises(NoSuchAgent):
        client.state("nobody", Support)


def test_state_before_the_first_commit_is_the_initial_data(client: Client, raw: Any, keys: Keys) -> None:
    raw.hset(keys.agent("support"), "init", '{"open": 7}')
    assert client.state("support", Support).open == 7


def test_both_clients_have_the_same_methods() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(Client) == public(AsyncClient)


def test_awaited_client_does_the_same(redis_url: str, raw: Any, keys: Keys) -> None:
    async def scenario() -> None:
        async with AsyncClient(redis_url) as client:
            receipt = await client.send("support", TicketOpened(subject="x"), id="t-1")
            assert await receipt.wait(timeout=0.02) == Status("pending")
            apply(raw, keys, receipt)
            assert await receipt.wait(timeout=5) == Status("applied")
            assert (await client.state("support", Support)).open == 1
            with pytest.raises(NoSuchAgent):
                await client.send("nobody", "a.b")
            results = await client.send_many([Message("support", "a.b", n) for n in range(3)])
            assert len(results) == 3
            letter = raw.xadd(keys.dead("support"), {"id": "t-2", "type": "a.b", "data": "1", "reason": "x"})
            assert [found for found, _ in await client.dead_letters("support")] == [letter]
            assert (await (await client.dead_retry("support", letter)).status()) == Status("pending")

    asyncio.run(scenario())


def test_many_tasks_share_an_awaited_client(redis_url: str, raw: Any, keys: Keys) -> None:
    async def scenario() -> None:
        async with AsyncClient(redis_url) as client:
            receipts = await asyncio.gather(
                *(client.send("support", "a.b", n, id=f"t-{n}") for n in range(50))
            )
            assert [receipt.signal_id for receipt in receipts] == [f"t-{n}" for n in range(50)]

    asyncio.run(scenario())
    assert raw.xlen(keys.mailbox("support")) == 50
