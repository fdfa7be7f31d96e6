"""What becomes of a due timer: once, every, cron; what came due while nobody was there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regrow_signals.due_timers import AT_ONCE, GRACE_MS, MADE_UP, decide
from regrow_signals.timers import DueTimer, Firing

MINUTE = 60_000
START = 1_800_000_000_000
"""A full minute."""

NONE: list[int] = []


def timer(**fields: Any) -> DueTimer:
    given = {
        "id": "a#t", "set": "b:1-0:0", "due_ms": str(START), "kind": "every", "expression": "", "tz": "",
        "every_ms": str(MINUTE), "missed": "skip", "set_ms": str(START - MINUTE), **fields,
    }  # fmt: skip
    return DueTimer(**given)


def outcome(firing: Firing) -> tuple[list[int], int | None, int]:
    """Ticks and next due time counted in minutes from START; ticks left out."""
    following = firing.next_ms
    assert firing.why == ""
    return (
        [(tick - START) // MINUTE for tick in firing.ticks],
        following and (following - START) // MINUTE,
        firing.left_out,
    )


def test_once_is_once() -> None:
    firing = decide(timer(kind="once"), START + 5)
    assert (firing.ticks, firing.next_ms, firing.why) == ((START,), None, "")


def test_one_that_recurs_and_was_just_set_gets_its_first_due_time() -> None:
    assert outcome(decide(timer(due_ms=""), START - MINUTE)) == ([], 0, 0)
    cron = timer(due_ms="", kind="cron", expression="*/5 * * * *", tz="UTC", set_ms=str(START + 1))
    assert outcome(decide(cron, START + 1)) == ([], 5, 0)


@pytest.mark.parametrize("missed", ["skip", "one", "all"])
@pytest.mark.parametrize("recurs", [{}, {"kind": "cron", "expression": "* * * * *", "tz": "Europe/Berlin"}])
def test_in_time_every_policy_is_the_same(missed: str, recurs: dict[str, str]) -> None:
    assert outcome(decide(timer(missed=missed, **recurs), START + 20)) == ([0], 1, 0)


@pytest.mark.parametrize(
    ("missed", "expected"), [("skip", ([3], 4, 3)), ("one", ([3], 4, 3)), ("all", ([0, 1, 2, 3], 4, 0))]
)
def test_ticks_that_came_due_together(missed: str, expected: object) -> None:
    assert outcome(decide(timer(missed=missed), START + 3 * MINUTE + 10)) == expected


@pytest.mark.parametrize(
    ("missed", "expected"), [("skip", (NONE, 30, 1)), ("one", ([0], 30, 0)), ("all", ([0], 30, 0))]
)
def test_only_skip_leaves_out_one_tick_that_is_too_late(missed: str, expected: object) -> None:
    late = timer(missed=missed, every_ms=str(30 * MINUTE), set_ms=str(START - 30 * MINUTE))

    assert outcome(decide(late, START + GRACE_MS)) == ([0], 30, 0)
    assert outcome(decide(late, START + GRACE_MS + 1)) == expected


def test_all_makes_up_for_so_many_and_hands_them_over_bit_by_bit() -> None:
    now = START + 5000 * MINUTE
    taken: list[int] = []
    left_out, due = 0, START
    while due <= now:
        firing = decide(timer(missed="all", due_ms=str(due)), now)
        assert len(firing.ticks) <= AT_ONCE and firing.next_ms is not None
        taken += firing.ticks
        left_out += firing.left_out
        due = firing.next_ms

    assert taken == [now - back * MINUTE for back in reversed(range(MADE_UP))]
    assert left_out > 0
    assert due == now + MINUTE


def test_a_month_of_missed_cron_ticks_ends_with_the_last_one() -> None:
    cron = timer(kind="cron", expression="*/5 * * * *", tz="UTC", missed="one")
    assert outcome(decide(cron, START + 43_203 * MINUTE))[:2] == ([43_200], 43_205)


def test_a_clock_that_went_back_brings_no_tick_twice() -> None:
    assert outcome(decide(timer(due_ms=str(START + 10 * MINUTE)), START)) == ([], 10, 0)
    assert outcome(decide(timer(kind="once", due_ms=str(START + 10 * MINUTE)), START)) == ([], 10, 0)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"kind": "cron", "expression": "nonsense", "tz": "UTC"}, "has 1 fields"),
        ({"kind": "cron", "expression": "* * * * *", "tz": "Nowhere"}, "no time zone"),
        ({"kind": "every", "every_ms": "0"}, "is no timer"),
        ({"kind": "every", "every_ms": "x"}, "invalid literal"),
        ({"kind": "weekly"}, "is no timer"),
        ({"missed": "some"}, "missed='some' is none of skip, one, all"),
        ({"kind": "once", "due_ms": ""}, "invalid literal"),
        ({"kind": "once", "due_ms": "9" * 30}, "which is no time"),
        ({"kind": "", "due_ms": "", "set": "", "every_ms": "", "set_ms": ""}, "is no timer"),
    ],
)
def test_a_record_that_makes_no_sense_is_dropped_with_the_reason(fields: dict[str, str], told: str) -> None:
    firing = decide(timer(**fields), START + 5)
    assert told in firing.why and not firing.ticks


@settings(deadline=None)
@given(
    every=st.integers(100, 10 * MINUTE),
    missed=st.sampled_from(["skip", "one", "all"]),
    gaps=st.lists(st.integers(0, 30 * MINUTE), min_size=1, max_size=20),
)
def test_whatever_the_gaps_ticks_are_on_the_grid_and_none_comes_twice(
    every: int, missed: str, gaps: list[int]
) -> None:
    now = due = START + every
    sent: list[int] = []
    for gap in gaps:
        now += gap
        while due <= now:
            firing = decide(
                timer(missed=missed, every_ms=str(every), set_ms=str(START), due_ms=str(due)), now
            )
            assert firing.next_ms is not None and firing.next_ms > due
            sent += firing.ticks
            due = firing.next_ms
    assert sent == sorted(set(sent)) and all((tick - START) % every == 0 for tick in sent)
    assert due > now and due - now <= every
