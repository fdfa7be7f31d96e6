"""Effects cancelled by their tag: what waits never begins, what runs is told to stop, and each has one outcome."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import redis

from regrow_signals.commits import DirectiveAppend, EffectAppend
from regrow_signals.connection import Connection
from regrow_signals.deletion import delete_agent
from regrow_signals.effect_store import (
    EffectGone,
    EffectLimit,
    abandon,
    announce_limits,
    claim_effect,
    intervene,
    ring,
    settle_effect,
)
from regrow_signals.effect_tags import EffectCancelAppend, EffectTagAppend, cancel_tagged
from regrow_signals.errors import CorruptKey, NoSuchAgent
from regrow_signals.keys import Keys
from tests.integration.conftest import Unchanged
from tests.integration.stage import Stage

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def name(n: int) -> str:
    return f"birth:1-1:{n}"


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    stage = Stage(connection, raw, keys)
    stage.node("fx", "effects")
    return stage


class Agent:
    """Agent ``a``, which orders and cancels by commits."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.owner, self.loaded = stage.live("a")
        self.version = self.loaded.version
        self.cursor = self.loaded.cursor

    def commit(self, effects: Sequence[EffectAppend], others: Sequence[DirectiveAppend]) -> None:
        [entry] = self.stage.feed("a")
        loaded = replace(self.loaded, version=self.version, cursor=self.cursor)
        self.stage.commit(self.stage.plan(self.owner, loaded, entry, effects=effects, others=others))
        self.version, self.cursor = self.version + 1, entry

    def order(self, *numbers: int, tag: str = "order-7", cancel: str = "", **fields: Any) -> None:
        given = cast("dict[str, Any]", {"retries": 3, "idempotent": True, "traceparent": TRACE, **fields})
        effects = [EffectAppend(name(n), "charge", "[]", 60_000, **given) for n in numbers]
        others: list[DirectiveAppend] = [EffectCancelAppend(cancel, "")] if cancel else []
        self.commit(effects, [*others, *(EffectTagAppend(name(n), tag) for n in numbers if tag)])

    def cancel(self, tag: str = "order-7", of: str = "") -> None:
        self.commit([], [EffectCancelAppend(tag, of)])


@pytest.fixture
def agent(stage: Stage) -> Agent:
    return Agent(stage)


def take(stage: Stage, n: int, token: str = "t") -> None:
    stage.do(claim_effect(stage.keys, name(n), node="fx", executor="fx.1", token=token))


def outcomes(stage: Stage) -> list[tuple[str, Any]]:
    found = stage.entries(stage.keys.mailbox("a"))
    return [(one["type"], json.loads(one["data"])) for one in found if one["source"] == "effect:charge"]


def cancelled(n: int, attempts: int, tag: str = "order-7") -> tuple[str, Any]:
    return "charge.cancelled", {"effect": name(n), "tag": tag, "attempts": attempts}


def assert_nothing_left(stage: Stage) -> None:
    keys = stage.keys
    left = (keys.effects, keys.effect_tags("a"), keys.cancelling, keys.claims("fx"), keys.effect(name(1)))
    assert not stage.raw.exists(*left)
    assert stage.raw.xlen(keys.outbox("a")) == 0


def test_what_waits_is_told_as_cancelled_by_the_same_step_and_never_begins(
    stage: Stage, agent: Agent
) -> None:
    agent.order(1, 2)

    agent.cancel()

    assert outcomes(stage) == [cancelled(1, 0), cancelled(2, 0)]
    assert_nothing_left(stage)
    with pytest.raises(EffectGone):
        take(stage, 1)
    assert stage.counters()["effects_total|name=charge|outcome=cancelled"] == 2


def test_only_effects_of_that_tag_and_name_are_cancelled(stage: Stage, agent: Agent) -> None:
    agent.order(1, tag="order-8")
    agent.order(2, tag="")
    agent.order(3)

    agent.cancel("order-9")
    agent.cancel(of="refund")
    assert outcomes(stage) == []

    agent.cancel(of="charge")
    assert outcomes(stage) == [cancelled(3, 0)]
    assert stage.raw.hgetall(stage.keys.effect_tags("a")) == {name(1): "order-8"}


def test_cancel_meets_what_was_ordered_before_it_not_what_the_same_step_orders_after(
    stage: Stage, agent: Agent
) -> None:
    agent.order(1)

    agent.order(2, cancel="order-7")

    assert outcomes(stage) == [cancelled(1, 0)]
    take(stage, 2)


def test_effect_in_an_executors_hands_is_told_to_stop_and_its_outcome_is_what_became_of_it(
    stage: Stage, agent: Agent
) -> None:
    agent.order(1)
    take(stage, 1)

    agent.cancel()

    assert stage.raw.smembers(stage.keys.cancelling) == {name(1)}
    assert outcomes(stage) == []
    stage.do(settle_effect(stage.keys, name(1), "t", "done", json.dumps({"effect": name(1)})))
    assert outcomes(stage) == [("charge.done", {"effect": name(1)})]
    assert_nothing_left(stage)


@pytest.mark.parametrize("outcome", ["cancelled", "retry", "in_doubt"])
def test_one_that_stopped_or_would_be_tried_again_is_cancelled(
    stage: Stage, agent: Agent, outcome: Any
) -> None:
    agent.order(1)
    take(stage, 1)
    agent.cancel()

    assert stage.do(settle_effect(stage.keys, name(1), "t", outcome, "{}")) is False

    assert outcomes(stage) == [cancelled(1, 1)]
    assert_nothing_left(stage)
    assert stage.do(settle_effect(stage.keys, name(1), "t", outcome, "{}")) is True


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("how", ["executor", "node"])
def test_one_whose_executor_or_node_is_lost_is_cancelled_and_not_begun_again(
    stage: Stage, agent: Agent, how: str, idempotent: bool
) -> None:
    agent.order(1, idempotent=idempotent)
    take(stage, 1)
    agent.cancel()

    if how == "executor":
        assert stage.do(abandon(stage.keys, "fx", "fx.1")) == [(name(1), "cancelled")]
    else:
        stage.raw.delete(stage.keys.node("fx"))
        stage.node("gx", "effects")
        with pytest.raises(EffectGone, match="cancelled"):
            stage.do(claim_effect(stage.keys, name(1), node="gx", executor="gx.1", token="t2"))

    assert outcomes(stage) == [cancelled(1, 1)]
    assert not stage.raw.exists(stage.keys.cancelling, stage.keys.effect_tags("a"))


def test_operators_retry_of_one_that_is_to_stop_is_refused(stage: Stage, agent: Agent) -> None:
    agent.order(1)
    take(stage, 1)
    agent.cancel()
    with pytest.raises(EffectGone):
        stage.connection.call(intervene(stage.keys, name(1), "retry", force=True))


def test_what_waits_for_room_is_cancelled_and_its_turn_goes_to_the_next(stage: Stage, agent: Agent) -> None:
    stage.do(announce_limits(stage.keys, {"charge": EffectLimit(1)}))
    agent.order(1, tag="")
    agent.order(2)
    agent.order(3, tag="")
    take(stage, 1)
    assert stage.do(ring(stage.keys, 10, 1_000)).told == []

    agent.cancel()

    assert outcomes(stage) == [cancelled(2, 0)]
    stage.do(settle_effect(stage.keys, name(1), "t", "done", "{}"))
    assert [one.effect_id for one in stage.do(ring(stage.keys, 10, 1_000)).told] == [name(3)]


def test_operator_cancels_by_tag_and_hears_how_many(stage: Stage, agent: Agent) -> None:
    agent.order(1, 2)
    take(stage, 1)

    assert stage.connection.call(cancel_tagged(stage.keys, "a", "order-7")) == (1, 1)

    assert outcomes(stage) == [cancelled(2, 0)]
    with pytest.raises(NoSuchAgent):
        stage.connection.call(cancel_tagged(stage.keys, "nobody", "order-7"))


@pytest.mark.parametrize("key", ["effect_tags", "cancelling"])
def test_wrong_type_refuses_the_commit_whole(
    stage: Stage, agent: Agent, key: str, unchanged: Unchanged
) -> None:
    agent.order(1)
    [entry] = stage.feed("a")
    loaded = replace(agent.loaded, version=agent.version, cursor=agent.cursor)
    plan = stage.plan(agent.owner, loaded, entry, others=[EffectCancelAppend("order-7", "")])
    place = getattr(stage.keys, key)
    place = place if isinstance(place, str) else place("a")
    stage.raw.delete(place)
    stage.raw.set(place, "junk")
    with unchanged(), pytest.raises(CorruptKey):
        stage.commit(plan)


def test_deleted_agent_leaves_no_tags(stage: Stage, agent: Agent) -> None:
    agent.order(1)
    record = stage.agent("a")
    stage.raw.hset(stage.keys.agent("a"), "ended", record["incarnation"])
    stage.raw.hset(stage.keys.agent("a"), "supervisor", "")
    stage.connection.run(delete_agent(stage.keys, stage.limits, "a", force=True))
    assert not stage.raw.exists(stage.keys.effect_tags("a"))


def test_trace_of_the_cause_reaches_the_executor_and_the_outcome(stage: Stage, agent: Agent) -> None:
    agent.order(1, tracestate="a=b")
    call = claim_effect(stage.keys, name(1), node="fx", executor="fx.1", token="t")
    claimed = stage.connection.call(call)
    assert (claimed.traceparent, claimed.tracestate, claimed.tag) == (TRACE, "a=b", "order-7")

    stage.do(settle_effect(stage.keys, name(1), "t", "done", "{}"))

    [told] = [one for one in stage.entries(stage.keys.mailbox("a")) if one["type"] == "charge.done"]
    assert (told["traceparent"], told["tracestate"], told["causationid"]) == (TRACE, "a=b", name(1))
