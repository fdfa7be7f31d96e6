"""When a spawner makes a spare: when nothing was started for a while, and ever later where they fail."""

from __future__ import annotations

import pytest

from regrow_workers.spares import PAUSES, QUIET, TAKE_SECONDS, Spares

START_TIMEOUT = 10.0


def made(wanted: int = 1) -> Spares[str]:
    spares: Spares[str] = Spares(wanted, START_TIMEOUT)
    spares.note_start(0.0)
    return spares


def with_one_ready() -> Spares[str]:
    spares = made()
    spares.begin("a", 1.0)
    spares.note_ready("a")
    return spares


def test_none_wanted_is_none_made_and_nothing_waited_for() -> None:
    spares = made(0)

    assert not spares.is_due(100.0)
    assert spares.wait(100.0) is None


def test_one_is_made_once_nothing_was_started_for_a_while() -> None:
    spares = made()
    spares.note_start(1.0)

    assert not spares.is_due(1.0 + QUIET / 2)
    assert spares.wait(1.0) == pytest.approx(QUIET)
    assert spares.is_due(1.0 + QUIET)


def test_one_that_comes_is_no_reason_for_another() -> None:
    spares = made()
    spares.begin("a", 1.0)

    assert not spares.is_due(5.0)
    assert spares.take(5.0) is None
    assert spares.wait(5.0) == START_TIMEOUT - 4.0


def test_several_are_made_one_after_the_other() -> None:
    spares = made(2)
    spares.begin("a", 1.0)

    assert not spares.is_due(1.0)
    assert spares.is_due(1.0 + QUIET)
    spares.begin("b", 2.0)
    assert not spares.is_due(9.0)


def test_a_ready_one_is_given_once_and_the_next_comes_after_the_start() -> None:
    spares = with_one_ready()

    assert spares.take(2.0) == "a"
    assert spares.take(2.0) is None
    spares.note_start(2.0)
    assert not spares.is_due(2.0)
    assert spares.is_due(2.0 + QUIET)


def test_one_that_does_not_take_what_it_was_given_is_overdue_and_no_failure() -> None:
    spares = with_one_ready()
    spares.take(2.0)

    assert spares.take_overdue(2.0 + TAKE_SECONDS / 2) == []
    assert spares.take_overdue(2.0 + TAKE_SECONDS) == ["a"]
    assert spares.is_due(2.0 + TAKE_SECONDS)


def test_one_that_has_taken_is_not_watched_any_more() -> None:
    spares = with_one_ready()
    spares.take(2.0)
    spares.remove("a", 2.1)

    assert spares.take_overdue(100.0) == []


def test_a_ready_one_that_dies_is_replaced_soon() -> None:
    spares = with_one_ready()
    spares.remove("a", 2.0)

    assert spares.take(2.0) is None
    assert spares.is_due(2.0 + QUIET)


def test_failures_in_a_row_wait_longer_and_a_ready_one_forgives_them() -> None:
    spares = made()
    now = 1.0
    for pause in (*PAUSES, PAUSES[-1]):
        spares.begin("a", now)
        spares.remove("a", now)
        assert not spares.is_due(now + pause - 0.01)
        assert spares.is_due(now + pause)
        now += pause
    spares.begin("a", now)
    spares.note_ready("a")
    spares.remove("a", now)
    spares.begin("b", now)
    spares.remove("b", now)

    assert spares.is_due(now + PAUSES[0])


def test_one_that_does_not_get_ready_in_time_is_overdue_and_stays_so() -> None:
    spares = made()
    spares.begin("a", 1.0)

    assert spares.take_overdue(1.0 + START_TIMEOUT) == ["a"]
    spares.note_ready("a")
    assert spares.take(20.0) is None
    assert not spares.is_due(1.0 + START_TIMEOUT)
    assert spares.is_due(1.0 + START_TIMEOUT + PAUSES[0])
