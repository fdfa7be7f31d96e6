"""The application whose effects are measured beside bare jobs of RQ: the same function, which does nothing."""

from __future__ import annotations

from regrow import Agent, Done, EffectContext, Payload, State, Step, Supervisor, effect, handles
from regrow.bench.app import AGENT

__all__ = ["Order", "Orderer", "noop", "nothing", "tree"]


def nothing(number: int) -> int:
    """What is called, by an executor and by RQ's worker."""
    return number


class Order(Payload, type="bench.order"):
    """So many effects."""

    count: int


class Told(State):
    """How many outcomes were told."""

    done: int = 0


@effect(name="bench.noop")
def noop(run: EffectContext, number: int) -> int:
    """The effect."""
    del run
    return nothing(number)


class Orderer(Agent[Told], name="bench-orderer"):
    """Orders effects, and counts their outcomes."""

    @handles(Order)
    def order(self, told: Told, order: Order) -> Step[Told]:
        return told, [noop.run(number) for number in range(order.count)]

    @handles(noop.done)
    def told(self, told: Told, done: Done[int]) -> Step[Told]:
        del done
        return told.evolve(done=told.done + 1)


tree = Supervisor("bench", [Orderer.child(AGENT)])
