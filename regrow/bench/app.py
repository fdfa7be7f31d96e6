"""The application that is measured: one agent that counts."""

from __future__ import annotations

from regrow import Agent, Context, Payload, Reply, State, Step, Supervisor, handles

__all__ = ["AGENT", "Add", "Count", "Counter", "Total", "tree"]

AGENT = "counter"

#: as many as a throughput run puts in before it lets the agent go
MAILBOX = 1_000_000


class Add(Payload, type="bench.add"):
    """Adds ``by``."""

    by: int = 1


class Total(Payload, type="bench.total"):
    """Asks for the sum."""


class Count(State):
    """What was added so far."""

    total: int = 0


class Counter(Agent[Count], name="bench-counter"):
    """Counts."""

    @handles(Add)
    def add(self, state: Count, add: Add) -> Step[Count]:
        return state.evolve(total=state.total + add.by)

    @handles(Total)
    def tell(self, state: Count, total: Total, ctx: Context) -> Step[Count]:  # noqa: ARG002  what is asked
        return Reply(state.total, to=ctx.reply_to)


tree = Supervisor("bench", [Counter.child(AGENT, max_mailbox=MAILBOX)], max_restarts=10_000, max_seconds=1)
