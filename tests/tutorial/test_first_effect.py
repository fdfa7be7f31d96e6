"""Lesson 2: what touches the world is an effect: ordered by a transition, run after its commit, told by a signal."""

from __future__ import annotations

from pydantic import BaseModel

from regrow import Agent, Done, EffectContext, Failed, InDoubt, Signal, State, Step, effect, handles


class Receipt(BaseModel):
    number: str


@effect(timeout=60, retries=5)
def charge_card(run: EffectContext, order: str, cents: int) -> Receipt:
    # `run.id` is the same on every try: give it to the payment service as the idempotency key.
    return Receipt(number=f"{order}-{cents}-{run.id}")


class Order(State):
    id: str = "o-1"
    stage: str = "new"


class Orders(Agent[Order], name="orders"):
    @handles("order.placed")
    def placed(self, order: Order, signal: Signal) -> Step[Order]:
        return order.evolve(stage="charging"), charge_card.run(order.id, cents=500)

    @handles(charge_card.done)
    def charged(self, order: Order, done: Done[Receipt]) -> Step[Order]:
        return order.evolve(stage=f"paid by {done.result.number}")

    @handles(charge_card.failed)
    def not_charged(self, order: Order, failed: Failed) -> Step[Order]:
        return order.evolve(stage=f"unpaid: {failed.error}")

    @handles(charge_card.in_doubt)
    def unknown(self, order: Order, doubt: InDoubt) -> Step[Order]:
        return order.evolve(stage="ask the bank")


def test_a_transition_orders_the_effect_and_does_not_run_it() -> None:
    order, directives = Orders.cmd(Order(), Signal.of("order.placed"))

    assert order.stage == "charging"
    assert directives == [charge_card.run("o-1", 500)]


def test_the_effect_is_a_function_to_be_called_in_a_test() -> None:
    assert charge_card(EffectContext(id="e-1"), "o-1", 500) == Receipt(number="o-1-500-e-1")


def test_its_outcome_is_a_signal_like_any_other() -> None:
    paid, _ = Orders.cmd(Order(), charge_card.done(effect="e-1", result=Receipt(number="r-9")))
    unpaid, _ = Orders.cmd(Order(), charge_card.failed(effect="e-1", error="no money", attempts=6))
    unknown, _ = Orders.cmd(Order(), charge_card.in_doubt(effect="e-1", attempts=1))

    assert [paid.stage, unpaid.stage, unknown.stage] == ["paid by r-9", "unpaid: no money", "ask the bank"]
