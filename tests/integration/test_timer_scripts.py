"""Timers in Redis: set and cancelled by a commit, fired once for each due time, never by who does not lead."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from regrow_signals.connection import Connection
from regrow_signals.deletion import delete_agent
from regrow_signals.due_timers import decide
from regrow_signals.errors import CorruptKey, NotIdle, NotLeader, Refused
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.timers import CancelAppend, Due, Fired, cancel_timer, due, fire
from regrow_supervisor.timekeeper import fire_due
from tests.integration.conftest import Unchanged
from tests.integration.stage import LEADER, Stage
from tests.integration.timer_desk import Desk, raw_of

HOUR = 3_600_000


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    stage = Stage(connection, raw, keys)
    stage.node()
    stage.register("a", "b")
    return stage


@pytest.fixture
def desk(stage: Stage) -> Desk:
    return Desk(stage)


def run(stage: Stage, limits: Limits = Limits(), token: str = LEADER) -> Fired:  # noqa: B008
    return fire_due(stage.connection, stage.keys, limits, token).fired


def looked_at(stage: Stage) -> Due:
    return stage.connection.call(due(stage.keys, 10))


def assert_no_timers(stage: Stage) -> None:
    assert [key for key in raw_of(stage).keys("*timer*") if not key.endswith("timer-bell")] == []


# Set, fire, gone.


def test_a_timer_fires_once_and_is_gone(stage: Stage, desk: Desk) -> None:
    desk.commit(desk.timer(subject="s", causationid="c"))
    assert stage.raw.smembers(stage.keys.timers_of("a")) == {"a#t"}
    due_ms = raw_of(stage).hget(stage.keys.timer("a#t"), "due_ms")

    assert run(stage) == Fired(fired=1)
    assert run(stage) == Fired()

    [signal] = desk.took()
    assert signal["id"].endswith(f":t:{due_ms}")
    assert (signal["source"], signal["data"], signal["subject"], signal["causationid"]) == (
        "a",
        '{"n":1}',
        "s",
        "c",
    )
    assert signal["time"].endswith("Z") and "hops" not in signal
    assert_no_timers(stage)
    counters = stage.counters()
    assert counters["timers_fired_total|type=desk"] == counters["timer_lateness_seconds_count"] == 1


def test_after_counts_from_the_commit(stage: Stage, desk: Desk) -> None:
    desk.commit(desk.timer(after_ms=HOUR))

    record = raw_of(stage).hgetall(stage.keys.timer("a#t"))
    assert int(record["due_ms"]) == int(record["set_ms"]) + HOUR
    assert stage.raw.zscore(stage.keys.timers, "a#t") == float(record["due_ms"])
    assert run(stage) == Fired()


def test_a_step_that_is_repeated_fires_nothing_twice(stage: Stage, desk: Desk) -> None:
    desk.commit(desk.timer("one"), desk.every("each"))
    run(stage)
    desk.age("each", 200)
    now, _, timers = looked_at(stage)
    step = fire(stage.keys, Limits(), LEADER, [decide(timer, now) for timer in timers])

    first, again = stage.do(step), stage.do(step)

    assert (first, again) == (Fired(fired=1), Fired())
    assert len(desk.took()) == 2


def test_who_does_not_lead_fires_nothing(stage: Stage, desk: Desk, unchanged: Unchanged) -> None:
    desk.commit(desk.timer())
    for token in ("another", ""):
        with unchanged(), pytest.raises(NotLeader):
            run(stage, token=token)


def test_what_was_set_anew_since_the_decision_is_left_alone(stage: Stage, desk: Desk) -> None:
    desk.commit(desk.timer())
    now, _, timers = looked_at(stage)
    desk.commit(desk.timer(after_ms=HOUR))

    assert stage.do(fire(stage.keys, Limits(), LEADER, [decide(one, now) for one in timers])) == Fired()

    assert desk.took() == []
    assert stage.raw.zscore(stage.keys.timers, "a#t") == float(
        raw_of(stage).hget(stage.keys.timer("a#t"), "due_ms") or 0
    )


def test_a_tag_is_one_timer_and_cancel_takes_it_away(stage: Stage, desk: Desk) -> None:
    desk.commit(desk.timer(data="1"), desk.timer(data="2"), CancelAppend("a#unknown"))
    assert run(stage) == Fired(fired=1)
    assert [signal["data"] for signal in desk.took()] == ["2"]

    desk.commit(desk.timer(), desk.timer("u"), CancelAppend("a#t"))
    desk.commit(CancelAppend("a#u"))
    assert_no_timers(stage)


def test_only_an_earlier_timer_rings_the_bell(stage: Stage, desk: Desk) -> None:
    desk.commit(desk.timer("x", after_ms=HOUR))
    assert stage.raw.lpop(stage.keys.timer_bell) == "1"
    desk.commit(desk.timer("y", after_ms=2 * HOUR))
    assert not stage.raw.exists(stage.keys.timer_bell)
    desk.commit(desk.timer("z", after_ms=1), desk.timer("zz", after_ms=0))
    assert stage.raw.llen(stage.keys.timer_bell) == 1


# Bounds.


def test_more_timers_than_the_bound_are_dead_letters(stage: Stage, desk: Desk) -> None:
    three = [desk.timer(tag, after_ms=HOUR, most=2) for tag in "xyz"]
    desk.commit(*three)
    assert desk.letters() == [("timers_full", "late")]

    desk.commit(three[1], CancelAppend("a#x"), three[2])
    assert desk.letters() == [("timers_full", "late")]
    assert stage.raw.smembers(stage.keys.timers_of("a")) == {"a#y", "a#z"}


def test_an_agents_own_timers_have_room_above_its_full_mailbox(stage: Stage, desk: Desk) -> None:
    limits = Limits(max_mailbox=2, extra_room=2)
    desk.commit(*(desk.timer(tag) for tag in "xyz"))
    stage.feed("a", 2)

    assert run(stage, limits) == Fired(fired=2, waiting=1)
    assert run(stage, limits) == Fired()

    desk.commit()
    desk.age("z", 0)
    assert run(stage, limits) == Fired(fired=1)
    assert_no_timers(stage)


def test_a_full_mailbox_of_another_agent_is_waited_for_and_then_given_up(stage: Stage, desk: Desk) -> None:
    limits = Limits(max_mailbox=1)
    desk.commit(desk.timer(to="b"))
    stage.feed("b", 1)

    assert run(stage, limits) == Fired(waiting=1)
    assert run(stage, limits) == Fired()
    desk.age("t", limits.held_timeout_ms + 1)
    run(stage, limits)

    assert desk.letters() == [("target_full", "late")]
    assert stage.entries(stage.keys.dead("a"))[0]["target"] == "b"
    assert_no_timers(stage)


def test_an_agent_full_of_dead_letters_gets_no_signal_and_loses_no_timer(stage: Stage, desk: Desk) -> None:
    desk.commit(desk.timer())
    stage.raw.xadd(stage.keys.dead("a"), {"reason": "test"})

    assert run(stage, Limits(max_dead=1)) == Fired(waiting=1)
    stage.raw.delete(stage.keys.dead("a"))
    desk.age("t", 0)
    assert run(stage, Limits(max_dead=1)) == Fired(fired=1)


def test_a_timer_to_nobody_is_a_dead_letter(stage: Stage, desk: Desk) -> None:
    desk.commit(desk.timer(to="nobody"))
    run(stage)
    assert desk.letters() == [("no_such_agent", "late")]
    assert_no_timers(stage)


# Recurring ones.


def test_a_tick_that_waits_stands_for_those_after_it(stage: Stage, desk: Desk) -> None:
    desk.commit(desk.every(ms=HOUR), desk.every("all", ms=HOUR, missed="all"))
    run(stage)
    for _ in range(3):
        for tag in ("t", "all"):
            desk.age(tag, HOUR)
        run(stage)
    assert sorted(signal["id"].split(":")[-2] for signal in desk.took()) == ["all", "all", "all", "t"]
    assert stage.counters()["timers_missed_total|type=desk"] == 2

    desk.commit()
    desk.age("t", HOUR)
    run(stage)
    assert [signal["id"].split(":")[-2] for signal in desk.took()] == ["t"]


def test_ticks_beyond_the_room_stay_due(stage: Stage, desk: Desk) -> None:
    limits = Limits(max_mailbox=1, extra_room=2)
    desk.commit(desk.every(ms=1000, missed="all"))
    run(stage, limits)
    desk.age("t", 5_900)

    assert run(stage, limits) == Fired(fired=3, waiting=1)
    first = [signal["id"] for signal in desk.took()]
    desk.commit()
    desk.age("t", 0)
    assert run(stage, limits).fired == 2
    assert len({*first, *(signal["id"] for signal in desk.took())}) == 5


# What goes, and what is broken.


def test_a_deleted_agents_timers_go_with_it(stage: Stage, desk: Desk) -> None:
    desk.commit(desk.timer(after_ms=HOUR), desk.every())
    stage.die(desk.owner)
    stage.connection.run(delete_agent(stage.keys, Limits(), "a", force=True))
    assert_no_timers(stage)


def test_who_has_timers_is_not_idle(stage: Stage, desk: Desk) -> None:
    desk.commit(desk.timer(after_ms=HOUR))
    stage.die(desk.owner)
    with pytest.raises(NotIdle):
        stage.decide(deletions=["a"])

    assert stage.do(cancel_timer(stage.keys, "a", "t"))
    stage.decide(deletions=["a"])
    assert not stage.raw.exists(stage.keys.agent("a"))


def test_timers_of_an_earlier_registration_of_the_id_are_dropped(stage: Stage, desk: Desk) -> None:
    desk.commit(desk.timer(), desk.every())
    run(stage)
    desk.commit(desk.timer("u"))
    stage.raw.hset(stage.keys.agent("a"), "birth", "another")
    desk.age("t", 200)

    assert run(stage) == Fired(dropped=2)

    assert desk.took() == []
    assert_no_timers(stage)
    assert stage.counters()["timers_dropped_total"] == 2


def test_what_makes_no_sense_is_dropped_and_told_and_stops_nobody(stage: Stage, desk: Desk) -> None:
    desk.commit(*(desk.every(tag) for tag in ("bad", "worse")), desk.timer("good"))
    stage.raw.hset(stage.keys.timer("a#bad"), "every_ms", "soon")
    stage.raw.delete(stage.keys.timer("a#worse"))
    stage.raw.zadd(stage.keys.timers, {"a#gone": 1, "a#odd": 1})
    stage.raw.set(stage.keys.timer("a#odd"), "x")

    assert run(stage) == Fired(fired=1, dropped=4)

    told = [
        event["detail"] for event in stage.entries(stage.keys.events) if event["event"] == "timer_dropped"
    ]
    assert sorted(told) == ["a#bad", "a#gone", "a#odd", "a#worse"]
    assert [signal["id"].split(":")[-2] for signal in desk.took()] == ["good"]
    stage.raw.delete(stage.keys.timers_of("a"))
    assert_no_timers(stage)


@pytest.mark.parametrize("key", ["timers", "timer_bell", "own", "timer"])
def test_a_key_of_the_wrong_type_refuses_the_commit_whole(
    stage: Stage, desk: Desk, unchanged: Unchanged, key: str
) -> None:
    names: dict[str, Any] = {
        "timers": stage.keys.timers, "timer_bell": stage.keys.timer_bell, "own": stage.keys.timers_of("a"),
        "timer": stage.keys.timer("a#t"),
    }  # fmt: skip
    stage.raw.set(names[key], "x")
    [entry] = stage.feed("a")
    plan = stage.plan(desk.owner, desk.loaded, entry, others=[desk.timer()])
    with unchanged(), pytest.raises(CorruptKey):
        stage.commit(plan)


def test_cancelling_by_hand(stage: Stage, desk: Desk) -> None:
    desk.commit(desk.timer(after_ms=HOUR), desk.timer("u", after_ms=HOUR))
    assert stage.do(cancel_timer(stage.keys, "a", "t"))
    assert not stage.do(cancel_timer(stage.keys, "a", "t"))

    stage.raw.hset(stage.keys.timer("a#u"), "declared", "1")
    with pytest.raises(Refused, match="a#u is declared by the agent's class"):
        stage.do(cancel_timer(stage.keys, "a", "u"))


@pytest.mark.parametrize("field", ["agent", "birth", "to", "type", "data"])
def test_a_timer_that_lacks_a_field_is_dropped_and_told_and_stops_nobody(
    stage: Stage, desk: Desk, field: str
) -> None:
    desk.commit(desk.timer("damaged"), desk.timer("sound"))
    raw_of(stage).hdel(stage.keys.timer("a#damaged"), field)

    assert run(stage) == Fired(fired=1, dropped=1)

    assert [signal["id"].split(":")[-2] for signal in desk.took()] == ["sound"]
    assert not raw_of(stage).exists(stage.keys.timers)
