"""Do the books balance? What Redis says of every order, held against what the bank did. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from examples.running import Finding

from .app import ENDS, STOCK, Order, Reports, Shelf, Stage
from .bank import Line

__all__ = ["Evidence", "judge"]

DID: Mapping[Stage, tuple[int, tuple[int, ...], int]] = {
    "sold out": (0, (0,), 0),
    "declined": (0, (0,), 0),
    "shipped": (1, (0,), 1),
    "refunded": (1, (1,), 0),
    "refund in doubt": (1, (0, 1), 0),
}
"""How many charges, refunds and parcels the bank's log must have for an order that ended so."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was read after everything had settled."""

    orders: Mapping[str, Order]
    """From Redis, as all that follows but the bank's log."""
    shelf: Shelf
    reports: Reports
    dead_letters: Sequence[str]
    open_effects: int
    bank: Sequence[Line]


def judge(found: Evidence, placed: int) -> list[Finding]:
    """Every finding, those that hold and those that do not. ``placed``: how many orders were accepted."""
    done = Counter((line.order, line.did) for line in found.bank)
    ends = Counter(order.stage for order in found.orders.values())
    wrong = [
        f"{name} ({order.stage})"
        for name, order in found.orders.items()
        if not _as_it_ended(name, order, done)
    ]
    doubtful = {name: order for name, order in found.orders.items() if order.stage == "refund in doubt"}
    reported = Counter(report.order for report in found.reports.open)
    unpaid = sum(order.cents for name, order in doubtful.items() if not done[name, "refund"])
    earned = sum(order.cents for order in found.orders.values() if order.stage == "shipped")
    kept = sum(line.cents if line.did == "charge" else -line.cents for line in found.bank)
    twice = [order for (order, did), times in done.items() if did == "refund" and times > 1]
    shipped = {name for name, order in found.orders.items() if order.stage == "shipped"}
    return [
        Finding(
            len(found.orders) == placed and all(order.stage in ENDS for order in found.orders.values()),
            f"{len(found.orders)} of {placed} orders have ended: "
            + ", ".join(f"{count} {stage}" for stage, count in sorted(ends.items())),
        ),
        Finding(not wrong, f"the bank did for each order what its agent says{_named(wrong)}"),
        Finding(
            kept == earned + unpaid,
            f"the bank holds {_money(kept)}: {_money(earned)} of shipped orders and {_money(unpaid)} of doubtful "
            "refunds that did not take place",
        ),
        Finding(not twice, f"no refund was repeated{_named(twice)}"),
        Finding(
            reported == Counter(doubtful.keys()),
            f"{len(doubtful)} doubtful refunds, each reported to the desk once",
        ),
        Finding(
            set(found.shelf.reserved) == shipped and _all_goods(found.shelf) == STOCK,
            f"the goods of {len(shipped)} shipped orders are gone from the warehouse, all others are there",
        ),
        Finding(not found.dead_letters, f"no dead letter{_named(found.dead_letters)}"),
        Finding(found.open_effects == 0, f"{found.open_effects} effects left"),
    ]


def _as_it_ended(name: str, order: Order, done: Mapping[tuple[str, str], int]) -> bool:
    if order.stage not in DID:
        return False
    charges, refunds, parcels = DID[order.stage]
    return (
        done[name, "charge"] == charges
        and done[name, "refund"] in refunds
        and done[name, "parcel"] == parcels
    )


def _all_goods(shelf: Shelf) -> dict[str, int]:
    """On the shelf and gone."""
    goods = dict(shelf.stock)
    for item, quantity in shelf.reserved.values():
        goods[item] += quantity
    return goods


def _named(names: Sequence[str]) -> str:
    return f", but: {', '.join(names[:5])}" if names else ""


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"
