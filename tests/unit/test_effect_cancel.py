"""Effects cancelled by their agent, on the harness: real scripts, no process."""

from __future__ import annotations

import pytest

from regrow import (
    Agent,
    CancelEffect,
    Cancelled,
    Done,
    EffectContext,
    Signal,
    State,
    Step,
    Supervisor,
    effect,
    handles,
)
from regrow.testing import Harness
from regrow_signals.errors import BadInput


class Order(State):
    heard: tuple[str, ...] = ()


@effect(name="cancel.charge")
def charge(run: EffectContext, cents: int) -> int:
    return cents


@effect(name="cancel.mail")
def mail(run: EffectContext) -> None: ...


class Orders(Agent[Order], name="orders"):
    @handles("placed")
    def placed(self, order: Order, signal: Signal) -> Step[Order]:
        return charge.run(1).tagged("o-7"), charge.run(2), mail.run().tagged("o-7")

    @handles("called.off")
    def called_off(self, order: Order, signal: Signal) -> Step[Order]:
        return CancelEffect("o-7")

    @handles("charge.called.off")
    def charge_called_off(self, order: Order, signal: Signal) -> Step[Order]:
        return charge.cancel(tag="o-7")

    @handles("anew")
    def anew(self, order: Order, signal: Signal) -> Step[Order]:
        return CancelEffect("o-7"), charge.run(3).tagged("o-7")

    @handles(charge.done)
    def charged(self, order: Order, done: Done[int]) -> Step[Order]:
        return order.evolve(heard=(*order.heard, f"charged {done.result}"))

    @handles(charge.cancelled, mail.cancelled)
    def not_done(self, order: Order, cancelled: Cancelled) -> Step[Order]:
        return order.evolve(heard=(*order.heard, f"cancelled {cancelled.tag} {cancelled.attempts}"))


tree = Supervisor("shop", [Orders.child("orders")])


def test_directives_are_values_and_a_bad_tag_is_refused_at_once() -> None:
    _, [first, second, _] = Orders.cmd(Order(), Signal.of("placed"))
    assert (first, second) == (charge.run(1).tagged("o-7"), charge.run(2))
    assert first != charge.run(1)
    assert charge.cancel(tag="o-7") == CancelEffect("o-7", "cancel.charge")
    for bad in ("", "a b", "x" * 101):
        with pytest.raises(BadInput, match="tag"):
            charge.run(1).tagged(bad)
        with pytest.raises(BadInput, match="tag"):
            CancelEffect(bad)


@pytest.mark.parametrize(
    ("how", "heard"),
    [
        ("called.off", ["cancelled o-7 0", "cancelled o-7 0", "charged 2"]),
        ("charge.called.off", ["cancelled o-7 0", "charged 2"]),
        ("anew", ["cancelled o-7 0", "cancelled o-7 0", "charged 2", "charged 3"]),
    ],
)
def test_agent_hears_one_outcome_of_each_effect(how: str, heard: list[str]) -> None:
    harness = Harness(tree)
    harness.send("orders", "placed")
    harness.run()
    harness.send("orders", how)
    harness.run()
    harness.run_effects()
    harness.run()
    assert sorted(harness.state("orders", Orders).heard) == heard
    assert harness.effects("orders") == []
    assert harness.dead_letters("orders") == [] or how == "charge.called.off"
