"""The helpdesk example: its transitions, its feed of tickets, and the ledger that is slow for some customers."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from examples.helpdesk import ledger, make_tickets
from examples.helpdesk.app import (
    Billing,
    Booking,
    Desk,
    InvoiceDue,
    Invoices,
    Support,
    TicketOpened,
    chain,
    tree,
    write_ledger,
)
from examples.helpdesk.ledger_stub import SLOW_CUSTOMERS, Ledger, LedgerServer
from examples.helpdesk.tickets import TICKETS, Fate, expected, read_lines
from regrow import EffectContext, Emit, Reject

QUICK = 0.05
"""Seconds that these tests wait for an answer that never comes."""

PLAIN = {"effect": "e-1", "ticket": "T-1", "customer": "x", "amount": 1, "currency": "EUR"}


def ticket(number: int, **changes: object) -> TicketOpened:
    plain = {
        "ticket": f"T-{number}",
        "subject": "Printer on fire (again)",
        "customer": "Kestrel Freight",
        "language": "en",
        "priority": "high",
        "channel": "mail",
    }
    return TicketOpened.model_validate(plain | changes)


def entry(effect: str, customer: str = "Kestrel Freight", amount: int = 4_900) -> ledger.Entry:
    return ledger.Entry(effect=effect, ticket="T-4101", customer=customer, amount=amount, currency="GBP")


def test_support_keeps_tickets_in_order() -> None:
    desk = Desk()

    for number in (4101, 4102, 4103):
        desk, directives = Support.cmd(desk, ticket(number))
        assert directives == []

    assert desk.recent == ("T-4101", "T-4102", "T-4103")
    assert desk.digest == chain(chain(chain("", "T-4101"), "T-4102"), "T-4103")
    assert (desk.opened, desk.by_language, desk.by_priority) == (3, {"en": 3}, {"high": 3})


def test_digest_tells_two_orders_apart() -> None:
    assert chain(chain("", "T-4101"), "T-4102") != chain(chain("", "T-4102"), "T-4101")


def test_ticket_with_an_amount_makes_an_invoice_due() -> None:
    _, directives = Support.cmd(Desk(), ticket(4101, amount=4_900, currency="GBP"))

    due = InvoiceDue(ticket="T-4101", customer="Kestrel Freight", amount=4_900, currency="GBP")
    assert directives == [Emit(due, to="billing")]


def test_billing_orders_one_ledger_entry_and_hears_of_it() -> None:
    due = InvoiceDue(ticket="T-4101", customer="Kestrel Freight", amount=4_900, currency="GBP")

    state, directives = Billing.cmd(Invoices(), due)
    assert directives == [write_ledger.run("T-4101", "Kestrel Freight", 4_900, "GBP")]
    assert state.under_way == ("T-4101",)
    with pytest.raises(Reject, match="T-4101 is under way already"):
        Billing.cmd(state, due)

    booking = Booking(ticket="T-4101", written_before=False)
    after, directives = Billing.cmd(state, write_ledger.done(effect="e-1", result=booking))
    assert directives == []
    assert after == Invoices(due=1, booked=1)


def test_billing_keeps_what_could_not_be_written() -> None:
    failed = write_ledger.failed(effect="e-1", error="LedgerError: away", attempts=9)

    state, directives = Billing.cmd(Invoices(due=1, under_way=("T-4101",)), failed)

    assert directives == []
    assert (state.failed, state.under_way) == (("e-1",), ("T-4101",))


def test_poison_ticket_takes_the_process_down() -> None:
    program = (
        "from examples.helpdesk.app import Desk, Support; from examples.helpdesk.tickets import poison_ticket; "
        "Support.cmd(Desk(), poison_ticket())"
    )
    roots = [str(path) for path in sys.path if path]

    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {roots!r}; {program}"],
        capture_output=True,
        timeout=30,
        check=False,
    )

    assert ended.returncode == -signal.SIGSEGV, ended.stderr.decode()


def test_tree_holds_both_agents() -> None:
    assert tree.name == "helpdesk"
    assert set(tree.agent_types()) == {"support", "billing"}


def test_ticket_file_is_what_its_maker_writes() -> None:
    assert TICKETS.read_text(encoding="utf-8").splitlines() == make_tickets.lines()


def test_feed_has_good_and_bad_lines_of_every_kind() -> None:
    lines = read_lines()

    fates = Counter(line.fate for line in lines)
    assert fates == {Fate.APPLIED: 300, Fate.DEAD: 9, Fate.REFUSED: 5, Fate.DUPLICATE: 1, Fate.CONFLICT: 1}
    assert all(line.why for line in lines if line.fate is not Fate.APPLIED)
    languages = Counter(line.ticket.language for line in lines if line.ticket is not None)
    assert set(languages) == {"en", "de", "fr", "es", "ja", "pl"}


def test_expected_end_follows_from_the_feed_and_the_transitions() -> None:
    lines = read_lines()
    ending = expected(lines)

    desk, invoices = Desk(), Invoices()
    for line in lines:
        if line.ticket is not None:
            desk, directives = Support.cmd(desk, line.ticket)
            for emit in directives:
                assert isinstance(emit, Emit)
                invoices, runs = Billing.cmd(invoices, InvoiceDue.model_validate(emit.data))
                assert len(runs) == 1

    assert desk.recent == ending.applied
    assert desk.digest == ending.digest
    assert invoices.under_way == tuple(ending.invoices)
    assert len(ending.dead) == 9
    slow = {customer for customer, _, _ in ending.invoices.values()} & SLOW_CUSTOMERS
    assert slow == SLOW_CUSTOMERS, "every slow customer has an invoice, or the demo shows nothing of it"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LedgerServer]:
    made = LedgerServer(Ledger(tmp_path / "ledger.jsonl"))
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.ended.set()
    made.shutdown()
    thread.join()
    made.server_close()


def test_ledger_writes_an_entry_once(server: LedgerServer, tmp_path: Path) -> None:
    assert ledger.append(entry("e-1"), address=server.address) is False
    assert ledger.append(entry("e-1"), address=server.address) is True
    assert ledger.append(entry("e-2"), address=server.address) is False

    assert ledger.read_ledger(tmp_path / "ledger.jsonl") == [entry("e-1"), entry("e-2")]


def test_ledger_is_silent_three_times_and_writes_once_for_a_slow_customer(
    server: LedgerServer, tmp_path: Path
) -> None:
    slow = entry("e-1", customer="株式会社青葉")

    for _ in range(3):
        with pytest.raises(ledger.LedgerError, match="did not answer within"):
            ledger.append(slow, address=server.address, timeout=QUICK)

    assert ledger.append(slow, address=server.address) is True, "an unanswered try had written it"
    assert ledger.read_ledger(tmp_path / "ledger.jsonl") == [slow]


def test_ledger_knows_its_entries_after_a_restart(server: LedgerServer, tmp_path: Path) -> None:
    ledger.append(entry("e-1"), address=server.address)

    again = Ledger(tmp_path / "ledger.jsonl")

    assert again.append(entry("e-1")) is True
    with pytest.raises(ValueError, match="key e-1 was used for another entry"):
        again.append(entry("e-1", amount=1))


@pytest.mark.parametrize(
    ("body", "key", "says"),
    [
        (b"{", "e-1", "not JSON"),
        (b"[]", "e-1", "an entry has the fields amount, currency, customer, effect, ticket"),
        (b"{}", "e-1", "an entry has the fields"),
        (json.dumps({**PLAIN, "amount": -1}).encode(), "e-1", "whole number of 1 or more"),
        (json.dumps(PLAIN).encode(), "e-2", "Idempotency-Key must be the entry's effect"),
    ],
)
def test_ledger_refuses_what_is_no_entry(server: LedgerServer, body: bytes, key: str, says: str) -> None:
    parts = urlsplit(server.address)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=5)

    connection.request("POST", "/entries", body, {"Idempotency-Key": key})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()

    assert response.status == 400
    assert says in text


def test_effect_returns_what_the_ledger_said(server: LedgerServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ledger.ADDRESS_VARIABLE, server.address)
    run = EffectContext(id="e-1")

    first = write_ledger(run, "T-4101", "Kestrel Freight", 4_900, "GBP")
    second = write_ledger(run, "T-4101", "Kestrel Freight", 4_900, "GBP")

    assert (first.written_before, second.written_before) == (False, True)


def test_missing_address_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ledger.ADDRESS_VARIABLE, raising=False)

    with pytest.raises(ledger.LedgerError, match="start python -m examples"):
        ledger.append(entry("e-1"))


def test_stub_ends_with_its_parent(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "examples.helpdesk.ledger_stub",
        "--ledger",
        str(tmp_path / "ledger.jsonl"),
    ]
    with subprocess.Popen(
        [*command, "--with-parent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=TICKETS.parents[2]
    ) as stub:
        assert stub.stdin is not None
        assert stub.stdout is not None
        address = stub.stdout.readline().decode().strip()

        assert ledger.append(entry("e-1"), address=address, timeout=5) is False
        stub.stdin.close()
        assert stub.wait(timeout=10) == 0
