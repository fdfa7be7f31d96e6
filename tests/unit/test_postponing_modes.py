"""Signals that wait for another mode: kept in the mailbox, applied once, in order, whoever is killed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regrow import Agent, Context, Emit, Payload, Reject, Reply, Signal, State, Step, Supervisor, handles
from regrow.errors import BadDefinition, Postponed, WrongMode
from regrow.testing import Harness
from regrow.testing.stepped_worker import KillStep
from regrow_signals.limits import Limits

Isolation = Literal["process", "pool"]
Mode = Literal["shut", "ajar", "open"]
MODES = get_args(Mode)
STEPS = get_args(KillStep)


class Door(State):
    mode: Mode = "shut"
    seen: tuple[str, ...] = ()


class Doors(Agent[Door], name="postponing-doors", mode_field="mode", unhandled_in_mode="postpone"):
    @handles("turn")
    def turn(self, door: Door, signal: Signal) -> Step[Door]:
        return door.evolve(mode=signal.value, seen=(*door.seen, f"turn {signal.value}"))

    @handles("shut.only", mode="shut")
    @handles("ajar.only", mode="ajar")
    @handles("open.only", mode="open")
    @handles("not.shut", mode=["ajar", "open"])
    def note(self, door: Door, signal: Signal) -> Step[Door]:
        return door.evolve(seen=(*door.seen, f"{signal.type} {signal.value}"))

    @handles("open.then.shut", mode="open")
    def close(self, door: Door, signal: Signal) -> Step[Door]:
        return door.evolve(mode="shut", seen=(*door.seen, f"closed by {signal.value}"))

    @handles("open.reject", mode="open")
    def refuse(self, door: Door, signal: Signal) -> Step[Door]:
        raise Reject("as always")

    @handles("open.crash", mode="open")
    def crash(self, door: Door, signal: Signal) -> Step[Door]:
        raise ValueError("as always")

    @handles("open.ask", mode="open")
    def ask(self, door: Door, signal: Signal, ctx: Context) -> Step[Door]:
        return Reply(list(door.seen), to=ctx.reply_to)


TYPES: dict[str, tuple[str, ...]] = {
    "shut.only": ("shut",),
    "ajar.only": ("ajar",),
    "open.only": ("open",),
    "not.shut": ("ajar", "open"),
    "open.then.shut": ("open",),
    "open.reject": ("open",),
    "open.crash": ("open",),
}
"""The modes that handle each type; ``turn`` is for all."""


@dataclass
class Model:
    """What must come of it, as ``gen_statem`` has it: after a change, first those that were postponed."""

    mode: str = "shut"
    seen: list[str] = field(default_factory=list[str])
    dead: list[str] = field(default_factory=list[str])
    postponed: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])

    def run(self, signals: list[tuple[str, Any]]) -> None:
        queue = list(signals)
        while queue:
            kind, value = queue.pop(0)
            before = self.mode
            if kind == "turn":
                self.mode = value
                self.seen.append(f"turn {value}")
            elif self.mode not in TYPES[kind]:
                self.postponed.append((kind, value))
            elif kind == "open.then.shut":
                self.mode = "shut"
                self.seen.append(f"closed by {value}")
            elif kind in ("open.reject", "open.crash"):
                self.dead.append({"open.reject": "rejected", "open.crash": "exception"}[kind])
            else:
                self.seen.append(f"{kind} {value}")
            if self.mode != before:
                queue = [*self.postponed, *queue]
                self.postponed = []


def house(isolation: Isolation, **more: Any) -> Harness:
    door = Doors.child("door", isolation=isolation, max_restarts=1000, max_kills=100, **more)
    return Harness(Supervisor("house", [door], max_restarts=1000))


def door(h: Harness) -> Door:
    return h.state("door", Doors)


EVENTS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(sorted(TYPES))),
    st.tuples(st.just("turn"), st.sampled_from(MODES)),
    st.tuples(st.just("step")),
    st.tuples(st.just("kill"), st.sampled_from(STEPS)),
    st.tuples(st.just("watchdog")),
)


@settings(max_examples=25, deadline=None)
@given(isolation=st.sampled_from(get_args(Isolation)), events=st.lists(EVENTS, max_size=25))
def test_each_signal_is_applied_once_and_in_postponed_order_whatever_is_killed(
    isolation: Isolation, events: list[tuple[str, ...]]
) -> None:
    h = house(isolation)
    sent: list[tuple[str, Any]] = []

    for number, (what, *args) in enumerate(events):
        match what, args:
            case "send", [kind]:
                sent.append((kind, number))
                h.send("door", kind, number)
            case "turn", [mode]:
                sent.append(("turn", mode))
                h.send("door", "turn", mode)
            case "kill", [step]:
                h.kill("door", at=step)  # type: ignore[arg-type]
            case "watchdog", []:
                h.kill_watchdog()
            case _:
                h.step()
    h.run()

    model = Model()
    model.run(sent)
    assert list(door(h).seen) == model.seen
    assert door(h).mode == model.mode
    assert sorted(letter["reason"] for letter in h.dead_letters("door")) == sorted(model.dead)
    assert h.waiting("door") == len(model.postponed) == int(h.record("door").get("postponed") or 0)
    assert h.replay("door").differs_at is None
    assert h.status("door") == ("idle" if isolation == "pool" else "running")


@pytest.mark.parametrize("isolation", get_args(Isolation))
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("lives", [0, 1, 2, 3, 4])
def test_killed_at_each_step_of_a_look_back(isolation: Isolation, step: KillStep, lives: int) -> None:
    h = house(isolation)
    sent = [("open.only", 1), ("ajar.only", 2), ("open.reject", 3), ("open.then.shut", 4), ("open.only", 5)]
    for kind, value in sent:
        h.send("door", kind, value)
    h.run()
    h.send("door", "turn", "open")
    for _ in range(lives):
        h.step()
    h.kill("door", at=step)
    h.run()
    h.send("door", "turn", "ajar")
    h.run()

    model = Model()
    model.run([*sent, ("turn", "open"), ("turn", "ajar")])
    assert list(door(h).seen) == model.seen
    assert h.waiting("door") == len(model.postponed) == 1


def test_a_postponed_signal_is_pending_and_its_reply_comes_when_the_mode_does() -> None:
    h = house("process")
    asked = h.send("door", "open.ask", None)
    known = h.send("door", "open.only", 1, id="o-1")
    h.run()

    assert (asked.status().state, known.status().state) == ("pending", "pending")
    assert h.send("door", "open.only", 1, id="o-1").duplicate
    h.send("door", "turn", "open")
    h.run()
    assert (asked.status().state, known.status().state) == ("applied", "applied")
    assert door(h).seen == ("turn open", "open.only 1")


@pytest.mark.parametrize("isolation", get_args(Isolation))
def test_too_many_are_dead_letters_and_the_signal_that_opens_still_gets_in(isolation: Isolation) -> None:
    h = house(isolation, max_mailbox=6)
    for number in range(5):
        h.send("door", "open.only", number)
        h.run()
    assert [letter["reason"] for letter in h.dead_letters("door")] == ["too_many_postponed"] * 2
    assert h.waiting("door") == 3

    h.send("door", "turn", "open")
    h.run()
    assert door(h).seen == ("turn open", "open.only 0", "open.only 1", "open.only 2")


@pytest.mark.parametrize("isolation", get_args(Isolation))
def test_a_postponed_signal_that_kills_its_process_is_tried_as_often_as_any(isolation: Isolation) -> None:
    h = house(isolation)
    for number in range(3):
        h.send("door", "open.only", number)
    h.run()
    h.send("door", "turn", "open")
    while door(h).mode == "shut":
        h.step()
    h.kill("door", at="in_handler", reason="deadline", times=2)
    h.run()

    assert [(one["reason"], one["data"]) for one in h.dead_letters("door")] == [("max_attempts", "0")]
    assert door(h).seen == ("turn open", "open.only 1", "open.only 2")
    assert h.record("door")["postponed"] == "0"


def test_a_life_that_begins_anew_looks_at_them_again() -> None:
    class Fresh(Doors, name="postponing-fresh"):
        pass

    h = Harness(Supervisor("house", [Fresh.child("door", resume="fresh", max_restarts=10)]))
    h.send("door", "turn", "open")
    h.send("door", "shut.only", 1)
    h.run()
    assert h.waiting("door") == 1
    h.kill("door")
    h.run()
    assert h.state("door", Fresh).seen == ("shut.only 1",)
    assert h.waiting("door") == 0


class Stage(State):
    stage: Literal["draft", "open", "paid"] = "draft"
    log: tuple[str, ...] = ()


class Orders(
    Agent[Stage],
    name="postponing-orders",
    mode_field="stage",
    modes={"draft": ["open"], "open": ["paid"]},
    unhandled_in_mode="postpone",
):
    @handles("opened", mode="draft")
    def open(self, order: Stage, signal: Signal) -> Step[Stage]:
        return order.evolve(stage="open", log=(*order.log, "opened"))

    @handles("paid", mode="open")
    def pay(self, order: Stage, signal: Signal) -> Step[Stage]:
        return order.evolve(stage="paid", log=(*order.log, "paid")), Emit("shipped", to="nobody")


def test_what_no_mode_to_come_handles_does_not_wait() -> None:
    h = Harness(Supervisor("shop", [Orders.child("o")]))
    for kind in ("paid", "opened", "opened", "paid"):
        h.send("o", kind)
    h.run()

    assert h.state("o", Orders).log == ("opened", "paid")
    assert [(letter["reason"], letter["type"]) for letter in h.dead_letters("o")] == [
        ("no_such_agent", "shipped"),
        ("wrong_mode", "opened"),
        ("wrong_mode", "paid"),
    ]
    with pytest.raises(Postponed, match="paid is handled in 'open'"):
        Orders.cmd(Stage(), Signal.of("paid"))
    with pytest.raises(WrongMode) as never:
        Orders.cmd(Stage(stage="open"), Signal.of("opened"))
    assert not isinstance(never.value, Postponed)


class Poke(Payload, type="poke"):
    pass


def test_by_mode() -> None:
    class ByMode(
        Agent[Door], name="postponing-by-mode", mode_field="mode", unhandled_in_mode={"shut": "postpone"}
    ):
        @handles(Poke, mode="open")
        def poke(self, door: Door, poke: Poke) -> Step[Door]:
            return None

    with pytest.raises(Postponed):
        ByMode.cmd(Door(), Poke())
    with pytest.raises(WrongMode) as ajar:
        ByMode.cmd(Door(mode="ajar"), Poke())
    assert not isinstance(ajar.value, Postponed)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("later", "unhandled_in_mode='later' must be 'dead_letter' or 'postpone'"),
        ({"shut": "later"}, "mode 'shut': unhandled_in_mode='later' must be"),
        ({"shu": "postpone"}, "unhandled_in_mode 'shu' is no mode; did you mean 'shut'"),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_class_is_defined(said: Any, told: str) -> None:
    with pytest.raises(BadDefinition, match=told):

        class _Bad(Agent[Door], name="postponing-bad", mode_field="mode", unhandled_in_mode=said):  # pyright: ignore[reportUnusedClass]
            pass


def test_long_lists_are_looked_at_slice_by_slice() -> None:
    def lots() -> Iterator[tuple[str, int]]:
        for number in range(450):
            yield ("ajar.only" if number % 3 else "open.only"), number

    h = Harness(Supervisor("house", [Doors.child("door", isolation="pool")]), limits=Limits(max_mailbox=2000))
    for kind, number in lots():
        h.send("door", kind, number)
    h.send("door", "turn", "open")
    h.run()
    h.send("door", "turn", "ajar")
    h.run()

    model = Model()
    model.run([*lots(), ("turn", "open"), ("turn", "ajar")])
    assert list(door(h).seen) == model.seen
    assert h.waiting("door") == 0
