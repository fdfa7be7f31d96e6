"""The feed of tickets as the helpdesk reads it: each line with what has to become of it.

``expected`` says, from the file alone, which tickets are applied in which order, which are dead-lettered and which
never become a signal. The demo compares that with Redis and the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from .app import TicketOpened, chain

__all__ = ["TICKETS", "Expected", "Fate", "Line", "expected", "poison_ticket", "read_lines"]

TICKETS: Final = Path(__file__).with_name("tickets.jsonl")


class Fate(StrEnum):
    """What has to become of a line that is fed once, in order."""

    APPLIED = "applied"
    DEAD = "dead"
    """Strict JSON, so it is accepted as a signal; but no ticket, so the agent dead-letters it."""
    REFUSED = "refused"
    """No JSON object at all, or not strictly one: never sent."""
    DUPLICATE = "duplicate"
    """The same ticket once more: answered with the first one's receipt."""
    CONFLICT = "conflict"
    """A ticket's number with other content: refused at the door."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the feed. ``signal_id`` and ``data`` are empty for what is no signal; ``why`` says what is wrong."""

    number: int
    text: str
    fate: Fate
    signal_id: str = ""
    data: dict[str, Any] | None = None
    ticket: TicketOpened | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """What Redis and the ledger have to say in the end."""

    applied: tuple[str, ...]
    dead: tuple[str, ...]
    invoices: dict[str, tuple[str, int, str]]
    """Ticket: customer, amount, currency."""
    digest: str
    """``Desk.digest`` after all applied tickets, in order."""


def read_lines(path: Path = TICKETS) -> list[Line]:
    """Every line of the feed, judged."""
    judged: list[Line] = []
    sent: dict[str, dict[str, Any]] = {}
    with path.open(encoding="utf-8") as file:
        for number, raw in enumerate(file, start=1):
            line = judge(number, raw.rstrip("\n"), sent)
            if line.data is not None:
                sent.setdefault(line.signal_id, line.data)
            judged.append(line)
    return judged


def judge(number: int, text: str, sent: dict[str, dict[str, Any]]) -> Line:
    """The fate of one line, given what was sent before it."""
    try:
        data = strict_object(text)
    except ValueError as error:
        return Line(number, text, Fate.REFUSED, why=str(error))
    named = data.get("ticket")
    signal_id = named if isinstance(named, str) and named.startswith("T-") else f"line-{number}"
    if signal_id in sent:
        fate = Fate.DUPLICATE if sent[signal_id] == data else Fate.CONFLICT
        return Line(number, text, fate, signal_id, data, why=f"{signal_id} was sent before")
    try:
        # As the worker reads it: from JSON text.
        ticket = TicketOpened.model_validate_json(json.dumps(data))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return Line(number, text, Fate.DEAD, signal_id, data, why=f"{where}: {first['msg']}")
    return Line(number, text, Fate.APPLIED, signal_id, data, ticket)


def strict_object(text: str) -> dict[str, Any]:
    """The JSON object in ``text``; ``ValueError`` where it is none or not strict JSON."""
    value: object = json.loads(text, parse_constant=no_constant)
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004  one kind of error for a line that is no ticket
    # A lone surrogate reads as JSON, but no UTF-8 can be made of it.
    json.dumps(value, ensure_ascii=False).encode()
    return cast("dict[str, Any]", value)


def no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def expected(lines: Iterable[Line]) -> Expected:
    """The end of a run in which every line was fed once, in order, and every other signal came besides."""
    applied: list[str] = []
    dead: list[str] = []
    invoices: dict[str, tuple[str, int, str]] = {}
    digest = ""
    for line in lines:
        if line.fate is Fate.DEAD:
            dead.append(line.signal_id)
        ticket = line.ticket
        if ticket is None:
            continue
        applied.append(ticket.ticket)
        digest = chain(digest, ticket.ticket)
        if ticket.amount is not None:
            invoices[ticket.ticket] = (ticket.customer, ticket.amount, ticket.currency)
    return Expected(tuple(applied), tuple(dead), invoices, digest)


def poison_ticket() -> TicketOpened:
    """A ticket that takes down whichever process reads it."""
    return TicketOpened(
        ticket="T-6666",
        subject="Please see the attached",
        customer="Kestrel Freight",
        language="en",
        priority="urgent",
        channel="mail",
        attachment="winmail.dat",
    )
