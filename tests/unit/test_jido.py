"""Scenarios of Jido's own tests, and some that it fails; docs/jido.md says where the others stand.

Pure, or in the Harness. The last tests hold the page's table of scenarios true.
"""

from __future__ import annotations

import re
from typing import get_args

import pytest
from pydantic import Field

from regrow import (
    Agent,
    Context,
    EffectContext,
    Emit,
    Failed,
    Payload,
    Reject,
    Reply,
    Signal,
    State,
    Step,
    Subscribe,
    Supervisor,
    effect,
    handles,
)
from regrow.errors import Unhandled
from regrow.testing import Harness
from regrow.testing.stepped_worker import KillStep
from tests.unit.docs_tables import DOCS

TESTS = DOCS.parent / "tests"
PAGE = (DOCS / "jido.md").read_text()
STEPS = [step for step in get_args(KillStep) if step != "before_claim"]
"""Where an agent that lives already can be killed."""


class Add(Payload, type="add"):
    n: int = 1


class Sum(State):
    total: int = 0
    notes: dict[str, int] = Field(default_factory=dict[str, int])
    heard: tuple[str, ...] = ()


calls: list[int] = []


@effect(name="jido-charge", retries=0)
def charge(run: EffectContext, cents: int) -> int:
    calls.append(cents)
    raise ValueError("the card was refused")


class Counter(Agent[Sum], name="jido-counter"):
    @handles(Add)
    def add(self, state: Sum, add: Add, ctx: Context) -> Step[Sum]:
        total = state.total + add.n
        return state.evolve(total=total), [Emit("seen", state.total, to="b"), Reply(total, to=ctx.reply_to)]

    @handles("note")
    def note(self, state: Sum, signal: Signal) -> Step[Sum]:
        return state.evolve(notes={"new": signal.value}), Emit("noted", to="b")

    @handles("many")
    def many(self, state: Sum, signal: Signal) -> Step[Sum]:
        return state.evolve(total=-1), [Emit("seen", n, to="b") for n in range(signal.value)]

    @handles("buy")
    def buy(self, state: Sum, signal: Signal) -> Step[Sum]:
        return charge.run(signal.value)

    @handles(charge.failed)
    def refused(self, state: Sum, failed: Failed) -> Step[Sum]:
        return state.evolve(heard=(*state.heard, failed.error))

    @handles("listen")
    def listen(self, state: Sum, signal: Signal) -> Step[Sum]:
        return Subscribe("news.*")

    @handles("tell")
    def tell(self, state: Sum, signal: Signal) -> Step[Sum]:
        return Emit("news.today", {})

    @handles("step.a")
    def step_a(self, state: Sum, signal: Signal) -> Step[Sum]:
        return state.evolve(heard=(*state.heard, "a")), Emit("step.b", to="a")

    @handles("step.b")
    def step_b(self, state: Sum, signal: Signal) -> Step[Sum]:
        raise Reject("b fails")

    @handles("step.c", "news.*", "seen", "noted")
    def hear(self, state: Sum, signal: Signal) -> Step[Sum]:
        return state.evolve(heard=(*state.heard, signal.type))

    @handles("break")
    def crash(self, state: Sum, signal: Signal) -> Step[Sum]:
        raise ValueError("broken")


def pair() -> Harness:
    return Harness(Supervisor("jido", [Counter.child("a"), Counter.child("b")]))


def state_of(tree: Harness, agent: str = "a") -> Sum:
    return tree.state(agent, Counter)


def letters(tree: Harness, agent: str = "a") -> list[tuple[str, str]]:
    return [(letter["reason"], letter["type"]) for letter in tree.dead_letters(agent)]


def test_jido_01_each_step_sees_the_state_that_the_one_before_left() -> None:
    state = Sum()
    asked: list[object] = []
    for n in (1, 2, 3):
        state, directives = Counter.cmd(state, Add(n=n))
        asked += [each.data for each in directives if isinstance(each, Emit)]

    assert (state.total, asked) == (6, [0, 1, 3])


def test_jido_02_a_signal_that_nobody_handles_leaves_the_state_and_is_one_dead_letter() -> None:
    with pytest.raises(Unhandled, match="never\\.heard"):
        Counter.cmd(Sum(), Signal.of("never.heard"))

    tree = pair()
    tree.send("a", "never.heard")
    tree.run()

    assert (letters(tree), state_of(tree), tree.incarnation("a")) == (
        [("unhandled", "never.heard")],
        Sum(),
        1,
    )


def test_jido_03_data_that_does_not_fit_leaves_the_state_and_is_one_dead_letter() -> None:
    tree = pair()
    tree.send("a", "add", {"n": "many"})
    tree.run()

    assert (letters(tree), state_of(tree), tree.incarnation("a")) == ([("bad_data", "add")], Sum(), 1)


def test_jido_04_only_what_is_to_be_done_is_a_directive_and_a_field_is_replaced_whole() -> None:
    state, directives = Counter.cmd(Sum(total=4, notes={"old": 1}), Signal.of("note", 7))

    assert (state.total, state.notes) == (4, {"new": 7}), "nothing is merged"
    assert directives == [Emit("noted", to="b")]


def test_jido_06_without_retries_an_effect_that_fails_has_run_once() -> None:
    calls.clear()
    tree = pair()
    tree.send("a", "buy", 5)
    tree.run()
    tree.run_effects()
    tree.advance(3600)

    assert (calls, tree.effects(), tree.run_effects()) == ([5], [], 0)


@pytest.mark.parametrize("step", STEPS)
def test_jido_12_of_a_send_and_an_ask_at_once_neither_is_lost(step: KillStep) -> None:
    tree = pair()
    tree.send("a", Add(n=1))
    tree.kill("a", at=step)

    assert tree.client.ask("a", Add(n=10)) == 11
    assert (state_of(tree).total, letters(tree), tree.incarnation("a")) == (11, [], 2)


def test_jido_13_more_directives_than_the_bound_are_refused_before_anything_changes() -> None:
    tree = pair()
    tree.send("a", "many", 1001)
    tree.run()

    assert letters(tree) == [("too_many_directives", "many")]
    assert (state_of(tree), state_of(tree, "b"), tree.waiting("b")) == (Sum(), Sum(), 0)


def test_jido_15_an_emit_without_a_target_reaches_its_agent_if_that_subscribes() -> None:
    tree = pair()
    for what in ("tell", "listen", "tell"):
        tree.send("a", what)
        tree.run()

    assert (state_of(tree).heard, state_of(tree, "b").heard) == (("news.today",), ())


def test_jido_17_the_third_error_is_one_too_many_and_costs_nobody_else() -> None:
    sick = Counter.child("a", max_restarts=2, max_seconds=60)
    tree = Harness(Supervisor("jido", [sick, Counter.child("b")]))
    seen: list[str] = []
    for _ in range(3):
        tree.send("a", "break")
        tree.run()
        seen.append(tree.status("a"))

    assert seen == ["running", "running", "parked"]
    assert (tree.status("b"), tree.incarnation("b")) == ("running", 1)


def test_jido_41_after_its_tries_it_is_a_dead_letter_and_is_delivered_when_it_is_tried_again() -> None:
    tree = pair()
    tree.kill("a", at="in_handler", times=2, reason="deadline")
    tree.send("a", Add(n=5))
    tree.send("b", "never.heard")
    tree.run()
    [(place, letter)] = tree.client.dead_letters("a")
    assert (letter["reason"], state_of(tree).total) == ("max_attempts", 0)

    tree.client.dead_retry("a", place)
    tree.run()

    assert (state_of(tree).total, letters(tree), len(letters(tree, "b"))) == (5, [], 1)


def test_jido_43_what_a_failed_step_would_have_sent_is_not_sent() -> None:
    tree = pair()
    tree.send("a", "step.a")
    tree.run()

    assert (state_of(tree).heard, letters(tree)) == (("a",), [("rejected", "step.b")])


def test_jido_43_the_first_error_is_what_is_told_of_a_failed_effect() -> None:
    tree = pair()
    tree.send("a", "buy", 5)
    tree.run()
    tree.run_effects()
    tree.run()

    [heard] = state_of(tree).heard
    assert "the card was refused" in heard


@pytest.mark.parametrize("step", STEPS)
def test_jido_b01_what_a_commit_asked_for_is_done_whenever_its_process_dies(step: KillStep) -> None:
    tree = pair()
    tree.kill("a", at=step)
    tree.send("a", Add(n=5))
    tree.send("a", "buy", 5)
    tree.run()

    assert (state_of(tree).total, state_of(tree, "b").heard, tree.incarnation("a")) == (5, ("seen",), 2)
    assert [asked.name for asked in tree.effects("a")] == ["jido-charge"]


SCENARIO = re.compile(r"^\| (B?\d+) \| (.+?) \| (.+?) \|$", re.MULTILINE)
NAMED = re.compile(r"`(test_\w+)`")


def test_the_page_has_every_scenario_once_with_a_test_or_the_reason_why_not() -> None:
    rows = {number: where for number, _, where in SCENARIO.findall(PAGE)}

    assert [n for n, _, _ in SCENARIO.findall(PAGE)] == [
        *map(str, range(1, 44)),
        *(f"B{n}" for n in range(1, 19)),
    ]
    assert [
        n for n, where in rows.items() if not NAMED.search(where) and "no counterpart:" not in where
    ] == []


def _tests() -> set[str]:
    return {
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text())
    }


def test_every_test_that_the_page_names_exists() -> None:
    named = set(NAMED.findall(PAGE))

    assert len(named) > 40
    assert named - _tests() == set()


def test_every_test_with_a_scenarios_number_is_on_the_page() -> None:
    numbered = {name for name in _tests() if re.match(r"test_jido_b?\d", name)}

    assert numbered - set(NAMED.findall(PAGE)) == set()
