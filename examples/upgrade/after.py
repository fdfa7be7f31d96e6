"""The same shop, second version: tills have another name and take refunds; the safe keeps its visitors apart.

regrow watchdog examples.upgrade.after:tree
regrow worker examples.upgrade.after:tree
"""

from __future__ import annotations

from typing import Any

from regrow import Agent, Emit, Payload, Reject, State, Step, Supervisor, handles, upcast


class Paid(Payload, type="shop.paid"):
    n: int
    cents: int


class Refunded(Payload, type="shop.refunded"):
    """New: only this version's tills know it."""

    cents: int


class Booked(Payload, type="shop.booked"):
    cents: int


class Corrected(Payload, type="shop.corrected"):
    """New: only this version's book knows it."""

    cents: int


class Banked(Payload, type="shop.banked"):
    who: str


class Drawer(State):
    """A field more. Its default is read where it is not stored; older code keeps it beside."""

    last: int = 0
    cents: int = 0
    refunds: int = 0


class CashDesk(Agent[Drawer], name="cash-desk", aliases=("till",)):
    @handles(Paid)
    def paid(self, drawer: Drawer, paid: Paid) -> Step[Drawer]:
        if paid.n != drawer.last + 1:
            raise Reject(f"payment {paid.n} comes after {drawer.last}")
        return drawer.evolve(last=paid.n, cents=drawer.cents + paid.cents), Emit(
            Booked(cents=paid.cents), to="book"
        )

    @handles(Refunded)
    def refunded(self, drawer: Drawer, refunded: Refunded) -> Step[Drawer]:
        return drawer.evolve(cents=drawer.cents - refunded.cents, refunds=drawer.refunds + 1), Emit(
            Corrected(cents=refunded.cents), to="book"
        )


class Pages(State):
    entries: int = 0
    cents: int = 0
    corrections: int = 0


class Book(Agent[Pages], name="book"):
    @handles(Booked)
    def booked(self, pages: Pages, booked: Booked) -> Step[Pages]:
        return pages.evolve(entries=pages.entries + 1, cents=pages.cents + booked.cents)

    @handles(Corrected)
    def corrected(self, pages: Pages, corrected: Corrected) -> Step[Pages]:
        return pages.evolve(corrections=pages.corrections + 1, cents=pages.cents - corrected.cents)


class Visits(State, schema=2):
    """A list in the place of a text: another schema, and the step that leads to it."""

    visitors: tuple[str, ...] = ()

    @upcast(1)
    @staticmethod
    def split_names(old: dict[str, Any]) -> dict[str, Any]:
        return {"visitors": old["names"].split()}


class Safe(Agent[Visits], name="safe"):
    @handles(Banked)
    def banked(self, visits: Visits, banked: Banked) -> Step[Visits]:
        return visits.evolve(visitors=(*visits.visitors, banked.who))


class Ledgers(State):
    seen: int = 0


class Auditor(Agent[Ledgers], name="auditor"):
    """A child more in the tree."""

    @handles(Banked)
    def banked(self, ledgers: Ledgers, _banked: Banked) -> Step[Ledgers]:
        return ledgers.evolve(seen=ledgers.seen + 1)


TILLS = ("till-1", "till-2", "till-3")

tree = Supervisor(
    "shop",
    [
        *(CashDesk.child(name) for name in TILLS),
        Book.child("book"),
        Safe.child("safe"),
        Auditor.child("auditor"),
    ],
)
