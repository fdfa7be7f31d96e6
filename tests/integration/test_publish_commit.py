"""Emits without a target: published in the same commit, in order with what is sent to one agent."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from regrow_signals.agents import Owner, mark_trying, reload
from regrow_signals.calls import Call
from regrow_signals.commits import SUBSCRIBERS, CommitReply, DirectiveAppend, EmitAppend
from regrow_signals.errors import BadInput, Conflict, CorruptKey, DirectiveRefused
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.mailbox import dead_retry
from regrow_signals.publishing import PublishAppend, publish
from regrow_signals.relay import deliver_held
from regrow_signals.signal import Signal
from regrow_signals.subscriptions import (
    Policy,
    SubscribeAppend,
    Subscription,
    UnsubscribeAppend,
    subscribe,
    subscriptions,
)
from tests.integration.conftest import Unchanged
from tests.integration.stage import Stage, emit

TYPE = "invoice.due"
OWNER = Owner("a", 1, "token-1", "n1")


@pytest.fixture
def stage(connection: Any, raw: redis.Redis, keys: Keys) -> Stage:
    """``a`` is alive and publishes; ``b`` and ``c`` are registered."""
    stage = Stage(connection, raw, keys)
    stage.live("a")
    stage.register("b", "c")
    return stage


def listen(
    stage: Stage, agent: str, pattern: str = TYPE, *, policy: Policy = "refuse", priority: int = 0
) -> None:
    stage.do(subscribe(stage.keys, stage.limits, agent, pattern, policy=policy, priority=priority))


def commit(stage: Stage, *emits: EmitAppend, others: list[DirectiveAppend] | None = None) -> CommitReply:
    """One signal of ``a``, with these emits; those to subscribers have what finds them."""
    [entry] = stage.feed("a")
    finders = [PublishAppend(TYPE, stage.limits) for one in emits if one.target == SUBSCRIBERS]
    loaded = stage.do(reload(stage.keys, OWNER))
    return stage.commit(stage.plan(OWNER, loaded, entry, emits=emits, others=[*finders, *(others or [])]))


def to_all(n: int = 1, **fields: str) -> EmitAppend:
    return emit(SUBSCRIBERS, n, **fields)


def ids(stage: Stage, agent: str) -> list[str]:
    return [one["id"] for one in stage.entries(stage.keys.mailbox(agent))]


def letters(stage: Stage, agent: str = "a") -> list[tuple[str, str, str]]:
    return [
        (one["reason"], one["id"], one.get("target", "")) for one in stage.entries(stage.keys.dead(agent))
    ]


def everyone(stage: Stage) -> list[Subscription]:
    found: list[Subscription] = stage.connection.run(subscriptions(stage.keys))
    return found


def test_every_subscriber_gets_it_with_the_commit(stage: Stage) -> None:
    listen(stage, "b", "invoice.*")
    listen(stage, "c")

    commit(stage, to_all())

    [of_b], [of_c] = stage.entries(stage.keys.mailbox("b")), stage.entries(stage.keys.mailbox("c"))
    assert of_b == of_c
    assert int(of_b.pop("at_ms")) > 0
    assert of_b == dict(emit("b", 1).fields)
    assert stage.counters()["published_total|type=desk"] == 1
    assert "published_unrouted_total|type=desk" not in stage.counters()
    assert letters(stage) == []


def test_nobody_subscribes_is_counted(stage: Stage) -> None:
    commit(stage, to_all())

    assert stage.counters()["published_unrouted_total|type=desk"] == 1
    assert letters(stage) == []


def test_an_agent_gets_what_it_publishes_itself_if_it_subscribes(stage: Stage) -> None:
    listen(stage, "a")

    commit(stage, to_all())

    assert ids(stage, "a") == ["e-1"]


def test_order_of_emits_and_publishes_to_one_target_is_kept(stage: Stage) -> None:
    listen(stage, "b")

    commit(stage, emit("b", 1), to_all(2), emit("b", 3), to_all(4))

    assert ids(stage, "b") == ["e-1", "e-2", "e-3", "e-4"]


def test_order_is_kept_through_the_outbox(stage: Stage) -> None:
    listen(stage, "b", policy="hold")
    stage.raw.hset(stage.keys.agent("b"), "max_mailbox", 1)

    assert commit(stage, emit("b", 1), to_all(2), emit("b", 3)).held == 2
    for n in (1, 2, 3):
        assert ids(stage, "b") == [f"e-{n}"]
        stage.raw.xtrim(stage.keys.mailbox("b"), maxlen=0)
        stage.do(deliver_held(stage.keys, stage.limits, "a", 1))


def full(stage: Stage, agent: str) -> list[str]:
    """No room for more than the two signals that wait."""
    stage.raw.hset(stage.keys.agent(agent), "max_mailbox", 2)
    for n in (1, 2):
        fields: dict[Any, Any] = {"id": f"w-{n}", "type": TYPE, "source": "test", "data": "1", "at_ms": "1"}
        stage.raw.xadd(stage.keys.mailbox(agent), fields)
    return stage.ids(stage.keys.mailbox(agent))


def test_refused_by_a_full_subscriber_is_the_publishers_dead_letter_and_can_be_sent_again(
    stage: Stage,
) -> None:
    listen(stage, "b")
    listen(stage, "c")
    full(stage, "b")

    commit(stage, to_all())

    assert ids(stage, "c") == ["e-1"]
    assert letters(stage) == [("target_full", "e-1", "b")]
    stage.raw.delete(stage.keys.mailbox("b"))
    [letter] = stage.ids(stage.keys.dead("a"))
    stage.connection.run(dead_retry(stage.keys, stage.limits, "a", letter))
    assert ids(stage, "b") == ["e-1:retry-1"]


def test_latest_drops_the_oldest_of_its_type(stage: Stage) -> None:
    listen(stage, "b", policy="latest")
    full(stage, "b")

    commit(stage, to_all(1), to_all(2), to_all(3))

    assert ids(stage, "b") == ["e-2", "e-3"]
    assert letters(stage, "b") == [("overflow", "w-1", ""), ("overflow", "w-2", ""), ("overflow", "e-1", "")]
    assert stage.agent("b")["failed"] == "3"


def test_latest_queues_behind_what_is_held_already(stage: Stage) -> None:
    listen(stage, "b", policy="latest")
    full(stage, "b")

    assert commit(stage, emit("b", 1), to_all(2)).held == 2
    assert ids(stage, "b") == ["w-1", "w-2"]


def test_too_many_hops_is_the_publishers_dead_letter_and_says_how_to_go_on(stage: Stage) -> None:
    listen(stage, "b")

    commit(stage, to_all(1, hops="65"))

    assert letters(stage) == [("max_hops", "e-1", "*")]
    [letter] = stage.ids(stage.keys.dead("a"))
    with pytest.raises(BadInput, match="publish it again"):
        stage.connection.run(dead_retry(stage.keys, stage.limits, "a", letter))


def test_more_subscribers_than_the_bound_is_the_publishers_dead_letter(stage: Stage) -> None:
    listen(stage, "b")
    listen(stage, "c")
    stage.limits = Limits(max_subscribers=1)

    commit(stage, to_all(1))

    assert letters(stage) == [("too_many_subscribers", "e-1", "*")]
    assert ids(stage, "b") == ids(stage, "c") == []


def test_a_commit_reaches_ten_times_the_bound_at_most(stage: Stage) -> None:
    listen(stage, "b")
    stage.limits = Limits(max_subscribers=1)

    commit(stage, *(to_all(n) for n in range(12)))

    assert len(ids(stage, "b")) == 10
    assert [reason for reason, _, _ in letters(stage)] == ["too_many_subscribers"] * 2


def test_a_subscriber_that_is_gone_leaves_and_nobody_is_told(stage: Stage) -> None:
    listen(stage, "b", "invoice.*")
    listen(stage, "b", "**")
    stage.raw.delete(stage.keys.agent("b"))

    commit(stage, to_all(1), to_all(2))

    assert letters(stage) == []
    assert stage.counters()["published_unrouted_total|type=desk"] == 2
    assert everyone(stage) == []
    assert not stage.raw.exists(stage.keys.mailbox("b"), stage.keys.agent("b"))


def test_a_damaged_subscriber_is_the_publishers_dead_letter(stage: Stage) -> None:
    listen(stage, "b")
    stage.raw.set(stage.keys.mailbox("b"), "junk")

    commit(stage, to_all())

    assert letters(stage) == [("target_corrupt", "e-1", "b")]


def test_a_damaged_list_of_patterns_refuses_the_commit_whole(stage: Stage, unchanged: Unchanged) -> None:
    stage.raw.set(stage.keys.wildcards, "junk")
    stage.feed("a")
    [entry] = stage.ids(stage.keys.mailbox("a"))
    loaded = stage.do(reload(stage.keys, OWNER))
    plan = stage.plan(OWNER, loaded, entry, emits=[to_all()], others=[PublishAppend(TYPE, stage.limits)])

    with unchanged(), pytest.raises(CorruptKey, match="wildcards"):
        stage.commit(plan)


def test_a_repeated_commit_publishes_nothing_more(stage: Stage, unchanged: Unchanged) -> None:
    listen(stage, "b")
    [entry] = stage.feed("a")
    loaded = stage.do(reload(stage.keys, OWNER))
    plan = stage.plan(OWNER, loaded, entry, emits=[to_all()], others=[PublishAppend(TYPE, stage.limits)])
    stage.commit(plan)

    with unchanged():
        assert stage.commit(plan).landed_before


def test_an_agent_subscribes_and_unsubscribes_in_its_commit(stage: Stage) -> None:
    commit(stage, others=[SubscribeAppend("x.*", 3, "hold", stage.limits, "1-1")])
    [made] = everyone(stage)
    assert (made.agent, made.pattern, made.priority, made.policy) == ("a", "x.*", 3, "hold")

    commit(stage, others=[UnsubscribeAppend("x.*"), UnsubscribeAppend("never.was")])
    assert everyone(stage) == []


def test_what_is_subscribed_in_a_commit_counts_for_later_ones(stage: Stage) -> None:
    commit(stage, to_all(1), others=[SubscribeAppend(TYPE, 0, "refuse", stage.limits, "1-1")])
    assert ids(stage, "a") == []

    commit(stage, to_all(2))
    assert ids(stage, "a") == ["e-2"]


def test_a_subscription_beyond_the_bound_refuses_the_signal_that_asked_for_it(
    stage: Stage, unchanged: Unchanged
) -> None:
    commit(stage, others=[SubscribeAppend("x.x", 0, "refuse", Limits(max_patterns=1), "1-1")])
    [entry] = stage.feed("a")
    more = SubscribeAppend("y.y", 0, "refuse", Limits(max_patterns=1), entry)
    plan = stage.plan(OWNER, stage.do(reload(stage.keys, OWNER)), entry, others=[more])

    with unchanged(), pytest.raises(DirectiveRefused) as refused:
        stage.commit(plan)

    assert (refused.value.entry, refused.value.reason) == (entry, "subscriptions_full")
    assert "agent a has 1 subscriptions, 1 is the bound" in refused.value.why


def newest(stage: Stage, n: int) -> Call[Any]:
    return publish(stage.keys, stage.limits, Signal.of("ticket.opened", n, id=f"p-{n}"))


def test_a_batch_does_not_stand_though_later_ones_gave_way_too(stage: Stage) -> None:
    listen(stage, "a", "ticket.*", policy="latest")
    entries = stage.feed("a", 2)
    stage.raw.hset(stage.keys.agent("a"), "max_mailbox", 2)
    loaded = stage.do(reload(stage.keys, OWNER))

    for n in (1, 2):
        stage.do(newest(stage, n))

    with pytest.raises(Conflict):
        stage.commit(stage.plan(OWNER, loaded, entries[0]))


def test_a_batch_in_which_a_signal_gave_way_does_not_stand(stage: Stage, unchanged: Unchanged) -> None:
    listen(stage, "a", "ticket.*", policy="latest")
    entries = stage.feed("a", 2)
    stage.raw.hset(stage.keys.agent("a"), "max_mailbox", 2)
    loaded = stage.do(reload(stage.keys, OWNER))
    plan = stage.plan(OWNER, loaded, entries[1], version=2, handled=2)

    stage.do(newest(stage, 1))

    with unchanged(), pytest.raises(Conflict):
        stage.commit(plan)
    assert letters(stage) == [("overflow", "s-1", "")]
    with pytest.raises(Conflict):
        stage.do(mark_trying(stage.keys, OWNER, entries[0], 0, 0))
    # Without it, and with what is being tried, the agent goes on.
    stage.do(mark_trying(stage.keys, OWNER, entries[1], 0, 0))
    stage.do(newest(stage, 2))
    assert ids(stage, "a") == ["s-2", "p-2"]
    stage.commit(stage.plan(OWNER, loaded, entries[1]))
    assert ids(stage, "a") == ["p-2"]
    assert letters(stage) == [("overflow", "s-1", ""), ("overflow", "p-1", "")]
