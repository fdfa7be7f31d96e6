"""The application of ``pool_answers.py``: pooled agents that count, and are at it for as long as they are told."""

from __future__ import annotations

import time

from regrow import Agent, Payload, State, Step, Supervisor, handles

__all__ = ["AGENTS", "Quick", "Slow", "tree"]

AGENTS = tuple(f"pooled-{number:02}" for number in range(60))


class Quick(Payload, type="answers.quick"):
    """One more."""


class Slow(Payload, type="answers.slow"):
    """One more, after so many seconds of work."""

    seconds: float


class Count(State):
    total: int = 0


class Counting(Agent[Count], name="answers-counting", deadline=30):
    @handles(Quick)
    def quick(self, count: Count, _quick: Quick) -> Step[Count]:
        return count.evolve(total=count.total + 1)

    @handles(Slow)
    def slow(self, count: Count, slow: Slow) -> Step[Count]:
        end = time.monotonic() + slow.seconds
        while time.monotonic() < end:
            pass
        return count.evolve(total=count.total + 1)


tree = Supervisor("answers", [Counting.child(agent, isolation="pool", max_restarts=1000) for agent in AGENTS])
