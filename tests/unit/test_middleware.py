"""Middleware: hooks around transitions and emits; in which order, and what comes of one that raises."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# (hooks of a line are what most of these tests are about)
from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from pydantic import Field

from regrow import (
    Agent,
    Ask,
    Context,
    Directive,
    Emit,
    Middleware,
    Payload,
    Reject,
    Reply,
    Signal,
    State,
    Step,
    Supervisor,
    every,
    handles,
)
from regrow.errors import BadDefinition, BadPayload, ImpureHandler, Unhandled
from regrow.testing import Harness, check_transition
from regrow_signals.limits import Limits
from regrow_workers.context import Context as WorkersContext
from regrow_workers.outcomes import BadData, Crashed, HookFailed, NewState, Rejected
from regrow_workers.transition import apply


class Added(Payload, type="added"):
    n: int = 1


class Sum(State):
    total: int = 0
    notes: list[str] = Field(default_factory=list[str])


class Heard(State):
    heard: tuple[str, ...] = ()


@dataclass(frozen=True)
class Note(Middleware[State]):
    """Puts its name into everything that it may change, so that the order can be read."""

    name: str

    def before(self, state: State, signal: Signal, ctx: Context) -> Signal | None:
        return replace(signal, subject=f"{signal.subject or ''}{self.name}")

    def after(
        self, state: State, signal: Signal, new_state: State, directives: Sequence[Directive], ctx: Context
    ) -> Sequence[Directive]:
        return [*directives, Emit("after", self.name, to="log")]

    def on_error(self, state: State, signal: Signal, error: Exception, ctx: Context) -> Emit:
        return Emit("error", f"{self.name}: {type(error).__name__}: {error}", to="log")

    def on_emit(self, emit: Emit, ctx: Context) -> Emit:
        return Emit(emit.type, f"{emit.data}>{self.name}", to=emit.to)


class Adder(Agent[Sum], name="mw-adder", middleware=(Note("a"), Note("b")), on_error="crash"):
    @handles(Added)
    def add(self, state: Sum, added: Added, ctx: Context) -> Step[Sum]:
        return state.evolve(total=state.total + added.n), Emit("added", ctx.signal.subject, to="log")

    @handles("fail")
    def fail(self, state: Sum, signal: Signal) -> Step[Sum]:
        raise KeyError("no")

    @handles("reject")
    def reject(self, state: Sum, signal: Signal) -> Step[Sum]:
        raise Reject("not today")


class Log(Agent[Heard], name="mw-log"):
    @handles("**")
    def hear(self, state: Heard, signal: Signal) -> Step[Heard]:
        return state.evolve(heard=(*state.heard, f"{signal.type} {signal.value}"))


def test_jido_20_rewrites_chain_in_the_order_of_declaration_and_the_handler_sees_the_final_signal() -> None:
    state, directives = Adder.cmd(Sum(), Added(n=2))

    assert state.total == 2
    # In: a, then b. Out: b, then a; each changes what was emitted inside of it.
    assert directives == [
        Emit("added", "ab>b>a", to="log"),
        Emit("after", "b>b>a", to="log"),
        Emit("after", "a>a", to="log"),
    ]


def hooked(middleware: Middleware[Any], *more: Middleware[Any]) -> type[Agent[Sum]]:
    class Hooked(Adder, name="mw-hooked", middleware=(middleware, *more)):
        pass

    return Hooked


def only(**hooks: Callable[..., object]) -> Middleware[Any]:
    """Middleware made of functions that take what the hooks do, without self."""
    made = {name: staticmethod(hook) for name, hook in hooks.items()}
    return cast("Middleware[Any]", type("Only", (Middleware,), made)())


def boom(*given: object) -> Any:
    raise RuntimeError("boom")


def test_base_classes_are_outside_of_a_class_and_mixins_count() -> None:
    class Mixin(Agent[Sum], abstract=True, middleware=(Note("m"),)):
        pass

    class Joined(Adder, Mixin, name="mw-joined", middleware=(Note("own"),)):
        pass

    _, directives = Joined.cmd(Sum(), Added())

    assert directives[0] == Emit("added", "mabown>own>b>a>m", to="log")


def test_a_payload_in_the_signals_place_finds_another_handler() -> None:
    """An old type's signals, without a handler of their own."""
    agent = hooked(only(before=lambda state, signal, ctx: Added(n=5) if signal.type == "old" else None))

    assert agent.cmd(Sum(), Signal.of("old"))[0].total == 5
    assert agent.cmd(Sum(), Added(n=1))[0].total == 1


def test_without_an_answer_all_is_as_it_was() -> None:
    class Silent(
        Agent[Sum],
        name="mw-silent",
        middleware=(only(**dict.fromkeys(("before", "after", "on_emit"), nothing)),),
    ):
        @handles(Added)
        def add(self, state: Sum, added: Added) -> Step[Sum]:
            return state.evolve(total=added.n), Emit("x", to="log")

    assert Silent.cmd(Sum(), Added(n=3)) == (Sum(total=3), [Emit("x", to="log")])


def nothing(*given: object) -> None:
    return None


@pytest.mark.parametrize("name", ["before", "after", "on_emit"])
def test_jido_21_a_hook_that_raises_refuses_that_signal_and_changes_nothing(name: str) -> None:
    agent = hooked(only(**{name: boom}))
    house = Harness(Supervisor("house", [agent.child("adder"), Log.child("log")]))
    house.send("adder", Added(n=7))
    house.run()

    assert house.state("adder", agent) == Sum()
    assert house.incarnation("adder") == 1 and house.status("adder") == "running"
    [letter] = house.dead_letters("adder")
    assert letter["reason"] == "middleware"
    assert f"Only.{name}() raised: " in letter["error"] and "RuntimeError: boom" in letter["error"]


def test_what_is_outside_of_an_error_hears_of_it_from_the_inside_out() -> None:
    outcome = apply(Adder, Sum(), Signal.of("fail"))

    assert isinstance(outcome, Crashed)
    assert [emit.data for emit in outcome.alerts] == ["b: KeyError: 'no'>b>a", "a: KeyError: 'no'>a"]
    with pytest.raises(KeyError, match="no"):
        Adder.cmd(Sum(), Signal.of("fail"))


def test_a_hook_outside_hears_of_one_inside_that_raised_and_not_of_its_own() -> None:
    heard: list[str] = []

    def hear(state: State, signal: Signal, error: Exception, ctx: Context) -> None:
        heard.append(str(error))

    inner = hooked(only(on_error=hear), only(before=boom, on_error=hear))
    assert isinstance(apply(inner, Sum(), Signal.of("added", {})), HookFailed)
    assert heard == ["boom"]


@pytest.mark.parametrize(
    ("what", "kind", "told"),
    [
        (Signal.of("reject"), Rejected, "Reject: not today"),
        (Signal.of("added", {"n": "x"}), BadData, "BadPayload: Added: n: "),
    ],
)
def test_refusals_are_told_too(what: Signal, kind: type, told: str) -> None:
    outcome = apply(Adder, Sum(), what)

    assert isinstance(outcome, kind)
    assert f"b: {told}" in cast("Any", outcome).alerts[0].data


def test_a_signal_that_nobody_handles_is_no_error_of_a_handler() -> None:
    agent = hooked(only(on_error=boom))
    with pytest.raises(Unhandled):
        agent.cmd(Sum(), Signal.of("never.heard"))


def test_reject_in_a_hook_is_a_refusal_with_its_words() -> None:
    def only_small(state: Sum, signal: Signal, ctx: Context) -> None:
        if signal.value["n"] > 3:
            raise Reject("at most 3")

    agent = hooked(only(before=only_small))
    assert isinstance(apply(agent, Sum(), Signal.of("added", {"n": 3})), NewState)
    outcome = apply(agent, Sum(), Signal.of("added", {"n": 4}))
    assert isinstance(outcome, Rejected) and outcome.why == "at most 3"


def test_what_on_error_emits_is_sent_beside_the_dead_letter() -> None:
    house = Harness(Supervisor("house", [Adder.child("adder"), Log.child("log")]))
    for what in (Added(n=1), Signal.of("reject"), Added(n=2)):
        house.send("adder", what)
    house.run()

    assert house.state("adder", Adder).total == 3
    assert [letter["reason"] for letter in house.dead_letters("adder")] == ["rejected"]
    heard = house.state("log", Log).heard
    assert [line for line in heard if line.startswith("error")] == [
        "error b: Reject: not today>b>a",
        "error a: Reject: not today>a",
    ]
    assert house.replay("adder").differs_at is None


def test_a_replay_runs_the_hooks_again() -> None:
    house = Harness(Supervisor("house", [Adder.child("adder"), Log.child("log")]))
    for n in range(3):
        house.send("adder", Added(n=n))
    house.run()

    steps = house.replay("adder").steps
    assert [step.again for step in steps] == ["applied"] * 3
    assert not any(step.differs for step in steps)
    check_transition(Adder, [Sum(), Sum(total=3)], [Added(n=1)])


@pytest.mark.parametrize(
    ("name", "value"), [("id", "other"), ("replyto", "client:x"), ("hops", 9), ("causationid", "x")]
)
def test_jido_22_what_must_stay_of_a_signal_cannot_be_changed(name: str, value: object) -> None:
    agent = hooked(only(before=lambda state, signal, ctx: replace(signal, **{name: value})))
    with pytest.raises(ImpureHandler, match=f"Only.before\\(\\) changed the signal's {name}"):
        agent.cmd(Sum(), Added())
    assert isinstance(apply(agent, Sum(), Signal.of("added", {})), HookFailed)


@pytest.mark.parametrize(
    ("hooks", "told"),
    [
        ({"before": lambda *given: 5}, r"before\(\) returned a int: a Signal, a Payload, or None"),
        ({"before": lambda state, signal, ctx: replace(signal, data="{")}, "not JSON|JSON"),
        ({"before": lambda state, signal, ctx: replace(signal, type="a b")}, "type"),
        ({"after": lambda *given: 5}, r"after\(\) returned a int: Directive objects, or None"),
        ({"after": lambda *given: [5]}, r"after\(\) returned a int among its Directive objects"),
        ({"on_emit": lambda *given: 5}, r"on_emit\(\) returned a int for an Emit"),
    ],
)
def test_what_a_hook_cannot_answer_refuses_the_signal(hooks: dict[str, Any], told: str) -> None:
    outcome = apply(hooked(only(**hooks)), Sum(), Signal.of("added", {}))
    assert isinstance(outcome, HookFailed)
    assert outcome.why and re.search(told, outcome.why)


def test_an_ask_stays_an_ask() -> None:
    class Asker(Agent[Sum], name="mw-asker", middleware=(Note("n"),)):
        @handles("go")
        def go(self, state: Sum, signal: Signal) -> Step[Sum]:
            return Ask("question", to="log", tag="t")

    with pytest.raises(ImpureHandler, match="returned a Emit for an Ask"):
        Asker.cmd(Sum(), Signal.of("go"))


def test_jido_23_a_reply_is_transformed_for_the_caller_and_the_state_is_not() -> None:
    def in_euros(
        state: Sum, signal: Signal, new: Sum, directives: Sequence[Directive], ctx: Context
    ) -> Sequence[Directive]:
        return [Reply(f"{one.value} EUR", to=one.to) if isinstance(one, Reply) else one for one in directives]

    class Teller(Agent[Sum], name="mw-teller", middleware=(only(after=in_euros),)):
        @handles(Added)
        def add(self, state: Sum, added: Added, ctx: Context) -> Step[Sum]:
            new = state.evolve(total=state.total + added.n)
            return new, Reply(new.total, to=ctx.reply_to)

    signal = Signal.of(Added(n=4), replyto="somewhere")
    asked = WorkersContext.example(signal, reply_to="somewhere")
    assert Teller.cmd(Sum(), signal, ctx=asked) == (Sum(total=4), [Reply("4 EUR", to="somewhere")])
    assert Teller.cmd(Sum(), Added(n=4)) == (Sum(total=4), [Reply("4 EUR", to=None)])


def test_hooks_are_guarded_as_handlers_are() -> None:
    agent = hooked(only(before=lambda *given: time.time()))
    with pytest.raises(
        ImpureHandler, match=r"Only.before\(\): time.time\(\) in a hook is refused; use ctx.now"
    ):
        agent.cmd(Sum(), Added())


def test_a_hook_that_changes_the_state_it_was_given_is_found() -> None:
    agent = hooked(only(before=lambda state, signal, ctx: state.notes.append("x")))
    with pytest.raises(
        ImpureHandler, match=r"Adder.add\(\) or its middleware changed notes|middleware changed notes"
    ):
        agent.cmd(Sum(), Added())


def test_middleware_holds_nothing() -> None:
    class Counting(Middleware[State]):
        def __init__(self) -> None:
            self.n = 0

        def before(self, state: State, signal: Signal, ctx: Context) -> None:
            self.n += 1

    with pytest.raises(ImpureHandler, match=r"Counting\.n was set: middleware holds nothing between signals"):
        hooked(Counting()).cmd(Sum(), Added())


def test_chance_goes_on_behind_a_hook() -> None:
    class Dice(
        Agent[Heard],
        name="mw-dice",
        middleware=(only(before=lambda s, signal, ctx: replace(signal, subject=str(ctx.uuid()))),),
    ):
        @handles("throw")
        def throw(self, state: Heard, signal: Signal, ctx: Context) -> Step[Heard]:
            return state.evolve(heard=(str(signal.subject), str(ctx.uuid())))

    state, _ = Dice.cmd(Heard(), Signal.of("throw"))
    assert len(set(state.heard)) == 2
    assert Dice.cmd(Heard(), Signal.of("throw"))[0] == state


def test_a_declared_timer_cannot_be_set_by_a_hook_either() -> None:
    from regrow import Cancel

    class Ticking(Agent[Sum], name="mw-ticking", middleware=(only(after=lambda *given: [Cancel("tick")]),)):
        @every(5)
        @handles("tick")
        def tick(self, state: Sum, signal: Signal) -> Step[Sum]:
            return None

    assert isinstance(apply(Ticking, Sum(), Signal.of("tick")), HookFailed)


def test_too_many_directives_of_hooks_are_too_many() -> None:
    agent = hooked(only(after=lambda *given: [Emit("x", to="log")] * 5))
    outcome = apply(agent, Sum(), Signal.of("added", {}), limits=Limits(max_directives=5))
    assert "too_many_directives" in repr(outcome)


class Plain(Middleware[State]):
    def before(self, state: State, signal: Signal, ctx: Context) -> None:
        return None


class Wide(State):
    pass


class OfWide(Middleware[Wide]):
    def before(self, state: Wide, signal: Signal, ctx: Context) -> None:
        return None


def class_of(**members: object) -> Any:
    return type("Bad", (Middleware,), members)()


async def waits(self: object, state: object, signal: object, ctx: object) -> None:
    return None


SHARED = Plain()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Plain, r"middleware=Plain: write middleware=\(Plain\(\),\)"),
        (Plain(), r"must be a tuple, such as \(Audit\(\),\)"),
        ((Plain,), r"holds the class Plain; write Plain\(\)"),
        ((5,), "holds 5, which is no Middleware object"),
        ((class_of(),), "has no hook; write one of before, after, on_error, on_emit"),
        ((class_of(befor=boom),), "has no hook.*did you mean 'before'"),
        (
            (class_of(before=lambda self, signal: None),),
            r"does not fit; write before\(self, state, signal, ctx\)",
        ),
        ((class_of(before=waits),), "is an async def; a hook is pure"),
        ((OfWide(),), r"is a Middleware\[Wide\]; the state here is a Sum"),
        ((SHARED, SHARED), "the same object is there twice"),
    ],
)
def test_what_can_never_work_is_refused_when_the_class_is_defined(given: Any, told: str) -> None:
    with pytest.raises(BadDefinition, match=told):

        class _Bad(Agent[Sum], name="mw-bad", middleware=given):  # pyright: ignore[reportUnusedClass]
            pass


def test_its_code_is_a_part_of_the_agents() -> None:
    assert hooked(only(before=boom)).definition.code != hooked(only(before=nothing)).definition.code
    assert hooked(only(before=boom)).definition.code == hooked(only(before=boom)).definition.code


def test_bad_payload_is_raised_as_without_middleware() -> None:
    with pytest.raises(BadPayload, match="Added: n: "):
        Adder.cmd(Sum(), Signal.of("added", {"n": "x"}))
