"""An agent that writes down each tick of a timer that its class declares."""

from __future__ import annotations

from regrow import Agent, Signal, State, Step, Supervisor, every

__all__ = ["Ticker", "Ticks", "tree"]


class Ticks(State):
    due: tuple[str, ...] = ()
    """Due times in ms, as the signals' ids end with them."""


class Ticker(Agent[Ticks], name="ticker"):
    @every(0.1, missed="all")
    def tick(self, ticks: Ticks, signal: Signal) -> Step[Ticks]:
        return ticks.evolve(due=(*ticks.due, signal.id.rpartition(":")[2]))


tree = Supervisor("stage", [Ticker.child("ticker")], max_restarts=1000, max_seconds=1)
