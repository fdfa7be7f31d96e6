"""The tree: twenty good agents, and one abuser of each kind. ``regrow up examples.abusers.app:tree``."""

from __future__ import annotations

from regrow import Agent, Payload, State, Step, Supervisor, handles

from .abuses import ABUSES, MEMORY

__all__ = ["GOOD", "Abuser", "Counted", "Do", "Good", "Number", "Numbers", "tree"]

GOOD = tuple(f"good-{number:02}" for number in range(1, 21))
DEEDS = {abuse.name: abuse.deed for abuse in ABUSES}


class Number(Payload, type="abusers.number"):
    n: int


class Do(Payload, type="abusers.do"):
    deed: str


class Numbers(State):
    """What was counted, in the order in which it came."""

    seen: tuple[int, ...] = ()
    noise: str = ""


class Counted(Agent[Numbers], abstract=True):
    @handles(Number)
    def number(self, state: Numbers, number: Number) -> Step[Numbers]:
        return state.evolve(seen=(*state.seen, number.n))


class Good(Counted, name="good"):
    """Counts, and does nothing else."""


class Abuser(
    Counted, name="abuser", guard="off", deadline=15, max_memory=MEMORY, max_attempts=2, max_kills=2
):
    """Counts, and does what it is told."""

    @handles(Do)
    def misbehave(self, state: Numbers, wanted: Do) -> Step[Numbers]:
        noise = DEEDS[wanted.deed]()
        return state.evolve(noise=noise) if noise else None


tree = Supervisor(
    "everybody",
    [
        Supervisor("good", [Good.child(name) for name in GOOD]),
        Supervisor(
            "bad",
            [
                Abuser.child(abuse.name, max_restarts=10, max_seconds=5, shutdown=2, **abuse.limits)
                for abuse in ABUSES
            ],
        ),
    ],
)
