"""How a commit is laid out for its script; ids and bounds are reckoned exactly, without Redis."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regrow_signals.agents import condemned
from regrow_signals.answers import cut, entry_id
from regrow_signals.commits import (
    Commit,
    DeadAppend,
    EffectAppend,
    EmitAppend,
    JournalAppend,
    Owner,
    after,
    commit,
    journal_length,
    newer,
)
from regrow_signals.errors import BadInput, Conflict, CorruptKey, Fenced, TooLarge
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.nodes import exit_kind
from regrow_signals.scripts import load

KEYS = Keys("regrow")
TOP = 2**64 - 1
PLAN = Commit(
    owner=Owner("a", 1, "token", "n"),
    base_version=0,
    base_cursor="0-0",
    version=1,
    cursor="5-0",
    state="{}",
    schema=1,
    counters={},
    agent_type="desk",
    birth="b",
)


@given(st.integers(0, TOP), st.integers(0, TOP))
def test_the_id_after_an_id_is_the_very_next(ms: int, seq: int) -> None:
    entry = f"{ms}-{seq}"
    follows = after(entry)

    if (ms, seq) == (TOP, TOP):
        assert follows == ""
    else:
        assert newer(follows, entry)
        next_ms, next_seq = map(int, follows.split("-"))
        assert (next_ms << 64 | next_seq) - (ms << 64 | seq) == 1


def test_the_id_after_a_full_millisecond_is_in_the_next() -> None:
    assert after(f"5-{TOP}") == "6-0"
    assert after(f"{TOP}-{TOP}") == ""


@pytest.mark.parametrize("text", ["", "5", "5-", "-5", "5-x", "5-1-2", "²-1", "5-" + "1" * 21])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        entry_id(text, "cursor")


def test_counts_in_the_header_match_the_lists() -> None:
    plan = replace(
        PLAN,
        emits=[EmitAppend("b", {"id": "1"}), EmitAppend("c", {"id": "2"}), EmitAppend("b", {"id": "3"})],
        effects=[EffectAppend("e", "charge", "[]", 1, 2, True)],
        dead=[DeadAppend("1-1", "bad", "", 1, {"id": "x"})],
        journal=[JournalAppend("1-1", 1, "[]", "d", "applied", "s", "t", 1, "x", "{}")],
        handled=3,
    )
    call = commit(KEYS, Limits(), plan)
    header = load("commit").header
    counts = dict(zip(header.args, call.args, strict=False))

    assert [counts[name] for name in ("targets", "letters", "emits", "orders", "transitions", "raises")] == [
        2, 1, 3, 1, 1, 1,
    ]  # fmt: skip
    assert len(call.keys) == len(header.keys) + 2 * 3 + 1
    assert len(call.args) == len(header.args) + 2 + (5 + 2) + 3 * (2 + 2) + 10 + 11 + 2


def test_emits_to_one_target_name_its_keys_once() -> None:
    call = commit(KEYS, Limits(), replace(PLAN, emits=[EmitAppend("b", {"id": str(n)}) for n in range(50)]))

    assert call.keys.count(KEYS.mailbox("b")) == 1


@pytest.mark.parametrize("cursor", ["0-0", "x", ""])
def test_commit_that_does_not_move_the_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(BadInput):
        commit(KEYS, Limits(), replace(PLAN, cursor=cursor))


def test_commit_without_a_token_is_refused() -> None:
    with pytest.raises(BadInput):
        commit(KEYS, Limits(), replace(PLAN, owner=Owner("a", 1, "", "n")))


def test_state_and_appends_far_over_the_bounds_are_refused() -> None:
    with pytest.raises(TooLarge):
        commit(KEYS, Limits(max_state_bytes=10), replace(PLAN, state="x" * 11))
    emits = [EmitAppend("b", {})] * 41
    with pytest.raises(TooLarge):
        commit(KEYS, Limits(commit_appends=10), replace(PLAN, emits=emits))


def test_counters_of_the_plan_and_ours_are_added_up() -> None:
    counters = {"signals_applied_total|type=desk": 1, "mine": 5}
    call = commit(KEYS, Limits(), replace(PLAN, handled=3, counters=counters))
    raised = dict(zip(call.args[-4::2], call.args[-3::2], strict=True))

    assert raised == {"signals_applied_total|type=desk": 4, "mine": 5}


def test_journal_of_large_states_is_kept_shorter() -> None:
    limits = Limits(journal_entries=100, journal_bytes=1 << 20)
    small = JournalAppend("1-1", 1, "[]", "d", "applied", "s", "t", 1, "x", "{}", "{}")
    large = small._replace(state="x" * (1 << 20))

    assert journal_length(limits, []) == 100
    assert journal_length(limits, [small] * 10) == 100
    assert journal_length(limits, [large]) == 1
    assert 1 < journal_length(limits, [small._replace(state="x" * 100_000)]) < 12
    assert 60 < journal_length(limits, [small._replace(data="x" * 16_384)]) < 65
    assert 60 < journal_length(limits, [small._replace(more=("extensions", "x" * 16_384))]) < 65


@given(st.text(st.characters(exclude_categories=()), max_size=300), st.integers(10, 100))
def test_cut_text_is_bounded_and_always_utf8(text: str, most: int) -> None:
    assert len(cut(text, most).encode()) <= most


@pytest.mark.parametrize(
    ("entry", "attempts", "kills", "expected"),
    [("", 9, 99, ""), ("1-1", 1, 9, ""), ("1-1", 2, 0, "attempts"), ("1-1", 0, 10, "kills")],
)
def test_signal_is_condemned_at_either_bound(entry: str, attempts: int, kills: int, expected: str) -> None:
    assert condemned(entry, attempts, kills, 2, 10) == expected


def test_kind_of_a_reason_is_of_a_bounded_set() -> None:
    assert exit_kind("signal:SIGKILL") == "signal"
    assert exit_kind("node_lost") == "node_lost"
    assert exit_kind("whatever a stranger says") == "other"


def test_replies_of_the_script_become_values_and_typed_errors() -> None:
    parse = commit(KEYS, Limits(), PLAN).parse

    assert parse(["ok", "1", "1", "3"]) == parse(["ok", "1", "1", "3"])
    assert (parse(["ok", "1", "0", "3"]).landed_before, parse(["ok", "0", "1", "3"]).blocked) == (True, True)
    with pytest.raises(Fenced):
        parse(["refused", "fenced"])
    with pytest.raises(Conflict, match="5-5"):
        parse(["refused", "conflict", "7", "5-5"])
    with pytest.raises(CorruptKey, match="holds a string"):
        parse(["corrupt", "{regrow}:outbox:a", "holds a string where a stream belongs"])
