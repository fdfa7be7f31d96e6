"""Lesson 1: an agent is a state and handlers; a transition is a function that you call in a test."""

from __future__ import annotations

import pytest

from regrow import Agent, Context, Emit, Payload, Reject, Signal, State, Step, handles
from regrow.errors import BadInput, Unhandled


class TicketOpened(Payload, type="ticket.opened"):
    subject: str


class InvoiceDue(Payload, type="invoice.due"):
    subject: str


class Desk(State):
    open: int = 0
    last_seen: str = ""


class Support(Agent[Desk], name="support"):
    @handles(TicketOpened)
    def opened(self, desk: Desk, ticket: TicketOpened, ctx: Context) -> Step[Desk]:
        return desk.evolve(open=desk.open + 1), Emit(InvoiceDue(subject=ticket.subject), to="billing")

    @handles("ticket.closed")
    def closed(self, desk: Desk, signal: Signal) -> Step[Desk]:
        if desk.open == 0:
            raise Reject("no ticket is open")
        return desk.evolve(open=desk.open - 1)

    @handles("ticket.**")
    def anything_else(self, desk: Desk, signal: Signal, ctx: Context) -> Step[Desk]:
        return desk.evolve(last_seen=f"{signal.type} at {ctx.now:%Y-%m-%d}")


def test_opened() -> None:  # no Redis, no process
    state, directives = Support.cmd(Desk(), TicketOpened(subject="x"))

    assert state.open == 1
    assert directives == [Emit(InvoiceDue(subject="x"), to="billing")]


def test_a_state_is_never_changed_only_evolved() -> None:
    before = Desk(open=1)

    after, _ = Support.cmd(before, TicketOpened(subject="x"))

    assert (before.open, after.open) == (1, 2)


def test_a_typing_mistake_is_answered_with_a_hint() -> None:
    with pytest.raises(BadInput, match="did you mean 'open'"):
        Desk().evolve(opne=1)


def test_one_handler_runs_the_most_specific() -> None:
    closed, _ = Support.cmd(Desk(open=1), Signal.of("ticket.closed"))
    moved, _ = Support.cmd(Desk(open=1), Signal.of("ticket.queue.moved"))

    assert closed == Desk(open=0)
    assert moved == Desk(open=1, last_seen="ticket.queue.moved at 2020-01-01")


def test_a_signal_that_is_wrong_is_rejected() -> None:
    with pytest.raises(Reject, match="no ticket is open"):
        Support.cmd(Desk(open=0), Signal.of("ticket.closed"))


def test_a_signal_that_nobody_handles() -> None:
    with pytest.raises(Unhandled, match=r"no handler for 'invoice\.due'"):
        Support.cmd(Desk(), InvoiceDue(subject="x"))
