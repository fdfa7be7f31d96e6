"""The application that is measured: one agent that counts."""

from __future__ import annotations

from regrow import Agent, Payload, State, Step, Supervisor, handles

__all__ = ["AGENT", "Add", "Count", "Counter", "tree"]

AGENT = "counter"

#: as many as a throughput run puts in before it lets the agent go
MAILBOX = 1_000_000


class Add(Payload, type="bench.add"):
    """Adds ``by``."""

    by: int = 1


class Count(State):
    """What was added so far."""

    total: int = 0


class Counter(Agent[Count], name="bench-counter"):
    """Counts."""

    @handles(Add)
    def add(self, state: Count, add: Add) -> Step[Count]:
        return state.evolve(total=state.total + add.by)


tree = Supervisor("bench", [Counter.child(AGENT, max_mailbox=MAILBOX)], max_restarts=10_000, max_seconds=1)
