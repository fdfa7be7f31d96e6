"""``@every`` and ``@cron``: what a class may declare, and that each of its agents has just that, while it says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from regrow import Agent, Cancel, Payload, Schedule, Signal, State, Step, Supervisor, cron, every, handles
from regrow.control import ask_watchdog
from regrow.testing import Harness
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.errors import BadDefinition, BadInput
from regrow_signals.schedules import DeclaredTimer, installed_text, read_declared
from regrow_supervisor.definition import SpecError
from regrow_supervisor.spec_check import check_tree
from regrow_workers.schedules import stored_schedules

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Seen(State):
    ticks: tuple[str, ...] = ()

    def saw(self, signal: Signal) -> Seen:
        return self.evolve(ticks=(*self.ticks, f"{signal.type} {(signal.time or '')[11:19]}"))


class Sweep(Payload, type="sweep"):
    deep: bool = False


class Reporter(Agent[Seen], name="reporter", aliases=("writer",)):
    @every(30)
    def poll(self, seen: Seen, signal: Signal) -> Step[Seen]:
        return seen.saw(signal)

    @cron("*/2 * * * *", tz="Europe/Berlin", missed="one", tag="minutes")
    def report(self, seen: Seen, signal: Signal) -> Step[Seen]:
        return seen.saw(signal)

    @handles("own")
    def own(self, seen: Seen, signal: Signal) -> Step[Seen]:
        return Schedule("timer.poll", after=1, tag=signal.value)

    @handles("cancel")
    def cancel(self, seen: Seen, signal: Signal) -> Step[Seen]:
        return Cancel(signal.value)


# The class.


def test_what_a_class_declares() -> None:
    class Cleaner(Reporter, name="cleaner"):
        @every(timedelta(hours=1), Sweep, missed="all")
        @cron("@daily", Sweep, tag="nightly")
        def sweep(self, seen: Seen, sweep: Sweep) -> Step[Seen]:
            return seen

        @handles("timer.poll")
        def poll(self, seen: Seen, signal: Signal) -> Step[Seen]:
            """Not by a timer any more."""
            return seen

    sweep: Any = {"type": "sweep", "data": '{"deep":false}'}
    assert Cleaner.definition.schedules == (
        DeclaredTimer(
            tag="minutes",
            kind="cron",
            type="timer.report",
            missed="one",
            expression="*/2 * * * *",
            tz="Europe/Berlin",
        ),
        DeclaredTimer(tag="nightly", kind="cron", expression="@daily", tz="UTC", **sweep),
        DeclaredTimer(tag="sweep", kind="every", every_ms=3_600_000, missed="all", **sweep),
    )
    assert Cleaner.definition.code != Reporter.definition.code


def test_the_stored_form_is_part_of_the_tree_and_is_read_again() -> None:
    stored = Supervisor("desk", [Reporter.child("r")]).definition()

    assert stored["schedules"].keys() == {"reporter", "writer"}
    assert read_declared(json.loads(json.dumps(stored["schedules"]["writer"]))) == list(
        Reporter.definition.schedules
    )
    check_tree(stored, "desk")
    assert "schedules" not in Supervisor("empty").definition()


decorators: Any = (every, cron)


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        (lambda: every(0), "@every=0: must be more than 0"),
        (lambda: every(0.01), "every 10 ms: give 0.1 seconds or more"),
        (lambda: every(timedelta(days=9000)), "at most ten years"),
        (lambda: decorators[0]("soon"), "give seconds or a timedelta"),
        (lambda: cron("* * *"), "@cron on .*poll.*: cron expression '. . .': has 3 fields"),
        (lambda: cron("@daily", tz="Nowhere"), "tz='Nowhere' is no time zone"),
        (lambda: decorators[1]("@daily", missed="some"), "missed='some' is none of"),
        (lambda: cron("@daily", tag="not ok"), "tag 'not ok' is not usable"),
        (lambda: every(30, Payload), "Payload names no signal type"),
        (lambda: every(30, Needy), "Needy has fields without a default"),
    ],
)
def test_what_cannot_be_declared_is_refused_at_the_class(mark: Callable[[], Any], told: str) -> None:
    with pytest.raises(BadDefinition, match=told):

        class Wrong(Agent[Seen], name="wrong"):  # pyright: ignore[reportUnusedClass]
            def poll(self, seen: Seen, signal: Any) -> Step[Seen]:
                return seen

            mark()(poll)


class Needy(Payload, type="needy"):
    what: str


def test_two_of_one_tag_are_refused() -> None:
    with pytest.raises(BadDefinition, match="two of @every and @cron have the tag 'poll'"):

        class Twice(Agent[Seen], name="twice"):  # pyright: ignore[reportUnusedClass]
            @every(30)
            @every(40)
            def poll(self, seen: Seen, signal: Signal) -> Step[Seen]:
                return seen


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ({}, "not a list"),
        (["x"], "no JSON object"),
        ([{"tag": "t", "kind": "every", "type": "a", "every_ms": "5"}], "every_ms='5' is no field"),
        ([{"tag": "t", "kind": "every", "type": "a", "every_ms": 5}], "every 5 ms"),
        ([{"tag": "t", "kind": "every"}], "no type in a timer"),
        ([{"tag": "t", "kind": "cron", "type": "a", "expression": "x", "tz": "UTC"}], "has 1 fields"),
        ([{"tag": "t", "kind": "every", "type": "a", "every_ms": 500}] * 2, "two have the same tag"),
        ([{"tag": "t", "kind": "every", "type": "a", "every_ms": 500, "data": "{"}], "JSON"),
    ],
)
def test_a_tree_with_schedules_that_make_no_sense_is_refused(stored: Any, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        check_tree({"children": [], "schedules": {"reporter": stored}}, "desk")


def test_a_directive_may_not_touch_what_the_class_declares() -> None:
    for type_name in ("own", "cancel"):
        with pytest.raises(BadInput, match="the timer 'poll' is declared by @every or @cron"):
            Reporter.cmd(Seen(), Signal.of(type_name, "poll"))
    assert Reporter.cmd(Seen(), Signal.of("own", "mine"))[1] == [Schedule("timer.poll", after=1, tag="mine")]


# Its agents.


def desk(*children: Any, **more: Any) -> Harness:
    return Harness(
        Supervisor("desk", [*children, Supervisor("guests", strategy="dynamic", agents=[Reporter])]),
        now=NOON,
        **more,
    )


def timers(harness: Harness) -> list[str]:
    return harness.client.connection.command(views.timer_ids(harness.client.keys))


def ticks(harness: Harness, agent: str = "r") -> list[str]:
    return list(harness.state(agent, Reporter).ticks)


def hand_in(harness: Harness, **schedules: list[DeclaredTimer]) -> Any:
    """Another version of the code, whose tree declares this."""
    stored: dict[str, Any] = {kind: stored_schedules(declared) for kind, declared in schedules.items()}
    definition = {**harness.tree.definition(), "schedules": stored}
    fields = {"name": "desk", "definition": json.dumps(definition)}
    return ask_watchdog(harness.client.connection, harness.client.keys, "tree", fields)


def test_an_agent_has_its_timers_from_its_registration_on() -> None:
    harness = desk(Reporter.child("r"))
    assert sorted(timers(harness)) == ["r#minutes", "r#poll"]
    assert harness.record("r")["schedules"] == installed_text(Reporter.definition.schedules)

    harness.advance(121)

    polls = [f"timer.poll 12:{at}" for at in ("00:30", "01:00", "01:30", "02:00")]
    assert sorted(ticks(harness)) == sorted([*polls, "timer.report 12:02:00"])


def test_so_has_one_that_comes_at_run_time() -> None:
    harness = desk()
    harness.client.start_child("desk/guests", Reporter.child("guest"))
    harness.client.send("late", "own", "x", create=Reporter.child(under="desk/guests"))
    harness.advance(30)
    assert ticks(harness, "guest") == ["timer.poll 12:00:30"]
    assert "timer.poll 12:00:30" in ticks(harness, "late")


def test_kills_of_agents_and_watchdogs_change_nothing() -> None:
    harness = desk(Reporter.child("r"))
    for _ in range(4):
        harness.kill_watchdog()
        harness.kill("r")
        harness.advance(30)
    assert [tick for tick in ticks(harness) if "poll" in tick] == [
        f"timer.poll 12:{at}" for at in ("00:30", "01:00", "01:30", "02:00")
    ]


def test_what_a_leader_left_undone_is_found_by_the_next() -> None:
    harness = desk(Reporter.child("r"))
    harness.client.connection.command(Command(("HDEL", harness.client.keys.agent("r"), "schedules"), int))
    harness.client.connection.command(Command(("DEL", harness.client.keys.timer("r#poll")), int))
    harness.kill_watchdog()
    harness.advance(60)
    assert "timer.poll 12:00:30" in ticks(harness)


def test_new_code_changes_its_timers_and_leaves_the_rhythm_of_the_others() -> None:
    harness = desk(Reporter.child("r"))
    harness.advance(45)
    minutes = Reporter.definition.schedules[0]

    said = hand_in(
        harness,
        reporter=[minutes, DeclaredTimer(tag="poll", kind="every", type="timer.poll", every_ms=10_000)],
    )
    harness.advance(20)

    assert said == [
        f"the timers that agents of type {kind} declare are other ones" for kind in ("reporter", "writer")
    ]
    assert ticks(harness) == ["timer.poll 12:00:30", "timer.poll 12:00:55", "timer.poll 12:01:05"]
    hand_in(harness, reporter=[minutes])
    harness.advance(60)
    assert timers(harness) == ["r#minutes"]
    assert ticks(harness)[3:] == ["timer.report 12:02:00"]


def test_a_tree_that_was_replaced_brings_its_timers_not_back() -> None:
    harness = desk(Reporter.child("r"))
    hand_in(harness)
    assert timers(harness) == [] and "schedules" not in harness.record("r")

    hand_in(harness, **{name: list(Reporter.definition.schedules) for name in ("reporter", "writer")})
    harness.advance(60)
    assert timers(harness) == [] and ticks(harness) == []


def test_jido_34_a_declared_timer_wins_over_a_stored_one() -> None:
    harness = desk(Reporter.child("r"))
    hand_in(harness)
    key = harness.client.keys
    stored = (
        "HSET",
        key.timer("r#poll"),
        "agent",
        "r",
        "birth",
        harness.record("r")["birth"],
        "kind",
        "once",
    )
    harness.client.connection.command(Command(stored, int))
    harness.client.connection.command(Command(("SADD", key.timers_of("r"), "r#poll"), int))

    hand_in(harness, reporter=[DeclaredTimer(tag="poll", kind="every", type="timer.poll", every_ms=5000)])
    harness.advance(5)

    assert ticks(harness) == ["timer.poll 12:00:05"]
    assert harness.client.connection.command(views.own_timer_ids(key, "r")) == []


def test_an_agent_without_a_supervisor_has_none_and_gets_them_back_with_one() -> None:
    harness = desk()
    harness.client.start_child("desk/guests", Reporter.child("guest"))
    harness.run()
    harness.client.terminate_child("desk/guests", "guest")
    harness.run()
    assert timers(harness) == []

    harness.client.start_child("desk/guests", Reporter.child("guest"))
    harness.advance(30)
    assert ticks(harness, "guest") == ["timer.poll 12:00:30"]


def test_deleted_and_made_anew_it_has_them_again() -> None:
    harness = desk()
    harness.client.start_child("desk/guests", Reporter.child("guest"))
    harness.run()
    harness.client.terminate_child("desk/guests", "guest")
    harness.client.delete("guest", force=True)
    assert timers(harness) == []

    harness.client.send("guest", "own", "x", create=Reporter.child(under="desk/guests"))
    harness.advance(30)
    assert "timer.poll 12:00:30" in ticks(harness, "guest")
