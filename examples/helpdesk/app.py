"""The helpdesk's two agents under one supervisor: ``regrow up examples.helpdesk.app:tree``.

``support`` takes tickets, keeps what it saw in order, and tells ``billing`` what is to be paid. ``billing`` orders an
effect for each invoice, which writes it into a ledger behind HTTP, and hears what became of it.
"""

from __future__ import annotations

import hashlib
import os
import signal
from typing import Annotated, Final, Literal

from pydantic import Field

from regrow import (
    Agent,
    Done,
    EffectContext,
    Emit,
    Failed,
    Payload,
    Reject,
    State,
    Step,
    Supervisor,
    effect,
    handles,
)

from . import ledger

__all__ = [
    "POISON_ATTACHMENT",
    "Billing",
    "Booking",
    "Desk",
    "InvoiceDue",
    "Invoices",
    "Support",
    "TicketOpened",
    "chain",
    "tree",
    "write_ledger",
]

POISON_ATTACHMENT: Final = "winmail.dat"
"""An attachment of this name takes the process down, as a bug in a native parser would."""

RECENT: Final = 1_000

TicketId = Annotated[str, Field(pattern=r"^T-[0-9]{4,8}$")]
Customer = Annotated[str, Field(min_length=1, max_length=80)]
Amount = Annotated[int, Field(ge=1, le=100_000_000)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]


class TicketOpened(Payload, type="ticket.opened"):
    """A customer wrote to us. ``amount`` is what it costs them, in the currency's smallest unit, if anything."""

    ticket: TicketId
    subject: Annotated[str, Field(min_length=1, max_length=200)]
    customer: Customer
    language: Annotated[str, Field(pattern=r"^[a-z]{2}$")]
    priority: Literal["low", "normal", "high", "urgent"]
    channel: Literal["mail", "chat", "phone", "web"]
    amount: Amount | None = None
    currency: Currency = "EUR"
    attachment: Annotated[str, Field(max_length=200)] = ""


class InvoiceDue(Payload, type="invoice.due"):
    """Support asks billing for an invoice; one a ticket, under the ticket's number."""

    ticket: TicketId
    customer: Customer
    amount: Amount
    currency: Currency


class Desk(State):
    """What support remembers. ``digest`` chains every ticket's number in order, so order can be checked for ever."""

    opened: int = 0
    digest: str = ""
    recent: tuple[str, ...] = ()
    by_language: dict[str, int] = Field(default_factory=dict)
    by_priority: dict[str, int] = Field(default_factory=dict)


class Support(Agent[Desk], name="support"):
    """Counts tickets, keeps their order, hands what costs money to billing."""

    @handles(TicketOpened)
    def opened(self, desk: Desk, ticket: TicketOpened) -> Step[Desk]:
        read_attachment(ticket.attachment)
        after = desk.evolve(
            opened=desk.opened + 1,
            digest=chain(desk.digest, ticket.ticket),
            recent=(*desk.recent, ticket.ticket)[-RECENT:],
            by_language=one_more(desk.by_language, ticket.language),
            by_priority=one_more(desk.by_priority, ticket.priority),
        )
        if ticket.amount is None:
            return after
        due = InvoiceDue(
            ticket=ticket.ticket, customer=ticket.customer, amount=ticket.amount, currency=ticket.currency
        )
        return after, Emit(due, to="billing")


def chain(digest: str, ticket: str) -> str:
    """The digest after one ticket more."""
    return hashlib.sha256(f"{digest} {ticket}".encode()).hexdigest()[:16]


def one_more(counts: dict[str, int], key: str) -> dict[str, int]:
    """A new dict: the state that a handler is given is never changed."""
    return {**counts, key: counts.get(key, 0) + 1}


def read_attachment(name: str) -> None:
    """Stands for a native parser that has a bug: no exception, the process is gone."""
    if name == POISON_ATTACHMENT:
        os.kill(os.getpid(), signal.SIGSEGV)


class Booking(Payload):
    """The ledger's answer. ``written_before``: an earlier try had written it, its answer was lost."""

    ticket: str
    written_before: bool


@effect(timeout=10, retries=8, backoff=0.2)
def write_ledger(run: EffectContext, ticket: str, customer: str, amount: int, currency: str) -> Booking:
    """Append an invoice to the ledger. ``run.id`` is the same on every try, so the ledger writes it once."""
    entry = ledger.Entry(effect=run.id, ticket=ticket, customer=customer, amount=amount, currency=currency)
    return Booking(ticket=ticket, written_before=ledger.append(entry))


class Invoices(State):
    """What billing remembers: invoices under way, and what became of the others."""

    due: int = 0
    under_way: tuple[str, ...] = ()
    booked: int = 0
    failed: tuple[str, ...] = ()


class Billing(Agent[Invoices], name="billing"):
    """Orders one ledger entry for each invoice; keeps those that could not be written."""

    @handles(InvoiceDue)
    def due(self, state: Invoices, invoice: InvoiceDue) -> Step[Invoices]:
        if invoice.ticket in state.under_way:
            raise Reject(f"the invoice for {invoice.ticket} is under way already")
        after = state.evolve(due=state.due + 1, under_way=(*state.under_way, invoice.ticket))
        return after, write_ledger.run(invoice.ticket, invoice.customer, invoice.amount, invoice.currency)

    @handles(write_ledger.done)
    def booked(self, state: Invoices, done: Done[Booking]) -> Step[Invoices]:
        return settled(state, done.result.ticket).evolve(booked=state.booked + 1)

    @handles(write_ledger.failed)
    def not_booked(self, state: Invoices, failed: Failed) -> Step[Invoices]:
        return state.evolve(failed=(*state.failed, failed.effect)[-RECENT:])


def settled(state: Invoices, ticket: str) -> Invoices:
    return state.evolve(under_way=tuple(one for one in state.under_way if one != ticket))


# 20 restarts in 10 s, because the demo kills `support` five times and sends it poison within a few seconds.
tree = Supervisor(
    "helpdesk",
    [Support.child("support"), Billing.child("billing")],
    strategy="one_for_one",
    max_restarts=20,
    max_seconds=10,
)
