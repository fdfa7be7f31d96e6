"""The program of the design page, word for word: it must type-check under ``mypy --strict`` and pyright strict. Not run."""

# fmt: off
# ruff: noqa
from regrow import Agent, Client, Context, Emit, Payload, State, Step, Supervisor, handles

class TicketOpened(Payload, type="ticket.opened"):          # pydantic model of the signal's data
    subject: str

class InvoiceDue(Payload, type="invoice.due"):
    subject: str

class Desk(State):                                          # frozen pydantic model: the agent's whole memory
    open: int = 0

class Support(Agent[Desk], name="support"):                 # name: what Redis knows; aliases=(...) after a rename
    @handles(TicketOpened)                                  # or @handles("ticket.*") with `signal: Signal`
    def opened(self, desk: Desk, ticket: TicketOpened, ctx: Context) -> Step[Desk]:     # ctx may be left out
        return desk.evolve(open=desk.open + 1), Emit(InvoiceDue(subject=ticket.subject), to="billing")

class Invoices(State):
    due: tuple[str, ...] = ()

class Billing(Agent[Invoices], name="billing"):
    @handles(InvoiceDue)
    def due(self, state: Invoices, invoice: InvoiceDue) -> Step[Invoices]:
        return state.evolve(due=(*state.due, invoice.subject))

tree = Supervisor("helpdesk", [Support.child("support"), Billing.child("billing")], strategy="one_for_one")

with Client.from_env() as client:                           # AsyncClient: the same methods, awaited
    receipt = client.send("support", TicketOpened(subject="printer on fire"), id="t-17")    # or ("support", "ticket.opened", {...})
    receipt.wait(timeout=5)                                 # applied | dead(reason) | pending
    client.state("support", Support).open

def test_opened() -> None:                                  # no Redis, no process
    state, directives = Support.cmd(Desk(), TicketOpened(subject="x"))
    assert state.open == 1 and directives == [Emit(InvoiceDue(subject="x"), to="billing")]
