"""Sending into mailboxes, on a real server: what is accepted, what is refused, and that a refusal leaves no trace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from regrow_signals.connection import Connection
from regrow_signals.errors import (
    BadId,
    BadInput,
    CorruptKey,
    DeadLettersFull,
    IdConflict,
    MailboxExhausted,
    MailboxFull,
    NoSuchAgent,
)
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.mailbox import BULK, Outgoing, Receipt, send, send_many
from regrow_signals.signal import Signal
from tests.integration.conftest import Unchanged

LAST_ID = "18446744073709551615-18446744073709551615"


@pytest.fixture(autouse=True)
def support(raw: Any, keys: Keys) -> None:
    register(raw, keys, "support")


def register(raw: Any, keys: Keys, agent: str, **fields: str) -> None:
    raw.hset(keys.agent(agent), mapping={"birth": f"b-{agent}", "type": "desk", "cursor": "0-0", **fields})


def ticket(n: int = 1, signal_id: str | None = None) -> Signal:
    return Signal.of("ticket.opened", {"n": n}, id=signal_id)


def test_accepted_signal_lies_in_the_mailbox_readable(
    connection: Connection, raw: Any, keys: Keys, limits: Limits
) -> None:
    receipt = connection.call(send(keys, limits, "support", ticket(1, "t-1")))

    [(entry, fields)] = raw.xrange(keys.mailbox("support"))
    at_ms = fields.pop("at_ms")
    assert fields == {"id": "t-1", "type": "ticket.opened", "source": "regrow:client", "data": '{"n":1}'}
    assert entry == receipt.entry and entry.startswith(at_ms)
    assert receipt == Receipt("support", "t-1", entry, "b-support", duplicate=False, remembered=True)
    assert raw.hgetall(keys.counters) == {"signals_accepted_total|type=desk": "1"}


def test_entry_read_back_is_the_signal_sent(connection: Connection, keys: Keys, limits: Limits) -> None:
    signal = Signal.of("a.b", {"x": "ü\0"}, subject="s", traceparent="00-1-2-3", hops=3, replyto="r-1")
    connection.call(send(keys, limits, "support", signal))

    [(_, fields)] = connection.read_stream(keys.mailbox("support"), "0-0", count=10)

    assert Signal.from_fields(fields) == signal


def test_unknown_agent_is_refused_and_gets_no_mailbox(
    connection: Connection, keys: Keys, limits: Limits, unchanged: Unchanged
) -> None:
    with unchanged(), pytest.raises(NoSuchAgent, match="no agent suport is registered"):
        connection.call(send(keys, limits, "suport", ticket()))


@pytest.mark.parametrize("agent", ["", "a b", "a*", "{x}", "}x", "a\n", "ü", ".a", "x" * 201])
def test_id_that_could_leave_its_key_is_refused_before_sending(
    agent: str, keys: Keys, limits: Limits
) -> None:
    with pytest.raises(BadId):
        send(keys, limits, agent, ticket())


def test_full_mailbox_is_refused_at_the_agents_own_bound(
    connection: Connection, raw: Any, keys: Keys, limits: Limits, unchanged: Unchanged
) -> None:
    raw.hset(keys.agent("support"), "max_mailbox", "2")
    for n in range(2):
        connection.call(send(keys, limits, "support", ticket(n)))

    with unchanged(), pytest.raises(MailboxFull, match="2 signals wait, 2 is its bound"):
        connection.call(send(keys, limits, "support", ticket(3)))


def test_full_mailbox_is_refused_at_the_general_bound(
    connection: Connection, keys: Keys, limits: Limits, unchanged: Unchanged
) -> None:
    small = replace(limits, max_mailbox=1)
    connection.call(send(keys, small, "support", ticket()))

    with unchanged(), pytest.raises(MailboxFull):
        connection.call(send(keys, small, "support", ticket()))


def test_full_dead_letters_refuse_new_signals(
    connection: Connection, raw: Any, keys: Keys, limits: Limits, unchanged: Unchanged
) -> None:
    raw.xadd(keys.dead("support"), {"id": "x", "reason": "reject"})

    with unchanged(), pytest.raises(DeadLettersFull, match="1 dead letters, 1 is the bound"):
        connection.call(send(keys, replace(limits, max_dead=1), "support", ticket()))


def test_mailbox_with_the_last_possible_id_is_refused(
    connection: Connection, raw: Any, keys: Keys, limits: Limits, unchanged: Unchanged
) -> None:
    raw.xadd(keys.mailbox("support"), {"id": "x"}, id=LAST_ID)

    with unchanged(), pytest.raises(MailboxExhausted):
        connection.call(send(keys, limits, "support", ticket()))


def test_same_id_and_content_is_answered_with_its_receipt(
    connection: Connection, raw: Any, keys: Keys, limits: Limits, unchanged: Unchanged
) -> None:
    first = connection.call(send(keys, limits, "support", ticket(1, "t-1")))

    with unchanged():
        again = connection.call(send(keys, limits, "support", ticket(1, "t-1")))

    assert again == replace(first, duplicate=True)
    assert raw.xlen(keys.mailbox("support")) == 1


def test_known_id_is_answered_even_when_the_mailbox_is_full(
    connection: Connection, keys: Keys, limits: Limits
) -> None:
    small = replace(limits, max_mailbox=1)
    connection.call(send(keys, small, "support", ticket(1, "t-1")))

    assert connection.call(send(keys, small, "support", ticket(1, "t-1"))).duplicate


def test_same_id_with_other_content_is_refused(
    connection: Connection, keys: Keys, limits: Limits, unchanged: Unchanged
) -> None:
    connection.call(send(keys, limits, "support", ticket(1, "t-1")))

    with unchanged(), pytest.raises(IdConflict, match="t-1"):
        connection.call(send(keys, limits, "support", ticket(2, "t-1")))


def test_full_generation_of_ids_becomes_the_old_one_and_is_still_known(
    connection: Connection, raw: Any, keys: Keys, limits: Limits
) -> None:
    few = replace(limits, dedupe_ids=2)
    for n in range(3):
        connection.call(send(keys, few, "support", ticket(n, f"t-{n}")))

    assert set(raw.hkeys(keys.seen_old("support"))) == {".since", "t-0", "t-1"}
    assert set(raw.hkeys(keys.seen("support"))) == {".since", "t-2"}
    assert connection.call(send(keys, few, "support", ticket(0, "t-0"))).duplicate


def test_ids_are_forgotten_after_two_windows(
    connection: Connection, raw: Any, keys: Keys, limits: Limits
) -> None:
    connection.call(send(keys, limits, "support", ticket(1, "t-1")))

    assert 0 < raw.pttl(keys.seen("support")) <= 2 * limits.dedupe_window_ms


def test_old_generation_is_turned_over_by_age(
    connection: Connection, raw: Any, keys: Keys, limits: Limits
) -> None:
    connection.call(send(keys, limits, "support", ticket(1, "t-1")))
    since = int(raw.hget(keys.seen("support"), ".since") or 0)
    raw.hset(keys.seen("support"), ".since", str(since - limits.dedupe_window_ms))

    connection.call(send(keys, limits, "support", ticket(2, "t-2")))

    assert "t-1" in raw.hkeys(keys.seen_old("support"))
    assert raw.hkeys(keys.seen("support")) == [".since", "t-2"]


def test_entry_is_never_at_or_before_the_cursor(
    connection: Connection, raw: Any, keys: Keys, limits: Limits
) -> None:
    raw.hset(
        keys.agent("support"), "cursor", "9999999999999-7"
    )  # the mailbox was deleted by hand, the clock set back

    receipt = connection.call(send(keys, limits, "support", ticket()))

    assert receipt.entry == "9999999999999-8"
    assert connection.call(send(keys, limits, "support", ticket())).entry == "9999999999999-9"


@pytest.mark.parametrize(
    ("cursor", "entry"),
    [
        ("9999999999999-99", "9999999999999-100"),
        ("9999999999999-18446744073709551615", "10000000000000-0"),
        ("9999999999999-18446744073709551614", "9999999999999-18446744073709551615"),
    ],
)
def test_next_entry_counts_in_64_bits(
    cursor: str, entry: str, connection: Connection, raw: Any, keys: Keys, limits: Limits
) -> None:
    raw.hset(keys.agent("support"), "cursor", cursor)

    assert connection.call(send(keys, limits, "support", ticket())).entry == entry


@pytest.mark.parametrize("name", ["agent", "mailbox", "dead", "seen", "seen_old", "fate"])
def test_key_of_the_wrong_type_is_named_and_nothing_changes(
    name: str, connection: Connection, raw: Any, keys: Keys, limits: Limits, unchanged: Unchanged
) -> None:
    key: str = getattr(keys, name)("support")
    raw.set(key, "by hand")

    with unchanged(), pytest.raises(CorruptKey) as caught:
        connection.call(send(keys, limits, "support", ticket()))
    assert key in str(caught.value)


def test_spoilt_counter_refuses_no_signal(
    connection: Connection, raw: Any, keys: Keys, limits: Limits
) -> None:
    raw.set(keys.counters, "by hand")

    assert connection.call(send(keys, limits, "support", ticket())).entry


def test_many_signals_to_many_agents_stand_each_alone(
    connection: Connection, raw: Any, keys: Keys, limits: Limits
) -> None:
    register(raw, keys, "billing", max_mailbox="1")
    register(raw, keys, "broken")
    raw.set(keys.mailbox("broken"), "by hand")
    signals = [
        Outgoing("support", ticket(1), remember=False),
        Outgoing("billing", ticket(2), remember=False),
        Outgoing("billing", ticket(3), remember=False),
        Outgoing("nobody", ticket(4), remember=False),
        Outgoing("broken", ticket(5), remember=False),
        Outgoing("support", ticket(6, "t-6")),
        Outgoing("support", ticket(6, "t-6")),
    ]

    results = connection.call(send_many(keys, limits, signals))

    kinds = [type(result) for result in results]
    assert kinds == [Receipt, Receipt, MailboxFull, NoSuchAgent, CorruptKey, Receipt, Receipt]
    assert [result.duplicate for result in results[-2:] if isinstance(result, Receipt)] == [False, True]
    assert raw.xlen(keys.mailbox("support")) == 2
    assert raw.hkeys(keys.seen("support")) == [".since", "t-6"]
    assert raw.hgetall(keys.counters) == {"signals_accepted_total|type=desk": "3"}


def test_bulk_call_is_bounded(keys: Keys, limits: Limits) -> None:
    signal = ticket()
    with pytest.raises(BadInput, match=str(BULK)):
        send_many(keys, limits, [Outgoing("support", signal)] * (BULK + 1))


def test_full_bulk_call_is_accepted_in_one_round_trip(
    connection: Connection, raw: Any, keys: Keys, limits: Limits
) -> None:
    signals = [Outgoing("support", ticket(n), remember=False) for n in range(BULK)]

    results = connection.call(send_many(keys, limits, signals))

    entries = [result.entry for result in results if isinstance(result, Receipt)]
    assert len(entries) == BULK
    assert [entry for entry, _ in raw.xrange(keys.mailbox("support"))] == entries
