"""Doorbells over a real server: from a due effect through RQ to an executor, with RQ's keys in a Redis of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from regrow_signals.commits import EffectAppend
from regrow_signals.connection import Connection
from regrow_signals.effect_store import Ring, claim_effect
from regrow_signals.errors import StoreUnavailable
from regrow_signals.keys import Keys
from regrow_workers.effects.ringer import LONGEST_WAIT, Ringer
from regrow_workers.effects.rq_doorbell import BELL_TTL, Bells, EffectWorker
from tests.conftest import PrivateServer
from tests.integration.stage import Stage

QUEUE = "rq:queue:regrow:regrow"


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    stage = Stage(connection, raw, keys)
    stage.node("fx", "effects")
    return stage


@pytest.fixture
def rq_raw(own_server: PrivateServer) -> Iterator[Any]:
    client = redis.Redis.from_url(own_server.url, decode_responses=True)
    yield client
    client.close()


@pytest.fixture
def bells(own_server: PrivateServer) -> Iterator[Bells]:
    made = Bells(own_server.url, "regrow")
    yield made
    made.close()


@pytest.fixture
def worker(own_server: PrivateServer) -> Iterator[EffectWorker]:
    made = EffectWorker(own_server.url, "regrow", "fx.1")
    yield made
    made.leave()
    made.connection.close()


def ringer(keys: Keys, bells: Bells, connection: Connection) -> Ringer:
    return Ringer(lambda: connection, lambda: bells, keys, executors=1)


def order(stage: Stage, count: int) -> list[str]:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    effects = [EffectAppend(f"b:{n}", "charge", "{}", 60_000, 3, True) for n in range(count)]
    stage.commit(stage.plan(owner, loaded, entry, effects=effects))
    return [each.effect_id for each in effects]


def a_ring(effect_id: str, attempts: int = 0) -> Ring:
    return Ring(effect_id, "charge", "a", attempts, 60_000)


def test_due_effects_reach_an_executor_in_order_and_leave_nothing_in_rq(
    stage: Stage, bells: Bells, worker: EffectWorker, rq_raw: Any
) -> None:
    ordered = order(stage, 3)

    ringer(stage.keys, bells, stage.connection).run_once(stage.connection, bells)

    assert [worker.next_effect(time.monotonic(), 1) for _ in ordered] == ordered
    assert not rq_raw.exists(QUEUE)
    assert not list(rq_raw.scan_iter("rq:job:*"))
    ours: Any = stage.raw
    assert not list(ours.scan_iter("rq:*"))


def test_backlog_stays_in_our_own_keys_and_rq_gets_a_short_queue(stage: Stage, bells: Bells) -> None:
    order(stage, 200)
    made = ringer(stage.keys, bells, stage.connection)

    for _ in range(5):
        made.run_once(stage.connection, bells)

    assert bells.waiting() == 64


def test_ringer_sleeps_until_the_next_effect_is_due_and_never_longer_than_its_tick(
    stage: Stage, bells: Bells
) -> None:
    made = ringer(stage.keys, bells, stage.connection)
    assert made.run_once(stage.connection, bells) == LONGEST_WAIT

    [effect_id] = order(stage, 1)
    clock: Any = stage.raw.time()
    now_ms = clock[0] * 1000
    stage.raw.zadd(stage.keys.effects, {effect_id: now_ms + 60_000})
    assert made.run_once(stage.connection, bells) == LONGEST_WAIT
    stage.raw.zadd(stage.keys.effects, {effect_id: now_ms - 1})
    assert made.run_once(stage.connection, bells) == LONGEST_WAIT  # rung: due again in seconds
    assert bells.waiting() == 1


def test_effect_rung_twice_while_it_waits_is_one_doorbell(bells: Bells, worker: EffectWorker) -> None:
    bells.ring([a_ring("b:1-1:0")])
    bells.ring([a_ring("b:1-1:0")])

    assert worker.next_effect(time.monotonic(), 1) == "b:1-1:0"
    assert worker.next_effect(time.monotonic(), 1) is None


def test_doorbell_that_nobody_answers_expires(bells: Bells, rq_raw: Any) -> None:
    bells.ring([a_ring("b:1-1:0")])

    [job] = list(rq_raw.scan_iter("rq:job:*"))
    assert 0 < rq_raw.ttl(job) <= BELL_TTL


def test_claim_decides_when_one_doorbell_rings_at_two_executors(
    stage: Stage, bells: Bells, worker: EffectWorker
) -> None:
    [effect_id] = order(stage, 1)
    bells.ring([a_ring(effect_id), a_ring(effect_id, attempts=7)])

    heard = [worker.next_effect(time.monotonic(), 1) for _ in range(2)]

    assert heard == [effect_id, effect_id]
    claims = [
        claim_effect(stage.keys, effect_id, node="fx", executor=f"fx.{n}", token=f"t{n}") for n in range(2)
    ]
    answers = stage.connection.pipeline(claims)
    assert [isinstance(answer, Exception) for answer in answers] == [False, True]


def test_names_of_killed_workers_go_from_rqs_lists(bells: Bells, rq_raw: Any, worker: EffectWorker) -> None:
    assert worker.next_effect(time.monotonic(), 1) is None
    rq_raw.sadd("rq:workers", "rq:worker:dead")
    rq_raw.sadd("rq:workers:regrow:regrow", "rq:worker:dead")

    bells.forget_the_dead()

    assert rq_raw.smembers("rq:workers") == rq_raw.smembers("rq:workers:regrow:regrow") == {"rq:worker:fx.1"}


def test_rqs_redis_away_is_said_as_such_and_used_again_when_it_is_back(
    own_server: PrivateServer, bells: Bells, worker: EffectWorker
) -> None:
    own_server.kill()
    with pytest.raises(StoreUnavailable, match="RQ's Redis at unix://"):
        bells.ring([a_ring("b:1-1:0")])
    with pytest.raises(StoreUnavailable, match="RQ's Redis at unix://"):
        worker.next_effect(time.monotonic(), 1)

    own_server.start()

    bells.ring([a_ring("b:1-1:0")])
    assert worker.next_effect(time.monotonic(), 1) == "b:1-1:0"


def test_password_of_rqs_redis_is_in_no_message() -> None:
    url = "redis://someone:hidden-word@127.0.0.1:1/0"
    with pytest.raises(StoreUnavailable) as caught:
        Bells(url, "regrow").waiting()
    assert "hidden-word" not in str(caught.value)
