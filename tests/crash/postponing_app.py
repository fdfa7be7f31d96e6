"""An agent with two modes that takes each kind of number in one of them, and writes down what it took."""

from __future__ import annotations

import os
from typing import Literal

from regrow import Agent, Signal, State, Step, Supervisor, handles

__all__ = ["Turnstile", "Turnstiles", "tree"]


class Turnstile(State):
    side: Literal["even", "odd"] = "odd"
    seen: tuple[int, ...] = ()


class Turnstiles(Agent[Turnstile], name="turnstiles", mode_field="side", unhandled_in_mode="postpone"):
    @handles("turn")
    def turn(self, turnstile: Turnstile, signal: Signal) -> Step[Turnstile]:
        return turnstile.evolve(side="even" if turnstile.side == "odd" else "odd")

    @handles("odd", mode="odd")
    @handles("even", mode="even")
    def take(self, turnstile: Turnstile, signal: Signal) -> Step[Turnstile]:
        return turnstile.evolve(seen=(*turnstile.seen, signal.value))

    @handles("saw", mode="even")
    def saw(self, turnstile: Turnstile, signal: Signal) -> Step[Turnstile]:
        os.closerange(3, 64)  # the connection, and what the node watches it by
        return turnstile


tree = Supervisor("stage", [Turnstiles.child("turnstile", max_kills=1000)], max_restarts=1000, max_seconds=1)
