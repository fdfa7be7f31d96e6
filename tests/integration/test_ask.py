"""``ask`` on a real server, blocking and awaited: replies, what comes instead of them, and what is left in Redis."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from regrow.client import AsyncClient, Client
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import AskTimeout, BadInput, Dead, FateUnknown, IdConflict, NoSuchAgent, Reject
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.reply_places import ClientPlace
from regrow_signals.signal import Signal
from regrow_workers.agent import Agent
from regrow_workers.asking import Reply
from regrow_workers.context import Context
from regrow_workers.handlers import handles
from regrow_workers.state import State
from regrow_workers.step import Step
from tests.conftest import wait_until
from tests.integration.stage import Stage
from tests.integration.worked_agent import WorkedAgent, worked


class Count(State):
    count: int = 0


class Counter(Agent[Count], name="desk"):
    @handles("next")
    def next(self, state: Count, signal: Signal, ctx: Context) -> Step[Count]:
        return state.evolve(count=state.count + 1), Reply(state.count + 1, to=ctx.reply_to)

    @handles("silence")
    def silence(self, state: Count, signal: Signal) -> Step[Count]:
        return None

    @handles("no")
    def no(self, state: Count, signal: Signal) -> Step[Count]:
        raise Reject("told to")


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    return Stage(connection, raw, keys)


@pytest.fixture
def counter(stage: Stage, redis_url: str) -> Iterator[WorkedAgent]:
    with worked(stage, redis_url, "a", Counter) as lives:
        yield lives


@pytest.fixture
def client(redis_url: str, counter: WorkedAgent) -> Iterator[Client]:
    with Client(redis_url) as opened:
        yield opened


def place(signal_id: str) -> str:
    return ClientPlace("a", signal_id).key(Keys("regrow"))


def test_five_who_ask_the_same_id_at_once_get_the_same_reply_of_one_transition(
    client: Client, redis_url: str, counter: WorkedAgent
) -> None:
    counter.may_commit.clear()

    def ask(_: int) -> Any:
        with Client(redis_url) as own:
            return own.ask("a", "next", id="t-1")

    with ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(ask, number) for number in range(5)]
        counter.may_commit.set()
        replies = [one.result(timeout=20) for one in asked]

    assert replies == [1] * 5
    assert client.state("a", Counter).count == 1


def test_the_reply_is_kept_as_long_as_the_id_is_remembered(client: Client, raw: Any) -> None:
    client.ask("a", "next", id="t-1")

    assert raw.lrange(place("t-1"), 0, -1) == ['{"ok":1}']
    seen = raw.pexpiretime("{regrow}:seen:a")
    assert (
        abs(raw.pexpiretime(place("t-1")) - seen) < 100
    )  # milliseconds: Redis reads its clock for each of them
    client.ask("a", "next", id="t-1")
    assert abs(raw.pexpiretime(place("t-1")) - seen) < 100


def test_a_reply_that_was_waited_for_keeps_its_expiry(client: Client, counter: WorkedAgent, raw: Any) -> None:
    counter.may_commit.clear()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.ask, "a", "next", id="t-1")
        wait_until(lambda: _is_waiting(raw), "the client waits in the server")
        counter.may_commit.set()
        assert asked.result(timeout=20) == 1

    assert raw.lrange(place("t-1"), 0, -1) == ['{"ok":1}']
    assert raw.pttl(place("t-1")) > 0


def _is_waiting(raw: Any) -> bool:
    return any(one["cmd"] == "blmove" and "b" in one["flags"] for one in raw.client_list())


def test_a_time_out_says_what_became_of_the_signal_and_the_id_can_be_asked_again(
    client: Client, counter: WorkedAgent
) -> None:
    counter.may_commit.clear()
    with pytest.raises(AskTimeout, match="it waits in the mailbox still") as caught:
        client.ask("a", "next", timeout=0.05)
    receipt = caught.value.receipt
    assert (caught.value.state, client.status(receipt).state) == ("pending", "pending")

    counter.may_commit.set()

    assert client.ask("a", "next", id=receipt.signal_id) == 1
    assert client.state("a", Counter).count == 1


def test_applied_and_no_reply_is_told_as_that(client: Client) -> None:
    with pytest.raises(AskTimeout, match="applied, and no handler has replied") as caught:
        client.ask("a", "silence", timeout=0.3)
    assert caught.value.state == "applied"


def test_a_dead_letter_is_told_before_the_time_is_up(client: Client, raw: Any) -> None:
    began = time.monotonic()
    with pytest.raises(Dead, match="rejected: told to") as caught:
        client.ask("a", "no", timeout=3600)

    assert time.monotonic() - began < 1800
    assert (caught.value.reason, caught.value.error) == ("rejected", "told to")
    assert raw.pttl(place(caught.value.receipt.signal_id)) > 0


def test_a_dead_letter_whose_reply_has_expired_is_found_by_its_fate(client: Client, raw: Any) -> None:
    with pytest.raises(Dead):
        client.ask("a", "no", id="t-1")
    raw.delete(place("t-1"))

    with pytest.raises(Dead, match="rejected"):
        client.ask("a", "no", id="t-1", timeout=3600)


def test_refusals_are_those_of_send_and_leave_nothing(client: Client, unchanged: Any) -> None:
    with unchanged():
        with pytest.raises(NoSuchAgent):
            client.ask("nobody", "next")
        with pytest.raises(BadInput):
            client.ask("a", "not a type")
        with pytest.raises(BadInput):
            client.ask("a", "next", timeout=-1)


def test_the_same_id_with_other_content_is_refused(client: Client) -> None:
    client.ask("a", "next", id="t-1")
    with pytest.raises(IdConflict):
        client.ask("a", "silence", id="t-1")
    client.send("a", "next", id="t-2")
    with pytest.raises(IdConflict):
        client.ask("a", "next", id="t-2")  # a send wants no reply: it is another signal


def test_two_agents_asked_under_the_same_id_do_not_mix_up_their_replies(
    client: Client, stage: Stage, redis_url: str
) -> None:
    client.ask("a", "next")
    with worked(stage, redis_url, "b", Counter):
        assert client.ask("a", "next", id="t-1") == 2
        assert client.ask("b", "next", id="t-1") == 1


def test_a_list_of_another_type_costs_the_reply_and_not_the_agent(client: Client, raw: Any) -> None:
    raw.set(place("t-1"), "x", px=60_000)
    with pytest.raises(FateUnknown, match="could not be waited for") as caught:
        client.ask("a", "next", id="t-1", timeout=0.2)
    assert caught.value.receipt is not None

    assert client.ask("a", "next") == 2
    assert raw.hget("{regrow}:counters", "replies_total|type=desk|outcome=unknown") == "1"


def test_redis_lost_while_waiting_leaves_the_receipt_and_the_reply_is_there_afterwards(
    own_server: Any,
) -> None:
    person = redis.Redis.from_url(own_server.url, decode_responses=True)
    connection = Connection.open(own_server.url)
    stage = Stage(connection, person, Keys("regrow"))
    owner, loaded = stage.live("a")
    with Client(own_server.url) as client, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.ask, "a", "next", id="t-1")
        wait_until(lambda: _is_waiting(person), "the client waits in the server")
        person.config_set("appendfsync", "always")
        person.set("{regrow}:marker", "written out")
        own_server.kill()
        with pytest.raises(FateUnknown, match="a accepted signal t-1") as caught:
            asked.result(timeout=20)
        own_server.start()
        lives = WorkedAgent(own_server.url, "a", Counter, owner, loaded)
        try:
            assert client.ask("a", "next", id="t-1") == 1
            receipt: Any = caught.value.receipt
            assert receipt.wait(5).state == "applied"
        finally:
            lives.end()
    connection.close()
    person.close()


# Awaited.


def test_awaited_asks_wait_side_by_side_and_keep_nobody_waiting(redis_url: str, counter: WorkedAgent) -> None:
    counter.may_commit.clear()

    async def ask_all() -> list[Any]:
        async with AsyncClient(redis_url) as client:
            asked = [asyncio.create_task(client.ask("a", "next", timeout=20)) for _ in range(20)]
            while await client.connection.command(_blocked()) < len(asked):
                await asyncio.sleep(0.001)
            # All of them wait in the server now; the client's own connection is free.
            assert (await client.state("a", Counter)).count == 0
            counter.may_commit.set()
            return await asyncio.gather(*asked)

    assert sorted(asyncio.run(ask_all())) == list(range(1, 21))


def _blocked() -> Command[int]:
    """How many wait in the server for a reply."""
    return Command(("CLIENT", "LIST"), lambda listed: str(listed).count("cmd=blmove"))


def test_awaited_errors_are_the_same(redis_url: str, counter: WorkedAgent) -> None:
    async def ask_each() -> None:
        async with AsyncClient(redis_url) as client:
            assert await client.ask("a", "next", id="t-1") == 1
            assert await client.ask("a", "next", id="t-1", as_=int) == 1
            with pytest.raises(Dead, match="told to"):
                await client.ask("a", "no", timeout=3600)
            with pytest.raises(AskTimeout, match="applied"):
                await client.ask("a", "silence", timeout=0.2)
            with pytest.raises(NoSuchAgent):
                await client.ask("nobody", "next")

    asyncio.run(ask_each())


def test_a_cancelled_ask_disturbs_no_later_one(redis_url: str, counter: WorkedAgent) -> None:
    async def cancel_some() -> None:
        async with AsyncClient(redis_url) as client:
            for number in range(10):
                counter.may_commit.clear()
                task = asyncio.create_task(client.ask("a", "next", id=f"t-{number}"))
                while await client.connection.command(_blocked()) == 0:
                    await asyncio.sleep(0.001)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                counter.may_commit.set()
                assert await client.ask("a", "next", id=f"t-{number}") == number + 1

    asyncio.run(cancel_some())


def test_receipts_wait_until_it_is_decided(client: Client, redis_url: str, counter: WorkedAgent) -> None:
    counter.may_commit.clear()
    waiting = client.send("a", "next")
    assert waiting.wait(0).state == "pending"
    threading.Timer(0.02, counter.may_commit.set).start()
    assert waiting.wait(20).state == "applied"
    dead = client.send("a", "no").wait(20)
    assert (dead.state, dead.reason) == ("dead", "rejected")

    async def awaited() -> None:
        async with AsyncClient(redis_url) as other:
            assert (await (await other.send("a", "next")).wait(20)).state == "applied"
            dead = await (await other.send("a", "no")).wait(20)
            assert (dead.state, dead.reason) == ("dead", "rejected")

    asyncio.run(awaited())


def test_a_window_of_asks_costs_no_more_than_its_bound(client: Client, redis_url: str, raw: Any) -> None:
    """Every key of a reply expires, also where the time is as short as it can be."""
    with Client(redis_url, limits=Limits(dedupe_window_ms=1000)) as short:
        short.ask("a", "next", id="t-1")
    assert 59_000 < raw.pttl(place("t-1")) <= 60_000
