"""What the type checkers know of effects: arguments, results, outcomes. Checked, not run.

Each line that must be refused carries an ignore for exactly that error: an ignore that is not needed is an error too.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=error, reportUnusedFunction=false
# (unneeded ignores are what this file is there to find)
from __future__ import annotations

from typing import assert_type

from pydantic import BaseModel

from regrow import (
    Agent,
    CancelEffect,
    Cancelled,
    Done,
    EffectContext,
    Failed,
    InDoubt,
    State,
    Step,
    effect,
    handles,
)
from regrow_workers.directives import EffectRun


class Receipt(BaseModel):
    number: int


class Order(State):
    stage: str = "new"


@effect(timeout=60, retries=5)
def charge(run: EffectContext, order: str, cents: int) -> Receipt:
    return Receipt(number=len(run.id))


@effect
def bare(run: EffectContext, line: str = "") -> None:
    return None


@effect(idempotent=False)  # type: ignore[arg-type]
def without_context(order: str) -> None:
    return None


class Orders(Agent[Order], name="orders"):
    @handles(charge.done)
    def charged(self, order: Order, done: Done[Receipt]) -> Step[Order]:
        assert_type(done.result, Receipt)
        return order.evolve(stage="paid"), bare.run()

    @handles(charge.failed, charge.in_doubt)
    def not_charged(self, order: Order, outcome: Failed | InDoubt) -> Step[Order]:
        return order.evolve(stage=f"tried {outcome.attempts} times"), charge.run(outcome.effect, 5)

    @handles(charge.cancelled)
    def called_off(self, order: Order, cancelled: Cancelled) -> Step[Order]:
        return (
            order,
            charge.run(cancelled.tag, 5).tagged("again"),
            CancelEffect("old"),
            charge.cancel(tag="old"),
        )

    @handles(charge.done)  # type: ignore[arg-type]
    def wrong_result(self, order: Order, done: Done[int]) -> Step[Order]:
        return order

    @handles(charge.failed)  # type: ignore[arg-type]
    def wrong_outcome(self, order: Order, done: Done[Receipt]) -> Step[Order]:
        return order


def arguments_are_checked() -> None:
    assert_type(charge.run("o-1", 5), EffectRun)
    assert_type(charge.run("o-1", cents=5), EffectRun)
    assert_type(charge.run("o-1", 5).tagged("t"), EffectRun)
    charge.run("o-1", 5, tag="t")  # type: ignore[call-arg]
    assert_type(charge(EffectContext(id="e"), "o-1", 5), Receipt)
    assert_type(charge.done(effect="e", result=Receipt(number=1)).result, Receipt)
    charge.run("o-1")  # type: ignore[call-arg]
    charge.run("o-1", "five")  # type: ignore[arg-type]
    charge.run("o-1", 5, colour="red")  # type: ignore[call-arg]
    charge.done(effect="e", result=1)  # pyright: ignore[reportArgumentType]
