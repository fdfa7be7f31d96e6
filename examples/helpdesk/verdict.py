"""The demo's verdict: what Redis and the ledger hold against what the file of tickets says must be there. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .app import Desk, Invoices
from .ledger import Entry
from .tickets import Expected, Fate, Line

__all__ = ["Evidence", "Finding", "judge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was read after everything had settled."""

    desk: Desk
    invoices: Invoices
    dead: Mapping[str, str]
    """Signal id: reason."""

    ledger: Sequence[Entry]
    billing_incarnation: int
    support_incarnation: int
    deaths: int
    refused: Mapping[Fate, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that must hold."""

    holds: bool
    text: str


def judge(found: Evidence, wanted: Expected, lines: Sequence[Line], poison: str) -> list[Finding]:
    """Every finding, those that hold and those that do not."""
    return [
        _applied(found, wanted),
        _dead(found, wanted, poison),
        _door(found, lines),
        *_ledger(found, wanted),
        Finding(
            found.invoices.booked == len(wanted.invoices) and not found.invoices.failed,
            f"billing heard that {found.invoices.booked} of {len(wanted.invoices)} invoices are booked, "
            f"{len(found.invoices.failed)} failed",
        ),
        Finding(
            found.billing_incarnation == 1,
            f"billing noticed nothing: it is in incarnation {found.billing_incarnation}",
        ),
        Finding(
            found.support_incarnation == found.deaths + 1,
            f"support died {found.deaths} times and is in incarnation {found.support_incarnation}: one restart a death",
        ),
    ]


def _applied(found: Evidence, wanted: Expected) -> Finding:
    right = (
        found.desk.opened == len(wanted.applied)
        and found.desk.digest == wanted.digest
        and found.desk.recent == wanted.applied[-len(found.desk.recent) :]
    )
    return Finding(
        right,
        f"{found.desk.opened} of {len(wanted.applied)} tickets applied once and in order "
        f"(digest {found.desk.digest}, expected {wanted.digest})",
    )


def _dead(found: Evidence, wanted: Expected, poison: str) -> Finding:
    expected_ids = {*wanted.dead, poison}
    reasons = Counter(reason.partition(":")[0] for reason in found.dead.values())
    return Finding(
        set(found.dead) == expected_ids and all(found.dead.values()),
        f"{len(found.dead)} of {len(expected_ids)} wrong tickets in the dead letters, each with its reason: "
        + ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items())),
    )


def _door(found: Evidence, lines: Sequence[Line]) -> Finding:
    fates = Counter(line.fate for line in lines)
    at_the_door = (Fate.REFUSED, Fate.CONFLICT, Fate.DUPLICATE)
    return Finding(
        all(found.refused[fate] == fates[fate] for fate in at_the_door),
        f"at the door: {found.refused[Fate.REFUSED]} lines refused as not JSON, {found.refused[Fate.CONFLICT]} for an "
        f"id with other content, {found.refused[Fate.DUPLICATE]} known already",
    )


def _ledger(found: Evidence, wanted: Expected) -> list[Finding]:
    by_effect = Counter(entry.effect for entry in found.ledger)
    written = {entry.ticket: (entry.customer, entry.amount, entry.currency) for entry in found.ledger}
    doubled = len(found.ledger) - len(written)
    return [
        Finding(
            written == wanted.invoices,
            f"{len(written)} of {len(wanted.invoices)} invoices in the ledger, with the right customer and amount",
        ),
        Finding(
            doubled == 0 and all(count == 1 for count in by_effect.values()),
            f"{doubled} invoices twice in the ledger; {len(by_effect)} effect ids, each once",
        ),
    ]
