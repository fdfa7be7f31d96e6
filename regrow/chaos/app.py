"""What is run where no tree is named: agents with processes of their own and pooled ones, and an effect."""

from __future__ import annotations

from regrow import Agent, Done, EffectContext, Payload, State, Step, Supervisor, effect, handles

__all__ = ["AGENTS", "Increment", "Tally", "tree"]

ISOLATED = tuple(f"tally-{number}" for number in range(1, 7))
POOLED = tuple(f"pooled-{number}" for number in range(1, 7))
AGENTS = (*ISOLATED, *POOLED)

ECHO_EVERY = 10


class Increment(Payload, type="chaos.increment"):
    """``number`` is that of the signal, so that each can be told from the others."""

    number: int


@effect(retries=1000)
def echo(run: EffectContext, number: int) -> int:  # noqa: ARG001  an effect takes it
    """Nothing is done in the world: its executor is there to be killed."""
    return number


class Tally(State):
    """How many increments were applied, and how many echoes were heard."""

    count: int = 0
    echoes: int = 0


class Counter(Agent[Tally], name="chaos-counter"):
    """Counts, and now and then asks for an echo."""

    @handles(Increment)
    def add(self, tally: Tally, increment: Increment) -> Step[Tally]:
        added = tally.evolve(count=tally.count + 1)
        return (added, echo.run(increment.number)) if increment.number % ECHO_EVERY == 0 else added

    @handles(echo.done)
    def heard(self, tally: Tally, done: Done[int]) -> Step[Tally]:  # noqa: ARG002  that it came is enough
        return tally.evolve(echoes=tally.echoes + 1)


tree = Supervisor(
    "chaos",
    [
        *(Counter.child(agent) for agent in ISOLATED),
        *(Counter.child(agent, isolation="pool") for agent in POOLED),
    ],
    max_restarts=100_000,
    max_seconds=1,
)
