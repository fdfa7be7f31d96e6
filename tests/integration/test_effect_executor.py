"""Executors of the user's own: claim, call and tell from any thread, under the promises of ours."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
import redis

from regrow import EffectCall, EffectContext, EffectExecutor, effect
from regrow_signals.commits import EffectAppend
from regrow_signals.connection import Connection
from regrow_signals.effect_store import abandon
from regrow_signals.effect_tags import EffectTagAppend, cancel_tagged
from regrow_signals.errors import BadInput
from regrow_signals.keys import Keys
from tests.conftest import wait_until
from tests.integration.stage import Stage


@effect(name="own.double", concurrency=3)
def double(run: EffectContext, n: int) -> int:
    run.progress(0.5)
    if n < 0:
        raise ValueError(f"{n} is too little")
    return 2 * n


@effect(name="own.wait")
async def wait(run: EffectContext) -> str:
    return run.name


EFFECTS: list[Any] = [double, wait]


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    return Stage(connection, raw, keys)


@pytest.fixture
def executor(redis_url: str) -> Iterator[EffectExecutor]:
    with EffectExecutor(redis_url, effects=EFFECTS, name="desk") as executor:
        yield executor


def order(stage: Stage, *numbers: int, tag: str = "", **fields: Any) -> list[str]:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    given = cast(
        "dict[str, Any]",
        {"name": "own.double", "timeout_ms": 2_000, "retries": 0, "idempotent": True, **fields},
    )
    effects = [
        EffectAppend(f"b:{entry}:{place}", args=json.dumps({"n": n}), **given)
        for place, n in enumerate(numbers)
    ]
    tags = [EffectTagAppend(one.effect_id, tag) for one in effects if tag]
    stage.commit(stage.plan(owner, loaded, entry, effects=effects, others=tags))
    return [one.effect_id for one in effects]


def outcomes(stage: Stage) -> list[tuple[str, Any]]:
    found = stage.entries(stage.keys.mailbox("a"))
    return [(one["type"], json.loads(one["data"])) for one in found if one["source"].startswith("effect:")]


def one(executor: EffectExecutor, **options: Any) -> EffectCall:
    [call] = executor.take(wait=5, **options)
    return call


def test_thread_pool_runs_effects_and_tells_their_outcomes(stage: Stage, executor: EffectExecutor) -> None:
    asked = order(stage, *range(20))

    with ThreadPoolExecutor(4) as pool:
        while len(outcomes(stage)) < 20:
            for call in executor.take(4, wait=0.05):
                pool.submit(call.call)

    results = {found["effect"]: found["result"] for _, found in outcomes(stage)}
    assert results == {effect_id: 2 * n for n, effect_id in enumerate(asked)}
    assert not stage.raw.exists(
        stage.keys.effects, stage.keys.claims(executor.node), stage.keys.running("own.double")
    )


def test_call_has_what_it_takes_and_each_way_to_tell(stage: Stage, executor: EffectExecutor) -> None:
    order(stage, 1, 2, 3, -4)
    calls = {call.args["n"]: call for call in executor.take(3, wait=5)}

    assert (calls[1].function, calls[1].timeout, calls[1].run.attempt) == (double.function, 2.0, 1)
    calls[1].progress({"half": True})
    assert json.loads(str(stage.raw.hget(stage.keys.effect(calls[1].run.id), "progress"))) == {"half": True}
    assert calls[1].done(calls[1].function(calls[1].run, **calls[1].args))
    assert calls[2].failed("no")
    assert calls[3].timed_out()
    assert one(executor).call()

    told = [(kind, found.get("result", found.get("error", "?")[:24])) for kind, found in outcomes(stage)]
    assert told == [
        ("own.double.done", 2),
        ("own.double.failed", "no"),
        ("own.double.failed", "it took longer than its "),
        ("own.double.failed", "ValueError: -4 is too li"),
    ]
    with pytest.raises(BadInput, match="told already"):
        calls[2].done(4)


def test_async_effect_waits_in_its_own_queue(stage: Stage, executor: EffectExecutor) -> None:
    order(stage, 1, name="own.wait", awaited=True)
    assert executor.take(wait=0) == []
    [ringing] = executor.ring(wait=5, awaited=True)
    assert executor.claim("no:1-1:0") is None
    stage.raw.hset(stage.keys.effect(ringing), "due_ms", "0")
    entry = stage.raw.hget(stage.keys.effect(ringing), "entry")
    assert entry is not None
    call = executor.claim(ringing)
    # Its stored arguments do not fit: told as a failure, nothing to call.
    assert call is None
    assert [kind for kind, _ in outcomes(stage)] == ["own.wait.failed"]


def test_ring_wakes_who_waits(stage: Stage, executor: EffectExecutor) -> None:
    heard: list[EffectCall] = []
    waiting = threading.Thread(target=lambda: heard.extend(executor.take(wait=10)))
    waiting.start()
    order(stage, 1)
    waiting.join(5)
    assert len(heard) == 1


def test_cancelled_call_hears_it_at_its_next_progress(stage: Stage, executor: EffectExecutor) -> None:
    [effect_id] = order(stage, 1, tag="t", idempotent=False)
    call = one(executor)
    stage.connection.call(cancel_tagged(stage.keys, "a", "t"))

    assert call.call()

    assert outcomes(stage) == [("own.double.cancelled", {"effect": effect_id, "tag": "t", "attempts": 1})]


def test_limits_of_its_effects_are_in_force(stage: Stage, executor: EffectExecutor) -> None:
    order(stage, 1, 2, 3, 4)
    held = executor.take(4, wait=5)
    assert len(held) == 3
    assert executor.take(4, wait=0) == []
    held[0].call()
    assert len(executor.take(4, wait=5)) == 1


def test_end_of_the_executor_hands_back_what_it_held_and_leaves(stage: Stage, redis_url: str) -> None:
    with EffectExecutor(redis_url, effects=EFFECTS) as executor:
        [again, doubtful] = order(stage, 1)[0], order(stage, 2, idempotent=False)[0]
        held = executor.take(2, wait=5)
        assert len(held) == 2
        node = executor.node
        assert stage.raw.hget(stage.keys.node(node), "kind") == "effects"
    assert not stage.raw.exists(stage.keys.node(node), stage.keys.claims(node))
    assert stage.raw.hget(stage.keys.effect(again), "status") == "pending"
    assert outcomes(stage) == [("own.double.in_doubt", {"effect": doubtful, "attempts": 1})]


def test_executor_that_was_declared_lost_joins_anew_and_its_old_word_does_not_count(
    stage: Stage, executor: EffectExecutor
) -> None:
    order(stage, 1)
    call, node = one(executor), executor.node
    stage.raw.delete(stage.keys.node(node))
    stage.do(abandon(stage.keys, node, None))

    wait_until(lambda: executor.node != node, "it joins under another id")

    assert call.done(2) is False
    assert one(executor).call()
    assert [kind for kind, _ in outcomes(stage)] == ["own.double.done"]


def test_executor_beats_on_past_a_damaged_key_and_tells_its_limits_again(
    stage: Stage, executor: EffectExecutor
) -> None:
    node, exits = executor.node, stage.keys.exits
    stage.raw.delete(exits, stage.keys.limits)
    stage.raw.set(exits, "junk")
    stage.raw.delete(stage.keys.node(node))
    wait_until(lambda: stage.raw.exists(stage.keys.limits), "it tries to join")
    assert executor.node == node

    stage.raw.delete(exits)

    wait_until(lambda: executor.node != node, "it joins under another id")
    order(stage, 1)
    assert one(executor).call()


def test_effect_that_it_does_not_know_is_given_back(stage: Stage, executor: EffectExecutor) -> None:
    [effect_id] = order(stage, 1, name="own.other", retries=3)
    assert executor.take(wait=1) == []
    record = stage.raw.hgetall(stage.keys.effect(effect_id))
    assert (record["status"], record["attempts"]) == ("pending", "1")
