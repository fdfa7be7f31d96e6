"""The application of the kill soak: a hundred agents that count numbered signals and notice one out of order."""

from __future__ import annotations

from regrow import Agent, Payload, State, Step, Supervisor, handles

__all__ = ["AGENTS", "Increment", "Numbered", "Tally", "tree"]

AGENTS = tuple(f"tally-{number}" for number in range(100))


class Increment(Payload, type="increment"):
    """``number`` is one more than that of the signal before it to the same agent."""

    number: int


class Tally(State):
    """How many were applied, and how many of them did not follow the one before."""

    count: int = 0
    last: int = 0
    out_of_order: int = 0


class Numbered(Agent[Tally], name="tally"):
    """Counts."""

    @handles(Increment)
    def add(self, tally: Tally, increment: Increment) -> Step[Tally]:
        return tally.evolve(
            count=tally.count + 1,
            last=increment.number,
            out_of_order=tally.out_of_order + (increment.number != tally.last + 1),
        )


tree = Supervisor(
    "tallies",
    [Numbered.child(agent) for agent in AGENTS],
    max_restarts=100_000,
    max_seconds=1,
)
