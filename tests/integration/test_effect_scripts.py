"""Effects: at least once after their commit, one holder, one outcome; in doubt where a repeat is not allowed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import redis

from regrow_signals.commits import EffectAppend
from regrow_signals.connection import Connection
from regrow_signals.effect_store import (
    ClaimedEffect,
    EffectClaimed,
    EffectGone,
    EffectNotDue,
    abandon,
    claim_effect,
    intervene,
    ring,
    settle_effect,
)
from regrow_signals.errors import CorruptKey
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from tests.conftest import wait_until
from tests.integration.conftest import Unchanged
from tests.integration.stage import LAST_ID, Stage, effect

ONE = "birth:1-1:1"


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    stage = Stage(connection, raw, keys)
    stage.node("fx", "effects")
    return stage


def order(stage: Stage, *effects: EffectAppend) -> None:
    """One commit of ``a`` that orders these effects."""
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    stage.commit(stage.plan(owner, loaded, entry, effects=effects or [effect()]))


def take(stage: Stage, effect_id: str = ONE, token: str = "t-1", executor: str = "x1") -> ClaimedEffect:
    call = claim_effect(stage.keys, effect_id, node="fx", executor=executor, token=token)
    return stage.connection.call(call)


def signals(stage: Stage) -> list[dict[str, str]]:
    return stage.entries(stage.keys.mailbox("a"))


def assert_nothing_left(stage: Stage) -> None:
    assert not stage.raw.exists(
        stage.keys.effect(ONE), stage.keys.effects, stage.keys.claims("fx"), "not-a-key"
    )
    assert stage.raw.xlen(stage.keys.outbox("a")) == 0


def test_due_effect_is_told_and_again_after_a_while(stage: Stage) -> None:
    order(stage)

    [told] = stage.do(ring(stage.keys, 10, 150)).told
    assert (told.effect_id, told.name, told.agent, told.timeout_ms) == (ONE, "charge", "a", 60_000)
    assert stage.do(ring(stage.keys, 10, 150)).told == []
    wait_until(lambda: stage.do(ring(stage.keys, 10, 150)).told, "the unclaimed effect is told again")


def test_entry_without_a_record_is_taken_off_the_list(stage: Stage) -> None:
    stage.raw.zadd(stage.keys.effects, {"ghost": 1})
    assert stage.do(ring(stage.keys, 10, 100)).told == []
    assert not stage.raw.exists(stage.keys.effects)


def test_claimed_effect_is_whole_and_in_one_executors_hands(stage: Stage, unchanged: Unchanged) -> None:
    order(stage)

    found = take(stage)

    assert (found.name, json.loads(found.args), found.attempts, found.retries) == (
        "charge",
        ["o-1", 500],
        1,
        3,
    )
    with unchanged():
        assert take(stage) == found
        with pytest.raises(EffectClaimed, match="x1"):
            take(stage, token="t-2")
    assert stage.raw.smembers(stage.keys.claims("fx")) == {ONE}
    assert stage.do(ring(stage.keys, 10, 100)).told == []


def test_claim_of_what_is_not_there_is_refused(stage: Stage, unchanged: Unchanged) -> None:
    with unchanged(), pytest.raises(EffectGone):
        take(stage)


@pytest.mark.parametrize("outcome", ["done", "failed", "in_doubt"])
def test_outcome_becomes_a_signal_and_nothing_is_left(
    stage: Stage, unchanged: Unchanged, outcome: str
) -> None:
    order(stage)
    take(stage)

    data = json.dumps({"effect": ONE})
    assert stage.do(settle_effect(stage.keys, ONE, "t-1", outcome, data)) is False  # type: ignore[arg-type]

    [signal] = signals(stage)
    assert (signal["id"], signal["type"], signal["source"], signal["data"]) == (
        f"{ONE}:{outcome}",
        f"charge.{outcome}",
        "effect:charge",
        data,
    )
    assert_nothing_left(stage)
    assert stage.counters()[f"effects_total|name=charge|outcome={outcome}"] == 1
    with unchanged():
        assert stage.do(settle_effect(stage.keys, ONE, "t-1", outcome, data)) is True  # type: ignore[arg-type]


def test_settlement_with_another_token_is_refused(stage: Stage, unchanged: Unchanged) -> None:
    order(stage)
    with unchanged(), pytest.raises(EffectClaimed):
        stage.do(settle_effect(stage.keys, ONE, "t-1", "done", "{}"))
    take(stage)
    for token in ("other", ""):
        with unchanged(), pytest.raises(EffectClaimed):
            stage.do(settle_effect(stage.keys, ONE, token, "done", "{}"))


def test_settlement_after_the_effect_was_abandoned_is_refused(stage: Stage, unchanged: Unchanged) -> None:
    order(stage)
    take(stage)
    stage.do(abandon(stage.keys, "fx", "x1"))
    with unchanged(), pytest.raises(EffectClaimed):
        stage.do(settle_effect(stage.keys, ONE, "t-1", "done", "{}"))
    take(stage, token="t-2")
    with unchanged(), pytest.raises(EffectClaimed):
        stage.do(settle_effect(stage.keys, ONE, "t-1", "done", "{}"))


def test_retry_waits_for_its_time_and_counts_attempts(stage: Stage, unchanged: Unchanged) -> None:
    order(stage)
    take(stage)
    retry = settle_effect(stage.keys, ONE, "t-1", "retry", "{}", retry_in_ms=1_500)
    assert stage.do(retry) is False
    with unchanged():
        assert stage.do(retry) is True
        with pytest.raises(EffectNotDue):
            take(stage, token="t-2")

    wait_until(lambda: stage.do(ring(stage.keys, 10, 10_000)).told, "the retry is due")
    assert take(stage, token="t-2").attempts == 2
    assert signals(stage) == []


def test_abandoned_effect_that_may_be_repeated_is_pending_again_uncharged(stage: Stage) -> None:
    order(stage)
    take(stage)
    stage.raw.delete(stage.keys.bell)

    assert stage.do(abandon(stage.keys, "fx", "x1")) == [(ONE, "pending")]

    assert stage.raw.llen(stage.keys.bell) == 1
    assert [told.effect_id for told in stage.do(ring(stage.keys, 10, 100)).told] == [ONE]
    again = take(stage, token="t-2")
    assert (again.attempts, again.kills) == (1, 1)


def test_abandoned_effect_that_may_not_be_repeated_is_in_doubt(stage: Stage) -> None:
    order(stage, effect(idempotent=False))
    take(stage)

    assert stage.do(abandon(stage.keys, "fx", None)) == [(ONE, "in_doubt")]

    [signal] = signals(stage)
    assert signal["type"] == "charge.in_doubt"
    assert json.loads(signal["data"]) == {"effect": ONE, "attempts": 1}
    assert_nothing_left(stage)


def test_effect_that_kills_its_executor_again_and_again_has_failed(stage: Stage) -> None:
    order(stage)
    for n in range(9):
        take(stage, token=f"t-{n}")
        assert stage.do(abandon(stage.keys, "fx", "x1")) == [(ONE, "pending")]
    take(stage, token="t-9")

    assert stage.do(abandon(stage.keys, "fx", "x1")) == [(ONE, "failed")]
    assert json.loads(signals(stage)[0]["data"])["attempts"] == 1
    assert_nothing_left(stage)


def test_only_the_lost_executors_effects_are_abandoned(stage: Stage, unchanged: Unchanged) -> None:
    order(stage, effect(1), effect(2))
    take(stage, executor="x1")
    take(stage, "birth:1-1:2", "t-2", executor="x2")

    assert stage.do(abandon(stage.keys, "fx", "x2")) == [("birth:1-1:2", "pending")]
    with unchanged():
        assert stage.do(abandon(stage.keys, "fx", "x2")) == []
        assert stage.do(abandon(stage.keys, "other", None)) == []
    assert stage.do(settle_effect(stage.keys, ONE, "t-1", "done", "{}")) is False


def test_effect_held_by_a_node_that_is_gone_is_taken_over(stage: Stage) -> None:
    order(stage)
    take(stage)
    stage.raw.delete(stage.keys.node("fx"))
    stage.raw.zadd(stage.keys.effects, {ONE: 1})

    [told] = stage.do(ring(stage.keys, 10, 100)).told
    stage.node("fx2", "effects")
    call = claim_effect(stage.keys, told.effect_id, node="fx2", executor="y", token="t-2")
    found = stage.connection.call(call)

    assert (found.kills, found.attempts) == (1, 1)
    assert stage.raw.smembers(stage.keys.claims("fx2")) == {ONE}
    assert not stage.raw.exists(stage.keys.claims("fx"))


def test_effect_held_by_a_node_that_is_gone_is_in_doubt_if_it_may_not_be_repeated(
    stage: Stage, unchanged: Unchanged
) -> None:
    order(stage, effect(idempotent=False))
    take(stage)
    stage.raw.delete(stage.keys.node("fx"))
    with unchanged(), pytest.raises(EffectClaimed, match="not up"):
        take(stage, token="t-2")

    stage.node("fx2", "effects")
    with pytest.raises(EffectGone, match="in_doubt"):
        stage.connection.call(claim_effect(stage.keys, ONE, node="fx2", executor="y", token="t-2"))
    assert [one["type"] for one in signals(stage)] == ["charge.in_doubt"]
    assert_nothing_left(stage)


def test_outcome_has_room_above_a_full_mailbox(stage: Stage) -> None:
    stage.register("a", max_mailbox=1)
    order(stage)
    stage.feed("a")
    take(stage)

    stage.do(settle_effect(stage.keys, ONE, "t-1", "done", "{}"))

    assert len(signals(stage)) == 2


def test_settlement_unblocks_the_agent(stage: Stage) -> None:
    stage.limits = Limits(max_outbox=1)
    order(stage, effect(1), effect(2))
    assert stage.agent("a")["status"] == "blocked"
    take(stage)

    stage.do(settle_effect(stage.keys, ONE, "t-1", "done", "{}"))

    assert stage.agent("a")["status"] == "running"


@pytest.mark.parametrize("how", ["deleted", "born again"])
def test_outcome_for_an_agent_that_is_gone_is_dropped_and_counted(stage: Stage, how: str) -> None:
    order(stage)
    take(stage)
    if how == "deleted":
        stage.raw.delete(*(kind("a") for kind in (stage.keys.agent, stage.keys.mailbox, stage.keys.outbox)))
    else:
        stage.raw.hset(stage.keys.agent("a"), "birth", "another")

    assert stage.do(settle_effect(stage.keys, ONE, "t-1", "done", "{}")) is False

    assert not stage.raw.exists(stage.keys.effect(ONE), stage.keys.effects, stage.keys.claims("fx"))
    assert stage.raw.xlen(stage.keys.mailbox("a")) == 0
    assert stage.counters()["effects_total|name=charge|outcome=dropped"] == 1


def test_effect_of_a_deleted_agent_is_not_run(stage: Stage) -> None:
    order(stage)
    stage.raw.delete(*(kind("a") for kind in (stage.keys.agent, stage.keys.mailbox, stage.keys.outbox)))

    with pytest.raises(EffectGone):
        take(stage)
    assert not stage.raw.exists(stage.keys.effect(ONE), stage.keys.effects)


@pytest.mark.parametrize("name", ["agent", "mailbox", "outbox", "effect", "effects", "claims"])
def test_wrong_type_refuses_claim_and_settlement_whole(stage: Stage, unchanged: Unchanged, name: str) -> None:
    order(stage)
    take(stage)
    if name == "effects":
        key = stage.keys.effects
    else:
        key = getattr(stage.keys, name)({"effect": ONE, "claims": "fx"}.get(name, "a"))
    stage.raw.delete(key)
    stage.raw.set(key, "junk")

    with unchanged(), pytest.raises(CorruptKey):
        take(stage)
    with unchanged(), pytest.raises(CorruptKey):
        stage.do(settle_effect(stage.keys, ONE, "t-1", "done", "{}"))


def test_lost_outbox_entry_is_said_and_the_effect_kept(stage: Stage, unchanged: Unchanged) -> None:
    order(stage)
    stage.raw.delete(stage.keys.outbox("a"))

    with unchanged(), pytest.raises(CorruptKey):
        take(stage)


def test_mailbox_without_ids_left_keeps_the_effect(stage: Stage, unchanged: Unchanged) -> None:
    order(stage)
    take(stage)
    stage.raw.xadd(stage.keys.mailbox("a"), {"x": "y"}, id=LAST_ID)

    with unchanged(), pytest.raises(CorruptKey):
        stage.do(settle_effect(stage.keys, ONE, "t-1", "done", "{}"))
    with unchanged():
        assert stage.do(abandon(stage.keys, "fx", "x1")) == [(ONE, "stuck")]


def test_one_damaged_effect_does_not_keep_others_from_being_abandoned(stage: Stage) -> None:
    order(stage, effect(1), replace(effect(2), effect_id="birth:1-1:2"))
    take(stage)
    take(stage, "birth:1-1:2", "t-2")
    stage.raw.delete(stage.keys.effect(ONE))
    stage.raw.set(stage.keys.effect(ONE), "junk")

    assert sorted(stage.do(abandon(stage.keys, "fx", None))) == [(ONE, "stuck"), ("birth:1-1:2", "pending")]


@pytest.mark.parametrize("name", ["claims", "effects", "bell"])
def test_wrong_type_refuses_an_abandonment_whole(stage: Stage, unchanged: Unchanged, name: str) -> None:
    order(stage)
    take(stage)
    key = stage.keys.claims("fx") if name == "claims" else getattr(stage.keys, name)
    stage.raw.delete(key)
    stage.raw.set(key, "junk")
    with unchanged(), pytest.raises(CorruptKey):
        stage.do(abandon(stage.keys, "fx", None))
    if name == "effects":
        with unchanged(), pytest.raises(CorruptKey):
            stage.do(ring(stage.keys, 10, 100))


# An operator's word.


def test_operator_settles_a_waiting_effect_and_its_agent_is_told_once(stage: Stage) -> None:
    order(stage)

    stage.connection.call(intervene(stage.keys, ONE, "done", f'{{"effect":"{ONE}","result":7}}'))

    [told] = signals(stage)
    assert (told["type"], json.loads(told["data"])) == ("charge.done", {"effect": ONE, "result": 7})
    assert_nothing_left(stage)
    with pytest.raises(EffectGone):
        stage.connection.call(intervene(stage.keys, ONE, "failed", "{}"))
    with pytest.raises(EffectGone):
        take(stage)


@pytest.mark.parametrize("outcome", ["failed", "retry"])
def test_effect_in_an_executors_hands_is_left_to_it(stage: Stage, outcome: Any, unchanged: Unchanged) -> None:
    order(stage)
    take(stage)

    with unchanged(), pytest.raises(EffectClaimed, match="x1"):
        stage.connection.call(intervene(stage.keys, ONE, outcome, "{}"))


def test_forced_word_counts_and_the_executors_own_is_not_told_twice(stage: Stage) -> None:
    order(stage)
    take(stage)

    stage.connection.call(intervene(stage.keys, ONE, "failed", '{"error":"cancelled"}', force=True))

    assert stage.connection.call(settle_effect(stage.keys, ONE, "t-1", "done", "{}")) is True
    assert [told["type"] for told in signals(stage)] == ["charge.failed"]
    assert_nothing_left(stage)


def test_effect_that_waits_for_its_next_try_is_tried_at_once(stage: Stage) -> None:
    order(stage)
    take(stage)
    stage.connection.call(settle_effect(stage.keys, ONE, "t-1", "retry", "{}", retry_in_ms=60_000))
    with pytest.raises(EffectNotDue):
        take(stage, token="t-2")

    stage.connection.call(intervene(stage.keys, ONE, "retry"))

    assert take(stage, token="t-3").attempts == 2


def test_forced_retry_takes_the_effect_from_its_executor(stage: Stage) -> None:
    order(stage)
    take(stage)

    stage.connection.call(intervene(stage.keys, ONE, "retry", force=True))

    assert take(stage, token="t-2", executor="x2").attempts == 2
    with pytest.raises(EffectClaimed):
        stage.connection.call(settle_effect(stage.keys, ONE, "t-1", "done", "{}"))
