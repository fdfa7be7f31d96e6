"""Timers and cron in a whole tree on a virtual clock: fired once for each due time, whoever is killed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from regrow import Agent, Cancel, Context, Cron, Payload, Schedule, Signal, State, Step, Supervisor, handles
from regrow.control import ask_watchdog
from regrow.testing import Harness
from regrow.testing.stepped_worker import KillStep
from regrow_signals.errors import BadInput

NOW = datetime(2026, 3, 27, 12, tzinfo=UTC)


class Set(Payload, type="set"):
    """What is to be asked for; ``cron`` an expression, else a timer in ``after`` seconds."""

    after: float = 0
    tag: str | None = None
    cron: str | None = None
    tz: str = "UTC"


class Drop(Payload, type="drop"):
    tag: str


class Seen(State):
    ticks: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


class Clock(Agent[Seen], name="clock"):
    @handles(Set)
    def set(self, seen: Seen, what: Set) -> Step[Seen]:
        if what.cron is not None:
            return Cron(what.cron, "tick", {"cron": what.cron}, tz=what.tz, tag=what.tag)
        return Schedule("tick", after=timedelta(seconds=what.after), tag=what.tag)

    @handles(Drop)
    def drop(self, seen: Seen, what: Drop) -> Step[Seen]:
        return Cancel(what.tag)

    @handles("tick")
    def tick(self, seen: Seen, signal: Signal, ctx: Context) -> Step[Seen]:
        assert signal.time is not None
        return seen.evolve(ticks=(*seen.ticks, signal.time), ids=(*seen.ids, signal.id))

    @handles("again")
    def again(self, seen: Seen, signal: Signal) -> Step[Seen]:
        """A timer in answer to a timer."""
        return seen.evolve(ids=(*seen.ids, signal.id)), Schedule("again", after=1)


def clock_tree() -> Supervisor:
    return Supervisor("clocks", [Clock.child("clock")], max_restarts=50)


@pytest.fixture
def clock() -> Harness:
    return Harness(clock_tree(), now=NOW)


def ticks(clock: Harness) -> list[str]:
    """Times of the ticks that were handled; no id among them comes twice."""
    seen = clock.state("clock", Clock)
    assert len(set(seen.ids)) == len(seen.ids)
    return list(seen.ticks)


def test_jido_16_a_scheduled_signal_is_handled_once(clock: Harness) -> None:
    clock.send("clock", Set(after=0.05))
    clock.advance(0.049)
    assert ticks(clock) == []
    clock.advance(10)
    assert ticks(clock) == ["2026-03-27T12:00:00.050Z"]


@pytest.mark.parametrize("step", get_args(KillStep))
def test_a_timer_is_set_once_and_fires_once_wherever_its_agent_is_killed(
    clock: Harness, step: KillStep
) -> None:
    clock.kill("clock", at=step)
    clock.send("clock", Set(after=5))
    clock.send("clock", Set(cron="@hourly"))
    clock.advance(1)
    clock.kill("clock")
    clock.kill_watchdog()
    clock.advance(3600)

    assert ticks(clock) == ["2026-03-27T12:00:05Z", "2026-03-27T13:00:00Z"]


def test_b10_a_timer_an_hour_ahead_outlives_its_process_and_fires_on_time(clock: Harness) -> None:
    clock.send("clock", Set(after=3600))
    clock.run()
    clock.kill("clock")
    clock.kill_watchdog()
    clock.advance(3599)
    assert ticks(clock) == []
    clock.advance(1)
    assert ticks(clock) == ["2026-03-27T13:00:00Z"]


def test_jido_31_a_cron_of_the_same_tag_takes_the_place_of_the_first(clock: Harness) -> None:
    clock.send("clock", Set(cron="@hourly", tag="t"))
    clock.run()
    clock.send("clock", Set(cron="30 * * * *", tag="t"))
    clock.advance(7200)
    assert ticks(clock) == ["2026-03-27T12:30:00Z", "2026-03-27T13:30:00Z"]


def test_jido_31_a_cron_that_cannot_be_leaves_the_old_one_and_the_agent(clock: Harness) -> None:
    clock.send("clock", Set(cron="@hourly", tag="t"))
    clock.send("clock", Set(cron="61 * * * *", tag="t"))
    clock.advance(3600)

    assert ticks(clock) == ["2026-03-27T13:00:00Z"]
    assert [letter["reason"] for letter in clock.dead_letters("clock")] == ["exception"]
    assert "Bad minute" in clock.record("clock")["last_error"]


def test_jido_32_a_watchdog_that_dies_takes_no_cron_with_it(clock: Harness) -> None:
    clock.send("clock", Set(cron="@hourly"))
    clock.advance(3600)
    clock.kill_watchdog()
    clock.advance(3600)
    assert clock.incarnation("clock") == 1
    assert ticks(clock) == ["2026-03-27T13:00:00Z", "2026-03-27T14:00:00Z"]


def test_jido_33_what_was_cancelled_stays_cancelled(clock: Harness) -> None:
    clock.send("clock", Set(cron="@hourly", tag="t"))
    clock.send("clock", Set(after=60, tag="u"))
    clock.advance(1)
    clock.send("clock", Drop(tag="t"))
    clock.send("clock", Drop(tag="u"))
    clock.send("clock", Drop(tag="unknown"))
    clock.run()
    clock.kill("clock")
    clock.advance(7200)
    assert ticks(clock) == [] and clock.dead_letters("clock") == []


def test_on_hold_one_tick_waits_for_all(clock: Harness) -> None:
    clock.send("clock", Set(cron="@hourly"))
    clock.run()
    ask_watchdog(clock.client.connection, clock.client.keys, "hold", {"target": "clock"})
    clock.advance(7 * 24 * 3600)
    assert clock.waiting("clock") == 1

    ask_watchdog(clock.client.connection, clock.client.keys, "unhold", {"target": "clock"})
    clock.run()
    assert ticks(clock) == ["2026-03-27T13:00:00Z"]
    clock.advance(3600)
    assert ticks(clock)[1:] == ["2026-04-03T13:00:00Z"]


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("30 2 * * *", ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        ("0 3 * * *", ["2026-03-28T02:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"]),
    ],
)
def test_f52_the_night_that_lacks_an_hour(clock: Harness, cron: str, expected: list[str]) -> None:
    clock.send("clock", Set(cron=cron, tz="Europe/Berlin"))
    clock.advance(timedelta(days=3))
    assert ticks(clock) == expected


def test_f52_the_night_that_has_an_hour_twice() -> None:
    clock = Harness(clock_tree(), now=datetime(2026, 10, 24, 12, tzinfo=UTC))
    clock.send("clock", Set(cron="30 2 * * *", tz="Europe/Berlin"))
    clock.advance(timedelta(days=2))
    assert ticks(clock) == ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]


def test_a_timer_in_answer_to_a_timer_makes_no_hops(clock: Harness) -> None:
    clock.send("clock", "again")
    clock.advance(100)
    seen = clock.state("clock", Clock)
    assert len(set(seen.ids)) == len(seen.ids) == 101
    assert clock.dead_letters("clock") == []


def test_a_naive_time_is_refused_where_the_directive_is_made() -> None:
    with pytest.raises(BadInput, match="has no time zone"):
        Schedule("tick", at=datetime(2026, 1, 1))
