"""A third version of the example's safe, with an upcast that never comes back."""

from __future__ import annotations

from typing import Any

from examples.upgrade import before
from regrow import Agent, State, Step, Supervisor, handles, upcast


class Visits(State, schema=2):
    visitors: tuple[str, ...] = ()

    @upcast(1)
    @staticmethod
    def never(old: dict[str, Any]) -> dict[str, Any]:
        while old:
            pass
        return old


class Safe(Agent[Visits], name="safe"):
    @handles(before.Banked)
    def banked(self, visits: Visits, banked: before.Banked) -> Step[Visits]:
        return visits.evolve(visitors=(*visits.visitors, banked.who))


tree = Supervisor(
    "shop",
    [
        *(before.Till.child(name) for name in before.TILLS),
        before.Book.child("book"),
        Safe.child("safe"),
    ],
)
