"""Effects: typed by the function's annotations, JSON both ways, wrong definitions refused where they are written."""

# pyright: reportUnusedClass=false, reportUnusedFunction=false
# (functions that must be refused are defined for that alone)
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel, Field

from regrow_signals.errors import BadDefinition, BadInput, BadPayload, NotStrictJSON, TooLarge
from regrow_signals.limits import Limits
from regrow_signals.signal import Signal
from regrow_workers.agent import Agent
from regrow_workers.directives import EffectRun
from regrow_workers.effects.effect import EffectContext, effect, registered_effects
from regrow_workers.effects.outcome_payloads import Done, Failed, InDoubt
from regrow_workers.handlers import handles
from regrow_workers.state import State
from regrow_workers.step import Step


class Receipt(BaseModel):
    number: int


@effect(timeout=60, retries=5)
def charge(run: EffectContext, order: str, cents: int = 100) -> Receipt:
    """Take the money."""
    return Receipt(number=cents)


@effect
def note_down(run: EffectContext, line: str) -> None:
    return None


@effect(name="mail.send", timeout=timedelta(minutes=2), idempotent=False, backoff=0)
def send_mail(run: EffectContext, to: tuple[str, ...], urgent: bool) -> dict[str, int]:
    return {to[0]: run.attempt}


class Order(State):
    stage: str = "new"


class Orders(Agent[Order], name="orders"):
    @handles("pay")
    def pay(self, order: Order, signal: Signal) -> Step[Order]:
        return order.evolve(stage="charging"), charge.run("o-1", cents=5)

    @handles(charge.done)
    def charged(self, order: Order, done: Done[Receipt]) -> Step[Order]:
        return order.evolve(stage=f"paid {done.result.number}")

    @handles(charge.failed)
    def failed(self, order: Order, failed: Failed) -> Step[Order]:
        return order.evolve(stage=f"failed {failed.attempts} {failed.error}")

    @handles(charge.in_doubt)
    def doubtful(self, order: Order, doubt: InDoubt) -> Step[Order]:
        return order.evolve(stage=f"doubtful {doubt.attempts}")

    @handles(note_down.done)
    def noted(self, order: Order, done: Done[None]) -> Step[Order]:
        return order.evolve(stage=f"noted {done.result}")


def test_run_is_a_directive_with_arguments_by_name() -> None:
    run = charge.run("o-1", cents=5)

    assert run == EffectRun("charge", {"order": "o-1", "cents": 5})
    assert (run.timeout_ms, run.retries, run.idempotent, run.backoff_ms) == (60_000, 5, True, 1_000)


def test_defaults_are_written_out() -> None:
    assert charge.run("o-1").args == {"order": "o-1", "cents": 100}


def test_settings_and_name_of_ones_own() -> None:
    run = send_mail.run(("a", "b"), urgent=True)

    assert run.name == "mail.send"
    assert (run.timeout_ms, run.idempotent, run.backoff_ms) == (120_000, False, 0)
    assert send_mail.done.signal_type == "mail.send.done"


def test_a_handler_returns_the_run() -> None:
    assert Orders.cmd(Order(), Signal.of("pay")) == (
        Order(stage="charging"),
        [EffectRun("charge", {"order": "o-1", "cents": 5})],
    )


@pytest.mark.parametrize(
    ("signal", "stage"),
    [
        (Signal.of("charge.done", {"effect": "e", "result": {"number": 7}}), "paid 7"),
        (Signal.of("charge.done", {"effect": "e", "result": {"number": 7}, "from_newer_code": 1}), "paid 7"),
        (
            Signal.of("charge.failed", {"effect": "e", "error": "no money", "attempts": 6}),
            "failed 6 no money",
        ),
        (Signal.of("charge.in_doubt", {"effect": "e", "attempts": 1}), "doubtful 1"),
        (Signal.of("note_down.done", {"effect": "e", "result": None}), "noted None"),
    ],
)
def test_outcomes_reach_their_handlers(signal: Signal, stage: str) -> None:
    assert Orders.cmd(Order(), signal)[0].stage == stage


def test_outcomes_can_be_made_in_tests() -> None:
    state, _ = Orders.cmd(Order(), charge.done(effect="e", result=Receipt(number=3)))

    assert state.stage == "paid 3"
    assert Orders.cmd(Order(), charge.failed(effect="e", error="x", attempts=1))[0].stage == "failed 1 x"


@pytest.mark.parametrize("result", [None, {}, {"number": "x"}, 5])
def test_a_result_that_does_not_fit_is_bad_data(result: Any) -> None:
    with pytest.raises(BadPayload):
        Orders.cmd(Order(), Signal.of("charge.done", {"effect": "e", "result": result}))


def test_execute_calls_the_function_by_stored_arguments() -> None:
    run = EffectContext(id="e-1", attempt=2)

    assert charge.execute(run, '{"order":"x","cents":4}') == '{"number":4}'
    assert charge.execute(run, '{"order":"x"}') == '{"number":100}'
    assert note_down.execute(run, '{"line":"x"}') == "null"
    assert send_mail.execute(run, '{"to":["a"],"urgent":false}') == '{"a":2}'


class Address(BaseModel):
    street: str = Field(alias="Street")


def test_aliases_of_models_do_not_matter_for_what_is_stored() -> None:
    @effect(name="deliver")
    def deliver(run: EffectContext, to: Address) -> Address:
        return to

    class Parcels(Agent[Order], name="parcels"):
        @handles(deliver.done)
        def delivered(self, order: Order, done: Done[Address]) -> Step[Order]:
            return order.evolve(stage=done.result.street)

    run = deliver.run(Address(Street="x"))

    assert run.args == {"to": {"street": "x"}}
    assert deliver.execute(EffectContext(id="e"), run.args_json(Limits())) == '{"street":"x"}'
    assert deliver.execute(EffectContext(id="e"), '{"to":{"Street":"y"}}') == '{"street":"y"}'
    assert (
        Parcels.cmd(Order(), Signal.of("deliver.done", {"effect": "e", "result": {"street": "z"}}))[0].stage
        == "z"
    )


def test_a_direct_call_is_the_function() -> None:
    assert charge(EffectContext(id="e-1"), "x", 4) == Receipt(number=4)
    assert charge.__doc__ == "Take the money."


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ("", NotStrictJSON),
        ("NaN", NotStrictJSON),
        ("[]", BadInput),
        ("{}", BadPayload),
        ('{"order":"x","cents":"many"}', BadPayload),
        ('{"order":"x","extra":1}', BadPayload),
        ('{"order":5}', BadPayload),
        ('{"__class__":"os:system","order":"x"}', BadPayload),
    ],
)
def test_stored_arguments_that_do_not_fit_are_refused(args: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="charge"):
        charge.parse_args(args)


charge_unchecked: Any = charge
mail_unchecked: Any = send_mail


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (charge_unchecked.run, "effect charge: missing a required argument: 'order'"),
        (lambda: charge_unchecked.run("x", 1, 2), "effect charge: too many positional arguments"),
        (lambda: charge_unchecked.run("x", colour=1), "effect charge: got an unexpected keyword argument"),
        (lambda: charge_unchecked.run(5), "effect charge: order: .*valid string"),
        (lambda: charge_unchecked.run("x", "many"), "effect charge: cents: .*valid integer"),
        (lambda: mail_unchecked.run([5], True), "effect mail.send: to: 0: "),
    ],
)
def test_arguments_that_do_not_fit_are_refused(call: Callable[[], object], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        call()


def test_arguments_that_are_not_strict_json_are_refused_when_laid_out() -> None:
    @effect(name="takes_anything")
    def takes_anything(run: EffectContext, value: Any, number: float) -> Any:
        return value

    with pytest.raises(NotStrictJSON, match="effect takes_anything: number"):
        takes_anything.run("x", float("inf"))
    with pytest.raises(NotStrictJSON, match="effect takes_anything: value"):
        takes_anything.run({"deep": [float("nan")]}, 1.0)
    with pytest.raises(NotStrictJSON, match="arguments of effect takes_anything"):
        takes_anything.run("\ud800", 1.0).args_json(Limits())
    with pytest.raises(NotStrictJSON, match="effect takes_anything: value"):
        takes_anything.run(object(), 1.0)
    with pytest.raises(NotStrictJSON, match="result of effect takes_anything"):
        takes_anything.encode_result(object())
    with pytest.raises(NotStrictJSON, match="result of effect takes_anything"):
        takes_anything.encode_result(float("nan"))


def test_a_result_of_another_type_or_size_is_refused() -> None:
    with pytest.raises(BadPayload, match="result of effect charge"):
        charge.encode_result("no receipt")
    with pytest.raises(TooLarge, match=r"result of effect mail\.send"):
        send_mail.encode_result({"x" * 200: 1}, Limits(max_signal_bytes=100))


F = TypeVar("F", bound=Callable[..., Any])


def unchecked(**keywords: Any) -> Callable[[F], Any]:
    """``effect`` as a caller without a type checker meets it."""
    decorator: Any = effect
    marks: Callable[[F], Any] = decorator(**keywords)
    return marks


def asynchronous_generator() -> None:
    @unchecked()
    async def refused(run: EffectContext) -> AsyncIterator[int]:
        yield 1


def generator() -> None:
    @unchecked()
    def refused(run: EffectContext) -> Iterator[int]:
        yield 1


def without_context() -> None:
    @unchecked()
    def refused() -> None: ...


def context_not_first() -> None:
    @unchecked()
    def refused(order: str, run: EffectContext) -> None: ...


def starred() -> None:
    @unchecked()
    def refused(run: EffectContext, *orders: str) -> None: ...


def keywords() -> None:
    @unchecked()
    def refused(run: EffectContext, **orders: str) -> None: ...


def positional_only() -> None:
    @unchecked()
    def refused(run: EffectContext, order: str, /) -> None: ...


def without_annotation() -> None:
    def refused(run: EffectContext, order) -> None: ...  # type: ignore[no-untyped-def]  # pyright: ignore

    unchecked()(refused)  # pyright: ignore[reportUnknownArgumentType]


def without_result() -> None:
    def refused(run: EffectContext, order: str): ...  # type: ignore[no-untyped-def]

    unchecked()(refused)


def no_json_form() -> None:
    @unchecked()
    def refused(run: EffectContext, order: threading_lock) -> None: ...


def unreadable_annotation() -> None:
    @unchecked()
    def refused(run: EffectContext, order: NotThere) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore


class threading_lock:
    """A class that pydantic knows no JSON form of."""


@pytest.mark.parametrize(
    ("definition", "told"),
    [
        (asynchronous_generator, "is a generator"),
        (generator, "is a generator"),
        (without_context, "first parameter must be run: EffectContext"),
        (context_not_first, "first parameter must be annotated order: EffectContext"),
        (starred, "cannot be stored by name"),
        (keywords, "cannot be stored by name"),
        (positional_only, "cannot be stored by name"),
        (without_annotation, "parameter 'order' has no annotation"),
        (without_result, "its result has no annotation"),
        (no_json_form, "parameter 'order' has no JSON form"),
        (unreadable_annotation, "annotations cannot be read .*NotThere"),
    ],
)
def test_a_wrong_function_is_refused(definition: Callable[[], None], told: str) -> None:
    with pytest.raises(BadDefinition, match=f"^effect refused.*{told}"):
        definition()

    assert "refused" not in registered_effects()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": -1}, "timeout=-1"),
        ({"timeout": "60"}, "timeout='60'"),
        ({"timeout": float("inf")}, "timeout=inf"),
        ({"retries": -1}, "retries=-1"),
        ({"retries": 1.5}, r"retries=1\.5"),
        ({"retries": True}, "retries=True"),
        ({"backoff": -1}, "backoff=-1"),
        ({"idempotent": "yes"}, "idempotent='yes'"),
        ({"name": "a b"}, "effect name 'a b'"),
        ({"name": ""}, "effect name ''"),
        ({"name": 5}, "effect name of type int"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(BadDefinition, match=told):

        @unchecked(**settings)
        def refused(run: EffectContext) -> None: ...


@pytest.mark.parametrize("what", [5, "x", Receipt, print])
def test_what_is_no_function_is_refused(what: Any) -> None:
    with pytest.raises(BadDefinition, match="marks plain functions"):
        unchecked()(what)


def test_one_name_for_two_functions_is_refused() -> None:
    with pytest.raises(
        BadDefinition, match=r"effect 'charge' is defined twice.*give one of them @effect\(name="
    ):

        @effect(name="charge")
        def another(run: EffectContext) -> None: ...

    assert registered_effects()["charge"] is charge


def test_defining_the_same_function_again_replaces_it() -> None:
    def make() -> Any:
        @effect(name="reloaded")
        def reloaded(run: EffectContext) -> None: ...

        return reloaded

    make()
    second = make()

    assert registered_effects()["reloaded"] is second


def test_a_handler_for_anothers_outcome_is_refused() -> None:
    handle: Any = handles
    with pytest.raises(BadDefinition, match=r"'done' is annotated Done\[Receipt\]"):

        class Broken(Agent[Order], name="broken"):
            @handle(note_down.done)  # type: ignore[untyped-decorator]
            def noted(self, order: Order, done: Done[Receipt]) -> Step[Order]:
                return order


def test_async_def_is_awaited_in_a_test_and_run_to_its_end_where_nothing_else_goes_on() -> None:
    @effect(name="unit.fetched")
    async def fetched(run: EffectContext, url: str) -> int:
        return len(url)

    run = EffectContext(id="e-1")

    assert fetched.awaited
    assert fetched.run("abc").awaited
    assert asyncio.run(fetched(run, "abc")) == 3
    assert fetched.execute(run, '{"url": "abcd"}') == "4"
