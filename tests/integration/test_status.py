"""What became of a signal: status tells what Redis holds, and says unknown where nothing is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from regrow_signals.connection import Connection
from regrow_signals.errors import BadInput, MailboxFull, NoSuchAgent, Refused
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.mailbox import Receipt, Status, dead_drop, dead_retry, send, status
from regrow_signals.signal import Signal
from tests.integration.conftest import Unchanged


@pytest.fixture
def receipt(raw: Any, keys: Keys, limits: Limits, connection: Connection) -> Receipt:
    raw.hset(keys.agent("support"), mapping={"birth": "b-1", "type": "desk", "cursor": "0-0"})
    return connection.call(send(keys, limits, "support", Signal.of("ticket.opened", {"n": 1}, id="t-1")))


def apply_all(raw: Any, keys: Keys, entry: str) -> None:
    """What a commit does to the mailbox and the cursor."""
    raw.hset(keys.agent("support"), "cursor", entry)
    raw.xtrim(keys.mailbox("support"), minid=entry)
    raw.xdel(keys.mailbox("support"), entry)


def bury(raw: Any, keys: Keys, entry: str, **fields: str) -> str:
    """What a commit does with a signal that cannot be applied."""
    apply_all(raw, keys, entry)
    raw.hset(keys.fate("support"), "t-1", "dead reject")
    letter = {
        "entry": entry,
        "reason": "reject",
        "error": "no",
        "attempts": "1",
        "dead_ms": "2",
        "at_ms": "1",
    }
    own = {"id": "t-1", "type": "ticket.opened", "source": "x", "data": '{"n":1}'}
    return str(raw.xadd(keys.dead("support"), {**letter, **own, **fields}))


def test_waiting_signal_is_pending(connection: Connection, keys: Keys, receipt: Receipt) -> None:
    assert connection.call(status(keys, receipt)) == Status("pending")


def test_signal_behind_the_cursor_is_applied(
    connection: Connection, raw: Any, keys: Keys, receipt: Receipt
) -> None:
    apply_all(raw, keys, receipt.entry)

    assert connection.call(status(keys, receipt)) == Status("applied")


def test_signal_sent_unremembered_is_applied_too(
    connection: Connection, raw: Any, keys: Keys, receipt: Receipt
) -> None:
    apply_all(raw, keys, receipt.entry)
    raw.delete(keys.seen("support"))

    assert connection.call(status(keys, replace(receipt, remembered=False))) == Status("applied")


def test_dead_signal_tells_its_reason(connection: Connection, raw: Any, keys: Keys, receipt: Receipt) -> None:
    bury(raw, keys, receipt.entry)

    assert connection.call(status(keys, receipt)) == Status("dead", reason="reject")


def test_signal_that_redis_lost_is_unknown_not_applied(
    connection: Connection, raw: Any, keys: Keys, limits: Limits, receipt: Receipt
) -> None:
    raw.delete(keys.mailbox("support"))
    raw.hdel(keys.seen("support"), "t-1")
    assert connection.call(status(keys, receipt)).state == "unknown"

    later = connection.call(send(keys, limits, "support", Signal.of("ticket.opened", {"n": 2})))
    apply_all(raw, keys, later.entry)
    raw.hset(keys.seen("support"), ".since", str(int(receipt.entry.split("-")[0]) - 1))

    assert connection.call(status(keys, receipt)).state == "unknown"


def test_signal_of_an_agent_that_is_gone_or_new_is_unknown(
    connection: Connection, raw: Any, keys: Keys, receipt: Receipt
) -> None:
    raw.hset(keys.agent("support"), "birth", "b-2")
    assert connection.call(status(keys, receipt)).state == "unknown"

    raw.delete(keys.agent("support"))
    assert connection.call(status(keys, receipt)) == Status("unknown", reason="no such agent")


def test_retried_letter_comes_again_under_a_new_id(
    connection: Connection, raw: Any, keys: Keys, limits: Limits, receipt: Receipt
) -> None:
    letter = bury(raw, keys, receipt.entry)

    again = connection.run(dead_retry(keys, limits, "support", letter))

    assert again.signal_id == "t-1:retry-1"
    [(entry, fields)] = raw.xrange(keys.mailbox("support"))
    assert entry == again.entry
    assert fields == {
        "id": "t-1:retry-1", "type": "ticket.opened", "source": "x", "data": '{"n":1}', "at_ms": fields["at_ms"],
    }  # fmt: skip
    assert raw.xlen(keys.dead("support")) == 0
    assert connection.call(status(keys, receipt)) == Status("retried", retried_as="t-1:retry-1")
    assert connection.call(status(keys, again)) == Status("pending")


def test_second_retry_counts_on(
    connection: Connection, raw: Any, keys: Keys, limits: Limits, receipt: Receipt
) -> None:
    letter = bury(raw, keys, receipt.entry, id="t-1:retry-9")

    assert connection.run(dead_retry(keys, limits, "support", letter)).signal_id == "t-1:retry-10"


def test_retry_into_a_full_mailbox_is_refused_and_keeps_the_letter(
    connection: Connection,
    raw: Any,
    keys: Keys,
    limits: Limits,
    receipt: Receipt,
    unchanged: Unchanged,
) -> None:
    letter = bury(raw, keys, receipt.entry)
    connection.call(send(keys, limits, "support", Signal.of("x.y")))

    with unchanged(), pytest.raises(MailboxFull):
        connection.run(dead_retry(keys, replace(limits, max_mailbox=1), "support", letter))


def test_retried_emit_goes_to_its_target_not_to_its_sender(
    connection: Connection, raw: Any, keys: Keys, limits: Limits, receipt: Receipt, unchanged: Unchanged
) -> None:
    letter = bury(raw, keys, receipt.entry, target="billing")

    with unchanged(), pytest.raises(NoSuchAgent, match="billing"):
        connection.run(dead_retry(keys, limits, "support", letter))

    raw.hset(keys.agent("billing"), mapping={"birth": "b-7", "type": "billing", "cursor": "0-0"})
    again = connection.run(dead_retry(keys, limits, "support", letter))
    assert again.agent == "billing"
    [(entry, fields)] = raw.xrange(keys.mailbox("billing"))
    assert entry == again.entry
    assert "target" not in fields
    assert raw.xlen(keys.dead("support")) == 0


def test_dropped_letter_is_gone_and_says_so(
    connection: Connection, raw: Any, keys: Keys, limits: Limits, receipt: Receipt
) -> None:
    letter = bury(raw, keys, receipt.entry)

    assert connection.call(dead_drop(keys, limits, "support", letter)) == "t-1"
    assert raw.xlen(keys.dead("support")) == 0
    assert connection.call(status(keys, receipt)) == Status("dropped")


@pytest.mark.parametrize("name", ["retry", "drop"])
def test_letter_that_is_not_there_is_refused(
    name: str,
    connection: Connection,
    keys: Keys,
    limits: Limits,
    receipt: Receipt,
    unchanged: Unchanged,
) -> None:
    def operation(agent: str, letter: str) -> object:
        if name == "retry":
            return connection.run(dead_retry(keys, limits, agent, letter))
        return connection.call(dead_drop(keys, limits, agent, letter))

    with unchanged(), pytest.raises(Refused, match="no dead letter 1-1"):
        operation("support", "1-1")
    with unchanged(), pytest.raises(NoSuchAgent):
        operation("nobody", "1-1")
    with pytest.raises(BadInput):
        operation("support", "-")


def test_settled_fates_are_bounded_and_the_gap_is_admitted(
    connection: Connection, raw: Any, keys: Keys, limits: Limits, receipt: Receipt
) -> None:
    few = replace(limits, max_dead=5, dedupe_ids=5)
    raw.hset(keys.fate("support"), mapping={f"old-{n}": "dropped" for n in range(30)})
    letter = bury(raw, keys, receipt.entry)

    connection.call(dead_drop(keys, few, "support", letter))

    assert raw.hget(keys.fate("support"), "t-1") == "dropped"
    assert raw.hlen(keys.fate("support")) < 30
    forgotten = replace(receipt, signal_id="old-forgotten", remembered=False)
    assert connection.call(status(keys, forgotten)) == Status("unknown", reason="too long ago")
