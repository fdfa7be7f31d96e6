"""`concurrency` and `rate` of an effect: decided by the claim, over all executors; what finds no room waits in turn."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis

from regrow_signals.commits import EffectAppend
from regrow_signals.connection import Connection
from regrow_signals.effect_store import (
    EffectLimit,
    EffectPutOff,
    Ring,
    Rung,
    abandon,
    announce_limits,
    claim_effect,
    intervene,
    ring,
    settle_effect,
)
from regrow_signals.errors import CorruptKey
from regrow_signals.keys import Keys
from tests.conftest import wait_until
from tests.integration.conftest import Unchanged
from tests.integration.stage import Stage, effect

AGAIN_MS = 60_000


def name(n: int) -> str:
    return f"birth:1-1:{n}"


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    stage = Stage(connection, raw, keys)
    stage.node("fx", "effects")
    stage.node("gx", "effects")
    return stage


def limit(stage: Stage, concurrency: int = 0, count: int = 0, period_ms: int = 0) -> None:
    stage.do(announce_limits(stage.keys, {"charge": EffectLimit(concurrency, count, period_ms)}))


def order(stage: Stage, count: int, *, awaited: bool = False) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    effects = [
        EffectAppend(name(n), "charge", "[]", 60_000, 3, True, awaited=awaited) for n in range(1, count + 1)
    ]
    stage.commit(stage.plan(owner, loaded, entry, effects=effects))


def take(stage: Stage, n: int, node: str = "fx") -> None:
    stage.do(claim_effect(stage.keys, name(n), node=node, executor=f"{node}.1", token=f"t{n}"))


def look(stage: Stage) -> Rung:
    return stage.connection.call(ring(stage.keys, 100, AGAIN_MS))


def told(stage: Stage) -> list[str]:
    return [one.effect_id for one in look(stage).told]


def running(stage: Stage) -> set[str]:
    found: set[str] = stage.raw.smembers(stage.keys.running("charge"))  # type: ignore[assignment]
    return found


def test_no_more_than_its_concurrency_are_claimed_over_all_nodes(stage: Stage) -> None:
    limit(stage, 2)
    order(stage, 4)
    take(stage, 1)
    take(stage, 2, "gx")

    for n, node in ((3, "fx"), (4, "gx")):
        with pytest.raises(EffectPutOff) as refused:
            take(stage, n, node)
        assert (refused.value.bound, refused.value.retry_in_ms) == ("concurrency", 0)

    assert running(stage) == {name(1), name(2)}
    assert stage.raw.zrange(stage.keys.parked("charge"), 0, -1) == [name(3), name(4)]
    take(stage, 1)  # its own repeat
    stage.do(settle_effect(stage.keys, name(1), "t1", "done", "{}"))
    take(stage, 3)
    with pytest.raises(EffectPutOff):
        take(stage, 4)


@pytest.mark.parametrize(
    "how", ["settled", "retried", "executor lost", "node lost", "operator", "agent deleted"]
)
def test_place_comes_back_with_the_end_of_the_claim_and_the_next_in_turn_is_rung_for(
    stage: Stage, how: str
) -> None:
    limit(stage, 1)
    order(stage, 3)
    assert told(stage) == [name(1)]
    take(stage, 1)
    assert told(stage) == []
    stage.raw.delete(stage.keys.bell)

    match how:
        case "settled":
            stage.do(settle_effect(stage.keys, name(1), "t1", "done", "{}"))
        case "retried":
            stage.do(settle_effect(stage.keys, name(1), "t1", "retry", "{}", retry_in_ms=60_000))
        case "executor lost":
            stage.do(abandon(stage.keys, "fx", "fx.1"))
        case "node lost":
            stage.do(abandon(stage.keys, "fx", None))
        case "operator":
            stage.do(intervene(stage.keys, name(1), "failed", "{}", force=True))
        case _:
            stage.raw.delete(*(kind("a") for kind in (stage.keys.agent, stage.keys.mailbox)))
            stage.do(settle_effect(stage.keys, name(1), "t1", "done", "{}"))

    assert running(stage) == set()
    assert stage.raw.llen(stage.keys.bell) == 1
    # An abandoned one is due now: those that waited before it come first.
    assert told(stage) == [name(2)]


def test_effect_of_a_lost_node_keeps_its_place_when_it_is_taken_over(stage: Stage) -> None:
    limit(stage, 1)
    order(stage, 2)
    take(stage, 1)
    stage.raw.delete(stage.keys.node("fx"))
    stage.raw.zadd(stage.keys.effects, {name(1): 0})

    assert told(stage) == [name(1)]
    call = claim_effect(stage.keys, name(1), node="gx", executor="gx.1", token="t-2")
    assert stage.do(call).kills == 1
    assert running(stage) == {name(1)}
    with pytest.raises(EffectPutOff):
        take(stage, 2, "gx")


def test_takeover_begins_a_call_so_it_needs_a_token_and_waits_for_it_as_pending(stage: Stage) -> None:
    limit(stage, 1, 1, 3_600_000)
    order(stage, 1)
    take(stage, 1)
    stage.raw.delete(stage.keys.node("fx"))

    with pytest.raises(EffectPutOff) as refused:
        stage.do(claim_effect(stage.keys, name(1), node="gx", executor="gx.1", token="t-2"))

    assert refused.value.bound == "rate"
    assert 0 < refused.value.retry_in_ms <= 3_600_000
    record = stage.raw.hgetall(stage.keys.effect(name(1)))
    assert (record["status"], record["kills"], record["attempts"]) == ("pending", "1", "0")
    assert not stage.raw.exists(stage.keys.claims("fx"), stage.keys.running("charge"))


def test_backlog_under_a_rate_is_looked_at_once_and_comes_back_as_tokens_do(stage: Stage) -> None:
    limit(stage, 0, 5, 100)
    order(stage, 50)
    claimed: list[Ring] = []

    def a_round() -> int | None:
        rung = look(stage)
        for one in rung.told:
            stage.do(claim_effect(stage.keys, one.effect_id, node="fx", executor="x", token=one.effect_id))
            claimed.append(one)
        return rung.next_ms

    a_round()
    assert len(claimed) == 5
    assert stage.raw.zcard(stage.keys.parked("charge")) == 45
    assert stage.raw.zcount(stage.keys.effects, "-inf", int(stage.raw.time()[0]) * 1000) == 0
    next_ms = a_round()
    assert next_ms is not None
    assert next_ms <= 20
    wait_until(lambda: a_round() is None or len(claimed) == 50, "all are told and claimed, at their rate")
    assert {one.effect_id for one in claimed} == {name(n) for n in range(1, 51)}
    assert not stage.raw.exists(stage.keys.parked("charge"))


def test_full_name_says_nothing_of_when_and_others_go_past_it(stage: Stage) -> None:
    limit(stage, 1)
    order(stage, 2)
    take(stage, 1)
    stage.raw.zrem(stage.keys.effects, name(1))

    assert look(stage) == Rung([], None)

    owner = stage.live("b")
    [entry] = stage.feed("b")
    stage.commit(stage.plan(*owner, entry, effects=[replace(effect(9), name="other")]))
    assert told(stage) == ["birth:1-1:9"]


def test_async_effects_of_a_name_share_its_limit_and_wait_in_their_own_queue(stage: Stage) -> None:
    limit(stage, 1)
    order(stage, 2, awaited=True)
    take(stage, 1)
    assert stage.do(ring(stage.keys, 10, AGAIN_MS, awaited=True)).told == []
    assert stage.raw.zrange(stage.keys.parked("charge", awaited=True), 0, -1) == [name(2)]
    stage.raw.delete(stage.keys.bell_async)

    stage.do(settle_effect(stage.keys, name(1), "t1", "done", "{}"))

    assert stage.raw.llen(stage.keys.bell_async) == 1
    assert [one.effect_id for one in stage.do(ring(stage.keys, 10, AGAIN_MS, awaited=True)).told] == [name(2)]


def test_limit_that_is_no_more_lets_all_go_and_is_forgotten(stage: Stage) -> None:
    limit(stage, 1)
    order(stage, 3)
    take(stage, 1)
    assert told(stage) == []

    limit(stage)

    assert told(stage) == [name(2), name(3)]
    take(stage, 2)
    take(stage, 3)
    stage.do(settle_effect(stage.keys, name(1), "t1", "done", "{}"))
    look(stage)
    assert not stage.raw.exists(stage.keys.limits, stage.keys.running("charge"))


def test_names_of_other_applications_keep_their_limits(stage: Stage) -> None:
    limit(stage, 1, 10, 1_000)
    stage.do(announce_limits(stage.keys, {"other": EffectLimit(), "third": EffectLimit(2)}))
    assert stage.raw.hgetall(stage.keys.limits) == {"charge": "1 10 1000", "third": "2 0 0"}


def test_operator_cancels_and_retries_what_waits_for_room(stage: Stage) -> None:
    limit(stage, 1)
    order(stage, 3)
    take(stage, 1)
    assert told(stage) == []

    stage.do(intervene(stage.keys, name(2), "failed", "{}"))
    stage.do(intervene(stage.keys, name(3), "retry"))

    assert told(stage) == []
    assert stage.raw.zrange(stage.keys.parked("charge"), 0, -1) == [name(3)]


def test_place_of_an_effect_whose_record_was_deleted_by_hand_is_found_free(stage: Stage) -> None:
    limit(stage, 1)
    order(stage, 2)
    take(stage, 1)
    stage.raw.delete(stage.keys.effect(name(1)))

    take(stage, 2)

    assert running(stage) == {name(2)}


@pytest.mark.parametrize("key", ["running", "parked", "limits", "buckets"])
def test_wrong_type_refuses_the_claim_whole_and_keeps_no_outcome_back(
    stage: Stage, key: str, unchanged: Unchanged
) -> None:
    limit(stage, 1, 10, 1_000)
    order(stage, 2)
    take(stage, 1)
    place = getattr(stage.keys, key)
    place = place if isinstance(place, str) else place("charge")
    stage.raw.delete(place)
    stage.raw.set(place, "junk")

    with unchanged(), pytest.raises(CorruptKey):
        take(stage, 2)
    assert stage.do(settle_effect(stage.keys, name(1), "t1", "done", "{}")) is False
