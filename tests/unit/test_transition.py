"""The pure transition: every row of the outcome table, through ``transition.apply`` and through ``cmd``."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import Field

from regrow_signals.errors import BadInput, BadPayload, ImpureHandler, NotStrictJSON, Reject, Unhandled
from regrow_signals.limits import Limits
from regrow_signals.signal import Payload, Signal
from regrow_workers import transition
from regrow_workers.agent import Agent
from regrow_workers.context import Context
from regrow_workers.directives import Directive, Emit, Stop
from regrow_workers.handlers import handles
from regrow_workers.outcomes import (
    BadData,
    Crashed,
    NewState,
    Rejected,
    Unchanged,
    UnhandledType,
    Unstorable,
)
from regrow_workers.state import State, encode_state
from regrow_workers.step import Step


class Do(Payload, type="do"):
    what: str
    n: int = 0


class Memory(State):
    n: int = 0
    names: list[str] = Field(default_factory=list[str])
    anything: Any = None


class Stranger(State):
    n: int = 0


class Actor(Agent[Memory], name="actor"):
    @handles(Do)
    def do(self, memory: Memory, do: Do, ctx: Context) -> Step[Memory]:
        action: Any = getattr(self, f"do_{do.what}")
        step: Step[Memory] = action(memory, ctx)
        return step

    @handles("look.**")
    def look(self, memory: Memory, signal: Signal) -> Step[Memory]:
        return memory.evolve(names=[signal.type, signal.id, str(signal.value)])

    def do_state(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return memory.evolve(n=memory.n + 1)

    def do_same(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return memory

    def do_nothing(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return None

    def do_emit(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return Emit("a", to="x")

    def do_emits(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return [Emit("a", to="x"), Emit("b", to="y")]

    def do_emit_tuple(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return Emit("a", to="x"), Emit("b", to="y")

    def do_both(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return memory.evolve(n=1), Emit("a", to="x"), Emit("b", to="y")

    def do_both_list(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return memory.evolve(n=1), [Emit("a", to="x"), Emit("b", to="y")]

    def do_state_alone_in_tuple(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return (memory.evolve(n=1),)

    def do_empty(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return ()

    def do_stop(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return memory.evolve(n=1), Stop("shutdown:done")

    def do_reject(self, memory: Memory, ctx: Context) -> Step[Memory]:
        raise Reject("not on\nSundays")

    def do_crash(self, memory: Memory, ctx: Context) -> Step[Memory]:
        secret = "hunter2"
        return memory.evolve(n=dict[str, int]()[secret[:3]])

    def do_exit(self, memory: Memory, ctx: Context) -> Step[Memory]:
        raise SystemExit(3)

    def do_recurse(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return self.do_recurse(memory, ctx)

    def do_misspell(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return memory.evolve(nn=1)

    def do_dict(self, memory: Memory, ctx: Context) -> Any:
        return {"n": 1}

    def do_stranger(self, memory: Memory, ctx: Context) -> Any:
        return Stranger()

    def do_state_last(self, memory: Memory, ctx: Context) -> Any:
        return Emit("a", to="x"), memory

    def do_none_inside(self, memory: Memory, ctx: Context) -> Any:
        return memory, None

    def do_mutate(self, memory: Memory, ctx: Context) -> Step[Memory]:
        memory.names.append("x")
        return None

    def do_mutate_and_reject(self, memory: Memory, ctx: Context) -> Step[Memory]:
        memory.names.append("x")
        raise Reject("no")

    def do_mutate_and_evolve(self, memory: Memory, ctx: Context) -> Step[Memory]:
        memory.names.append("x")
        return memory.evolve(n=2)

    def do_nan(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return memory.evolve(anything=float("nan"))

    def do_big(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return memory.evolve(anything="x" * 2_000)

    def do_many(self, memory: Memory, ctx: Context) -> Step[Memory]:
        return [Emit("a", to="x")] * 11


def do(what: str) -> Signal:
    return Signal.of(Do(what=what), id="s-1")


LIMITS = Limits(max_state_bytes=1_000, max_directives=10)
TWO = [Emit("a", to="x"), Emit("b", to="y")]


@pytest.mark.parametrize(
    ("what", "n", "directives"),
    [
        ("state", 1, []),
        ("same", 0, []),
        ("nothing", 0, []),
        ("emit", 0, TWO[:1]),
        ("emits", 0, TWO),
        ("emit_tuple", 0, TWO),
        ("both", 1, TWO),
        ("both_list", 1, TWO),
        ("state_alone_in_tuple", 1, []),
        ("empty", 0, []),
        ("stop", 1, [Stop("shutdown:done")]),
    ],
)
def test_every_form_of_a_step(what: str, n: int, directives: list[Directive]) -> None:
    state, found = Actor.cmd(Memory(), Do(what=what))

    assert (state.n, found) == (n, directives)


@pytest.mark.parametrize("what", ["state", "both", "stop"])
def test_a_new_state_comes_with_its_stored_form(what: str) -> None:
    outcome = transition.apply(Actor, Memory(), do(what))

    assert isinstance(outcome, NewState)
    assert outcome.encoded == encode_state(outcome.state)


@pytest.mark.parametrize("what", ["nothing", "emit", "emits", "empty"])
def test_without_a_new_state_the_outcome_is_unchanged(what: str) -> None:
    assert isinstance(transition.apply(Actor, Memory(), do(what)), Unchanged)


def test_no_handler() -> None:
    signal = Signal.of("unknown.type")

    outcome = transition.apply(Actor, Memory(), signal)

    assert outcome == UnhandledType(
        "agent type 'actor' has no handler for 'unknown.type'; it handles do, look.**"
    )
    with pytest.raises(Unhandled, match=r"'actor' has no handler for 'unknown\.type'"):
        Actor.cmd(Memory(), signal)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, "Do: what: Field required"),
        (None, "Do: "),
        ([], "Do: "),
        ({"what": 1}, "Do: what: .*valid string"),
        ({"what": "state", "more": 1}, "Do: more: "),
        ({"what": "state", "n": "x"}, "Do: n: .*valid integer"),
    ],
)
def test_data_that_does_not_fit(data: Any, told: str) -> None:
    signal = Signal.of("do", data)

    outcome = transition.apply(Actor, Memory(), signal)

    assert isinstance(outcome, BadData)
    with pytest.raises(BadPayload, match=told) as refused:
        Actor.cmd(Memory(), signal)
    assert str(refused.value) == outcome.why


def test_reject_carries_its_reason_as_one_line() -> None:
    assert transition.apply(Actor, Memory(), do("reject")) == Rejected("not on Sundays")
    with pytest.raises(Reject, match="not on"):
        Actor.cmd(Memory(), Do(what="reject"))


def test_an_exception_is_a_crash_with_a_trace_without_local_values() -> None:
    outcome = transition.apply(Actor, Memory(), do("crash"))

    assert isinstance(outcome, Crashed)
    assert outcome.reason == "exception:KeyError: 'hun'"
    assert "do_crash" in outcome.trace and "test_transition.py" in outcome.trace
    assert "hunter2" not in outcome.trace
    assert "regrow_workers/transition.py" not in outcome.trace
    with pytest.raises(KeyError):
        Actor.cmd(Memory(), Do(what="crash"))


def test_a_recursion_is_a_crash_of_bounded_length() -> None:
    outcome = transition.apply(Actor, Memory(), do("recurse"))

    assert isinstance(outcome, Crashed)
    assert isinstance(outcome.exception, RecursionError)
    assert len(outcome.trace) < 5_000


def test_an_exit_is_not_caught() -> None:
    with pytest.raises(SystemExit):
        transition.apply(Actor, Memory(), do("exit"))


def test_an_unknown_field_in_evolve_is_the_handlers_crash() -> None:
    outcome = transition.apply(Actor, Memory(), do("misspell"))

    assert isinstance(outcome, Crashed)
    assert "no field 'nn'; did you mean 'n'?" in outcome.reason


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("dict", r"Actor\.do\(\) returned a value of type dict: return a state, directives"),
        ("stranger", r"returned a Stranger as its state; it must be a Memory"),
        ("state_last", "returned a value of type Memory among its directives; the state comes first"),
        ("none_inside", "returned a value of type NoneType among its directives"),
    ],
)
def test_what_is_no_step_is_refused(what: str, told: str) -> None:
    outcome = transition.apply(Actor, Memory(), do(what))

    assert isinstance(outcome, Crashed) and isinstance(outcome.exception, ImpureHandler)
    with pytest.raises(ImpureHandler, match=told):
        Actor.cmd(Memory(), Do(what=what))


@pytest.mark.parametrize("what", ["mutate", "mutate_and_evolve"])
def test_a_changed_input_is_an_error_that_names_the_field(what: str) -> None:
    memory = Memory(names=["a"])

    outcome = transition.apply(Actor, memory, do(what), before=encode_state(memory))

    assert isinstance(outcome, Crashed) and isinstance(outcome.exception, ImpureHandler)
    with pytest.raises(ImpureHandler, match=r"Actor\.do\(\) changed names in the state it was given"):
        Actor.cmd(Memory(), Do(what=what))


def test_without_checks_a_changed_input_is_not_looked_for() -> None:
    assert isinstance(transition.apply(Actor, Memory(), do("mutate")), Unchanged)


@pytest.mark.parametrize(
    ("what", "reason", "told"),
    [
        ("nan", "not_strict_json", "Memory"),
        ("big", "state_too_large", "max_state is 1,000"),
        ("many", "too_many_directives", "11 directives; 10 are allowed"),
    ],
)
def test_what_cannot_be_stored_is_refused_whole(what: str, reason: str, told: str) -> None:
    outcome = transition.apply(Actor, Memory(), do(what), limits=LIMITS)

    assert isinstance(outcome, Unstorable)
    assert outcome.reason == reason and told in outcome.why


def test_cmd_refuses_a_state_that_cannot_be_stored() -> None:
    with pytest.raises(NotStrictJSON):
        Actor.cmd(Memory(), Do(what="nan"))


def test_cmd_wants_the_agents_own_state() -> None:
    wrong: Any = Stranger()
    with pytest.raises(BadInput, match=r"Actor\.cmd: the state must be a Memory"):
        Actor.cmd(wrong, Do(what="state"))


def test_a_pattern_handler_is_given_the_signal() -> None:
    state, _ = Actor.cmd(Memory(), Signal.of("look.here", {"a": 1}, id="s-9"))

    assert state.names == ["look.here", "s-9", "{'a': 1}"]


class Clock(State):
    seen: tuple[str, ...] = ()


class Timekeeper(Agent[Clock], name="timekeeper"):
    @handles("**")
    def any_of(self, clock: Clock, signal: Signal, ctx: Context) -> Step[Clock]:
        chance = [
            str(ctx.random.random()),
            str(ctx.random.randint(0, 10**9)),
            str(ctx.uuid()),
            str(ctx.uuid()),
        ]
        told = [ctx.agent_id, ctx.signal.id, ctx.now.isoformat(), str(ctx.parent), str(ctx.reply_to)]
        return clock.evolve(seen=(*told, *chance))


def seen(ctx: Context | None = None) -> Sequence[str]:
    return Timekeeper.cmd(Clock(), Signal.of("x", id="s-1"), ctx=ctx)[0].seen


def test_the_default_context_gives_the_same_answer_every_time() -> None:
    assert seen() == seen()
    assert seen()[:3] == ("timekeeper", "s-1", "2020-01-01T00:00:00+00:00")


def test_a_context_of_ones_own() -> None:
    signal = Signal.of("x", id="s-1")
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)

    found = seen(Context.example(signal, agent_id="me", now=now, parent="boss", reply_to="r-1"))

    assert found[:5] == ("me", "s-1", "2026-11-30T12:00:00+00:00", "boss", "r-1")


def test_chance_comes_from_the_seed() -> None:
    signal = Signal.of("x", id="s-1")

    one, same, other = (seen(Context.example(signal, seed=seed))[5:] for seed in ("1", "1", "2"))

    assert one == same
    assert set(one).isdisjoint(other)


def test_uuids_differ_and_do_not_depend_on_other_chance() -> None:
    signal = Signal.of("x")
    plain, used = Context.example(signal), Context.example(signal)
    used.random.random()

    first, second = plain.uuid(), plain.uuid()

    assert first != second
    assert isinstance(first, uuid.UUID) and first.version == 4
    assert [used.uuid(), used.uuid()] == [first, second]


def test_chance_is_the_same_on_every_machine() -> None:
    context = Context("a", lambda: Signal.of("x"), at_ms=0, seed="birth:1-0")

    assert (context.random.randint(0, 10**6), str(context.uuid())) == (
        context_of_today().random.randint(0, 10**6),
        str(context_of_today().uuid()),
    )


def context_of_today() -> Context:
    return Context("b", lambda: Signal.of("y"), at_ms=1, seed="birth:1-0")
