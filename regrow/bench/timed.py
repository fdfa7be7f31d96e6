"""The application whose timers are measured."""

from __future__ import annotations

from regrow import Agent, Payload, Schedule, Signal, State, Step, Supervisor, handles
from regrow.bench.app import AGENT

__all__ = ["SetTimers", "tree"]


class SetTimers(Payload, type="bench.set_timers"):
    """Timers to be set, in seconds from the commit on."""

    after: tuple[float, ...]


class Count(State):
    """How many timers have fired, and of what type the last one was."""

    fired: int = 0
    last: str = ""


class Timed(Agent[Count], name="bench-timed"):
    """Sets timers, and counts them."""

    @handles(SetTimers)
    def set_timers(self, state: Count, timers: SetTimers) -> Step[Count]:
        return state, [Schedule("bench.tick", after=after) for after in timers.after]

    @handles("bench.tick")
    def tick(self, state: Count, signal: Signal) -> Step[Count]:
        return state.evolve(fired=state.fired + 1, last=signal.type)


tree = Supervisor("bench", [Timed.child(AGENT)], max_restarts=10_000, max_seconds=1)
