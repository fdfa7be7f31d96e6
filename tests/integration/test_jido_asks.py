"""Calls and casts as Jido's own tests have them, or as it fails: a call is ``ask`` here, a cast ``send``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from regrow.client import AsyncClient, Client
from regrow_signals.connection import Connection
from regrow_signals.errors import AskTimeout, Dead, Reject
from regrow_signals.keys import Keys
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


class Log(State):
    seen: tuple[int, ...] = ()
    done: bool = False
    waiting: tuple[str, ...] = ()


class Recorder(Agent[Log], name="desk"):
    @handles("record")
    def record(self, log: Log, signal: Signal, ctx: Context) -> Step[Log]:
        return log.evolve(seen=(*log.seen, signal.value)), Reply(len(log.seen) + 1, to=ctx.reply_to)

    @handles("completed")
    def completed(self, log: Log, signal: Signal, ctx: Context) -> Step[Log]:
        if log.done:
            return Reply("completed", to=ctx.reply_to)
        return log.evolve(waiting=(*log.waiting, ctx.reply_to or ""))

    @handles("complete")
    def complete(self, log: Log, signal: Signal) -> Step[Log]:
        return log.evolve(done=True, waiting=()), [Reply("completed", to=place) for place in log.waiting]

    @handles("fail")
    def fail(self, log: Log, signal: Signal) -> Step[Log]:
        raise Reject("it failed")


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    return Stage(connection, raw, keys)


@pytest.fixture
def recorder(stage: Stage, redis_url: str) -> Iterator[WorkedAgent]:
    with worked(stage, redis_url, "a", Recorder) as lives:
        yield lives


@pytest.fixture
def client(redis_url: str, recorder: WorkedAgent) -> Iterator[Client]:
    with Client(redis_url) as opened:
        yield opened


def ask_in_a_thread(url: str, what: str, data: object = None, **options: Any) -> Any:
    with Client(url) as own:
        return own.ask("a", what, data, **options)


def test_jido_9_casts_of_one_sender_are_applied_in_their_order(client: Client) -> None:
    for number in range(1, 11):
        client.send("a", "record", number)

    assert client.ask("a", "record", 11) == 11
    assert client.state("a", Recorder).seen == tuple(range(1, 12))


def test_jido_10_the_state_is_read_at_once_while_a_slow_call_runs(
    client: Client, redis_url: str, recorder: WorkedAgent
) -> None:
    client.ask("a", "record", 1)
    recorder.may_commit.clear()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(ask_in_a_thread, redis_url, "record", 2, timeout=60)
        wait_until(recorder.holding.is_set, "the transition is in hand")

        assert client.state("a", Recorder).seen == (1,)
        assert not slow.done()

        recorder.may_commit.set()
        assert slow.result(timeout=20) == 2


def test_jido_11_a_cast_that_arrives_during_a_slow_call_is_applied_after_it(
    client: Client, redis_url: str, recorder: WorkedAgent
) -> None:
    recorder.may_commit.clear()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(ask_in_a_thread, redis_url, "record", 1, timeout=60)
        wait_until(recorder.holding.is_set, "the transition is in hand")
        receipt = client.send("a", "record", 2)

        recorder.may_commit.set()
        assert slow.result(timeout=20) == 1
    assert receipt.wait(20).state == "applied"
    assert client.state("a", Recorder).seen == (1, 2)


def test_jido_14_a_call_of_a_type_without_a_route_is_an_error_that_names_it_and_the_agent_lives(
    client: Client,
) -> None:
    with pytest.raises(Dead, match=r"unhandled.*'no\.such\.type'"):
        client.ask("a", "no.such.type")
    assert client.ask("a", "record", 1) == 1


def test_jido_18_who_waits_for_completion_is_released_by_it(
    client: Client, redis_url: str, recorder: WorkedAgent
) -> None:
    with pytest.raises(AskTimeout, match="applied"):
        client.ask("a", "completed", id="late", timeout=0.05)
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(ask_in_a_thread, redis_url, "completed", timeout=60) for _ in range(3)]
        wait_until(lambda: len(client.state("a", Recorder).waiting) == 4, "all of them wait")
        client.send("a", "complete")
        assert [one.result(timeout=20) for one in waiting] == ["completed"] * 3

    assert client.ask("a", "completed", id="late") == "completed"
    assert client.ask("a", "completed") == "completed"  # already finished: at once


def test_jido_19_of_three_calls_one_fails_and_the_others_are_cancelled(
    client: Client, redis_url: str, recorder: WorkedAgent
) -> None:
    async def await_all() -> None:
        async with AsyncClient(redis_url) as asking:
            with pytest.raises(ExceptionGroup) as caught:
                async with asyncio.TaskGroup() as group:
                    for what in ("completed", "fail", "completed"):
                        group.create_task(asking.ask("a", what, timeout=60))
            assert caught.group_contains(Dead, match="it failed")
            # The first to finish, of several.
            asked = {
                asyncio.create_task(asking.ask("a", what, 1, timeout=60)) for what in ("completed", "record")
            }
            done, left = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            assert [task.result() for task in done] == [1]
            for task in left:
                task.cancel()

    asyncio.run(await_all())
    assert client.ask("a", "record", 2) == 2


def test_jido_b3_a_signal_delivered_five_times_is_one_transition_and_the_same_reply(client: Client) -> None:
    assert [client.ask("a", "record", 7, id="t-1") for _ in range(5)] == [1] * 5
    assert client.state("a", Recorder).seen == (7,)


def test_jido_b4_after_a_time_out_the_caller_asks_by_the_id_and_learns_what_became_of_it(
    client: Client, recorder: WorkedAgent
) -> None:
    recorder.may_commit.clear()
    with pytest.raises(AskTimeout) as caught:
        client.ask("a", "record", 7, timeout=0.05)
    receipt: Any = caught.value.receipt
    assert receipt.status().state == "pending"

    recorder.may_commit.set()

    assert receipt.wait(20).state == "applied"
    assert client.ask("a", "record", 7, id=receipt.signal_id) == 1

    recorder.may_commit.clear()
    with pytest.raises(AskTimeout):
        client.ask("a", "fail", id="t-2", timeout=0.05)
    recorder.may_commit.set()
    with pytest.raises(Dead, match="it failed"):
        client.ask("a", "fail", id="t-2")


def test_jido_b8_calls_and_casts_of_one_sender_are_applied_in_the_order_in_which_they_were_sent(
    client: Client, redis_url: str
) -> None:
    stream = ThreadPoolExecutor(1)
    stop = False

    def ask_on_and_on() -> None:
        with Client(redis_url) as other:
            while not stop:
                other.ask("a", "record", -1)

    others = stream.submit(ask_on_and_on)
    for number in range(30):
        if number % 3:
            client.send("a", "record", number)
        else:
            client.ask("a", "record", number)
    last = client.send("a", "record", 30)
    assert last.wait(20).state == "applied"  # no cast starves under a stream of calls
    stop = True
    others.result(timeout=20)
    stream.shutdown()

    assert tuple(seen for seen in client.state("a", Recorder).seen if seen >= 0) == tuple(range(31))


def test_jido_b13_a_failed_action_is_a_failure_to_the_caller(client: Client) -> None:
    before = client.state("a", Recorder)

    with pytest.raises(Dead) as caught:
        client.ask("a", "fail")

    assert (caught.value.reason, caught.value.error) == ("rejected", "it failed")
    assert client.state("a", Recorder) == before
