"""Lesson 3: a whole tree in a test, without Redis, without processes, in milliseconds."""

from __future__ import annotations

from regrow import Agent, Emit, Payload, State, Step, Supervisor, handles
from regrow.testing import Harness


class TicketOpened(Payload, type="ticket.opened"):
    subject: str


class InvoiceDue(Payload, type="invoice.due"):
    subject: str


class Desk(State):
    open: int = 0


class Support(Agent[Desk], name="support"):
    @handles(TicketOpened)
    def opened(self, desk: Desk, ticket: TicketOpened) -> Step[Desk]:
        return desk.evolve(open=desk.open + 1), Emit(InvoiceDue(subject=ticket.subject), to="billing")


class Invoices(State):
    due: tuple[str, ...] = ()


class Billing(Agent[Invoices], name="billing"):
    @handles(InvoiceDue)
    def due(self, state: Invoices, invoice: InvoiceDue) -> Step[Invoices]:
        return state.evolve(due=(*state.due, invoice.subject))


tree = Supervisor("helpdesk", [Support.child("support"), Billing.child("billing")])


def test_a_ticket_becomes_an_invoice_though_billing_is_killed_on_it() -> None:
    helpdesk = Harness(tree)
    helpdesk.kill("billing", at="in_handler")

    helpdesk.send("support", TicketOpened(subject="printer on fire"))
    helpdesk.run()

    assert helpdesk.state("support", Support).open == 1
    assert helpdesk.state("billing", Billing).due == ("printer on fire",)
    assert helpdesk.incarnation("billing") == 2
