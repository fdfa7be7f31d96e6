"""A shop's tills, their book and its safe, first version.

regrow watchdog examples.upgrade.before:tree
regrow worker examples.upgrade.before:tree
"""

from __future__ import annotations

from regrow import Agent, Emit, Payload, Reject, State, Step, Supervisor, handles


class Paid(Payload, type="shop.paid"):
    n: int
    """Payments of a till are numbered without a gap."""

    cents: int


class Booked(Payload, type="shop.booked"):
    cents: int


class Banked(Payload, type="shop.banked"):
    who: str


class Drawer(State):
    last: int = 0
    cents: int = 0


class Till(Agent[Drawer], name="till"):
    @handles(Paid)
    def paid(self, drawer: Drawer, paid: Paid) -> Step[Drawer]:
        if paid.n != drawer.last + 1:
            raise Reject(f"payment {paid.n} comes after {drawer.last}")
        return drawer.evolve(last=paid.n, cents=drawer.cents + paid.cents), Emit(
            Booked(cents=paid.cents), to="book"
        )


class Pages(State):
    entries: int = 0
    cents: int = 0


class Book(Agent[Pages], name="book"):
    @handles(Booked)
    def booked(self, pages: Pages, booked: Booked) -> Step[Pages]:
        return pages.evolve(entries=pages.entries + 1, cents=pages.cents + booked.cents)


class Visits(State):
    names: str = ""
    """Of whoever opened it, between spaces."""


class Safe(Agent[Visits], name="safe"):
    @handles(Banked)
    def banked(self, visits: Visits, banked: Banked) -> Step[Visits]:
        return visits.evolve(names=f"{visits.names} {banked.who}".strip())


TILLS = ("till-1", "till-2", "till-3")

tree = Supervisor("shop", [*(Till.child(name) for name in TILLS), Book.child("book"), Safe.child("safe")])
