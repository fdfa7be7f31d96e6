"""Progress of effects: told by who holds the claim, kept in the record, heard by who listens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from regrow import AsyncClient, Client, EffectCancelled, Progress
from regrow_signals import effect_progress
from regrow_signals.async_connection import AsyncConnection
from regrow_signals.connection import Connection
from regrow_signals.effect_progress import report_progress
from regrow_signals.effect_store import EffectClaimed, abandon, claim_effect, settle_effect
from regrow_signals.errors import BadInput, CorruptKey, StoreUnavailable
from regrow_signals.keys import Keys
from regrow_workers.effects.progress_reports import AwaitedReports, Reports
from regrow_workers.effects.settlement import Held
from tests.conftest import PrivateServer, wait_until
from tests.integration.conftest import Unchanged
from tests.integration.stage import Stage, effect

ONE = "birth:1-1:1"
HELD = Held(ONE, "charge", "t", 1, 3, 1_000, 60_000, idempotent=True)


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    stage = Stage(connection, raw, keys)
    stage.node("fx", "effects")
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    stage.commit(stage.plan(owner, loaded, entry, effects=[effect()]))
    stage.do(claim_effect(keys, ONE, node="fx", executor="fx.1", token="t"))
    return stage


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    with Client(redis_url) as client:
        yield client


def told(stage: Stage) -> str | None:
    found: Any = stage.raw.hget(stage.keys.effect(ONE), "progress")
    return None if found is None else str(found)


def listeners(stage: Stage) -> int:
    raw: Any = stage.raw
    return int(raw.pubsub_numsub(f"{stage.keys.tag}:progress:a")[0][1])


@pytest.mark.parametrize("value", [0, 0.25, 1, {"page": 3, "of": 10, "unit": "ä"}])
def test_last_progress_is_in_the_record_until_the_effect_is_settled(
    stage: Stage, client: Client, value: Any
) -> None:
    assert client.effect_progress(ONE) is None

    assert stage.do(report_progress(stage.keys, ONE, "t", effect_progress.progress_text(value))) is False

    found = client.effect_progress(ONE)
    assert found is not None
    assert (found.effect, found.agent, found.name, found.attempt, found.value) == (
        ONE,
        "a",
        "charge",
        1,
        value,
    )
    stage.do(settle_effect(stage.keys, ONE, "t", "done", "{}"))
    assert client.effect_progress(ONE) is None


def test_progress_is_that_of_the_try_that_told_it(stage: Stage, client: Client) -> None:
    stage.do(report_progress(stage.keys, ONE, "t", "0.9"))
    stage.do(abandon(stage.keys, "fx", None))
    waiting = client.effect_progress(ONE)
    for token in ("t2", "t3"):
        stage.do(claim_effect(stage.keys, ONE, node="fx", executor="fx.2", token=token))
        if token == "t2":
            stage.do(settle_effect(stage.keys, ONE, token, "retry", "{}", retry_in_ms=0))
    running = client.effect_progress(ONE)

    assert waiting is not None
    assert (waiting.attempt, waiting.value) == (1, 0.9)
    assert running == waiting
    assert stage.raw.hget(stage.keys.effect(ONE), "attempts") == "2"

    stage.do(report_progress(stage.keys, ONE, "t3", "0.1"))
    found = client.effect_progress(ONE)
    assert found is not None
    assert (found.attempt, found.value) == (2, 0.1)


@pytest.mark.parametrize(
    "value", [-0.1, 1.01, float("nan"), True, "half", None, {"x": "y" * 5_000}, {"x": float("inf")}]
)
def test_what_is_no_progress_is_refused(value: Any) -> None:
    with pytest.raises(BadInput):
        effect_progress.progress_text(value)


def test_report_of_who_does_not_hold_the_effect_is_refused(stage: Stage, unchanged: Unchanged) -> None:
    for token in ("other", ""):
        with unchanged(), pytest.raises(EffectClaimed, match=r"fx\.1"):
            stage.do(report_progress(stage.keys, ONE, token, "0.5"))
    with unchanged(), pytest.raises(EffectClaimed):
        stage.do(report_progress(stage.keys, "no:1-1:1", "t", "0.5"))
    stage.raw.delete(stage.keys.effect(ONE))
    stage.raw.set(stage.keys.effect(ONE), "junk")
    with unchanged(), pytest.raises(CorruptKey):
        stage.do(report_progress(stage.keys, ONE, "t", "0.5"))


def test_who_listens_hears_each_report_and_strangers_words_are_passed_over(
    stage: Stage, client: Client
) -> None:
    heard: list[Progress] = []
    listening = threading.Thread(target=lambda: heard.extend(_first(client, 2)))
    listening.start()
    wait_until(lambda: listeners(stage) == 1, "the client listens")
    raw: Any = stage.raw
    for junk in ("junk", "[]", '{"effect":1}', "{}"):
        raw.publish(f"{stage.keys.tag}:progress:a", junk)

    stage.do(report_progress(stage.keys, ONE, "t", "0.5"))
    stage.do(report_progress(stage.keys, ONE, "t", '{"page":2}'))

    listening.join(10)
    assert [one.value for one in heard] == [0.5, {"page": 2}]
    assert heard[1] == client.effect_progress(ONE)


def _first(client: Client, count: int) -> list[Progress]:
    watching = client.watch_progress("a")
    found = [next(watching) for _ in range(count)]
    watching.close()
    return found


def test_wait_without_a_report_ends_at_its_timeout(client: Client) -> None:
    assert list(client.watch_progress("a", timeout=0.05)) == []
    with pytest.raises(BadInput):
        client.watch_progress("a b")


def test_short_wait_hears_what_is_reported_in_it(stage: Stage, client: Client) -> None:
    heard: list[Progress] = []

    def listen() -> None:
        heard.extend(client.watch_progress("a", timeout=0.9))

    thread = threading.Thread(target=listen)
    thread.start()
    wait_until(lambda: listeners(stage) == 1 or not thread.is_alive(), "somebody listens", 5)
    stage.do(report_progress(stage.keys, ONE, "t", "0.5"))
    thread.join()

    assert [one.value for one in heard] == [0.5]


def test_async_client_hears_too(stage: Stage, redis_url: str) -> None:
    async def listen() -> tuple[list[Progress], Progress | None]:
        heard: list[Progress] = []
        async with AsyncClient(redis_url) as client:
            assert [one async for one in client.watch_progress("a", timeout=0.05)] == []
            reporting = asyncio.create_task(report())
            async for one in client.watch_progress("a"):
                heard.append(one)
                break
            await reporting
            return heard, await client.effect_progress(ONE)

    async def report() -> None:
        while listeners(stage) == 0:
            await asyncio.sleep(0.005)
        stage.do(report_progress(stage.keys, ONE, "t", "0.75"))

    heard, kept = asyncio.run(listen())
    assert [one.value for one in heard] == [0.75]
    assert heard == [kept]


def test_lost_connection_of_a_listener_is_said(own_server: PrivateServer) -> None:
    with Client(own_server.url) as client:
        watching = client.watch_progress("a", timeout=20)
        ended: list[BaseException] = []

        def listen() -> None:
            try:
                next(watching)
            except StoreUnavailable as error:
                ended.append(error)

        thread = threading.Thread(target=listen)
        thread.start()
        raw: Any = redis.Redis.from_url(own_server.url)
        wait_until(lambda: raw.pubsub_numsub("{regrow}:progress:a")[0][1] == 1, "it listens")
        own_server.kill()
        thread.join(10)
        assert len(ended) == 1


# What stands between `run.progress` and Redis.


class Counted(Connection):
    """Counts what is sent."""

    sent = 0

    def call(self, call: Any) -> Any:
        self.sent += 1
        return super().call(call)


@pytest.fixture
def counted(redis_url: str) -> Iterator[Counted]:
    made = Counted(redis_url)
    yield made
    made.close()


def test_thousand_reports_in_a_moment_are_one(stage: Stage, counted: Counted, monkeypatch: Any) -> None:
    clock = [100.0]
    monkeypatch.setattr("regrow_workers.effects.progress_reports.time.monotonic", lambda: clock[0])
    reports = Reports(counted, stage.keys, HELD)
    for _ in range(1_000):
        reports("0.1")
    assert counted.sent == 1
    clock[0] += 0.1
    reports("0.2")
    assert told(stage) == "0.2"
    reports.end()
    clock[0] += 1
    reports("0.3")
    assert counted.sent == 2


def test_report_of_a_cancelled_or_lost_effect_raises_in_the_call(
    stage: Stage, connection: Connection
) -> None:
    stage.raw.hset(stage.keys.effect(ONE), "cancelled", "1")
    with pytest.raises(EffectCancelled, match="was cancelled"):
        Reports(connection, stage.keys, HELD)("0.1")
    stage.raw.hset(stage.keys.effect(ONE), "token", "another")
    with pytest.raises(EffectCancelled, match="not ours"):
        Reports(connection, stage.keys, HELD)("0.1")


def test_report_that_redis_does_not_take_is_no_failure_of_the_call(keys: Keys) -> None:
    with Connection.open("unix:///nowhere/redis.sock") as nowhere:
        Reports(nowhere, keys, HELD)("0.1")


def test_in_a_loop_the_last_report_is_always_told_and_a_cancelled_call_is_stopped(
    stage: Stage, redis_url: str
) -> None:
    async def run() -> list[str]:
        stopped: list[str] = []
        async with AsyncConnection.open(redis_url) as connection:
            reports = AwaitedReports(connection, stage.keys, HELD, stopped.append)
            for n in range(100):
                reports(f"0.{n:02}")
            while told(stage) != "0.99":
                await asyncio.sleep(0.005)
            stage.raw.hset(stage.keys.effect(ONE), "cancelled", "1")
            reports("1")
            while not stopped:
                await asyncio.sleep(0.005)
            reports.end()
        return stopped

    assert asyncio.run(run()) == [ONE]


def test_end_of_a_call_in_a_loop_costs_the_connection_nothing(stage: Stage, redis_url: str) -> None:
    async def run() -> tuple[int, list[str]]:
        stopped: list[str] = []
        async with AsyncConnection.open(redis_url) as connection:
            reports = AwaitedReports(connection, stage.keys, HELD, stopped.append)
            stage.raw.hset(stage.keys.effect(ONE), "cancelled", "1")
            reports("1")
            for _ in range(3):
                await asyncio.sleep(0)
            reports.end()
            reports("0.5")
            while told(stage) != "1":
                await asyncio.sleep(0.005)
            await connection.call(settle_effect(stage.keys, ONE, "t", "done", "{}"))
            return connection.generation, stopped

    assert asyncio.run(run()) == (1, [])
