"""OTP's window of whole seconds, and the delays that grow."""

from __future__ import annotations

import pytest

from regrow_supervisor.backoff import delay_ms, pause_ms
from regrow_supervisor.intensity import count_restart
from regrow_supervisor.restart_types import is_to_be_restarted, is_worth_a_report


def test_exactly_max_restarts_are_fine_and_one_more_is_not() -> None:
    stamps: tuple[int, ...] = ()
    exceeded: list[bool] = []
    for _ in range(4):
        stamps, too_many = count_restart(stamps, 7_400, 3, 5)
        exceeded.append(too_many)

    assert exceeded == [False, False, False, True]


@pytest.mark.parametrize(
    ("first_ms", "second_ms", "counts"),
    [
        (10_000, 15_000, True),
        (10_000, 15_999, True),
        (10_000, 16_000, False),
        (10_999, 15_999, True),
        (10_999, 16_000, False),
        (10_900, 16_100, False),
    ],
)
def test_a_stamp_counts_while_no_more_whole_seconds_than_the_window_have_begun(
    first_ms: int, second_ms: int, counts: bool
) -> None:
    stamps, _ = count_restart((), first_ms, 1, 5)

    assert count_restart(stamps, second_ms, 1, 5)[1] == counts


def test_stamps_from_the_future_are_dropped() -> None:
    assert count_restart((99, 100), 50_000, 1, 5) == ((50,), False)


def test_no_more_stamps_are_kept_than_can_matter() -> None:
    stamps: tuple[int, ...] = ()
    for _ in range(100):
        stamps, _ = count_restart(stamps, 1_000, 2, 5)

    assert stamps == (1, 1, 1)


def test_a_delay_is_the_same_for_the_same_seed_and_stays_under_its_ceiling() -> None:
    backoff = {"first_ms": 100, "factor": 2, "longest_ms": 3000}
    delays = [delay_ms(backoff, failures, "root/a#1") for failures in range(1, 200)]

    assert delays == [delay_ms(backoff, failures, "root/a#1") for failures in range(1, 200)]
    assert all(50 * 2**step <= delay <= 100 * 2**step for step, delay in enumerate(delays[:4]))
    assert max(delays) <= 3000
    assert len({delay_ms(backoff, 9, f"root/a#{number}") for number in range(50)}) > 20


def test_a_pause_doubles_up_to_the_longest() -> None:
    pause = {"first_ms": 1000, "longest_ms": 5000}

    assert [pause_ms(pause, number) for number in (1, 2, 3, 4, 1000)] == [1000, 2000, 4000, 5000, 5000]


@pytest.mark.parametrize(
    ("reason", "transient"),
    [
        ("normal", False),
        ("shutdown", False),
        ("shutdown:done", False),
        ("killed", True),
        ("exit:3", True),
        ("signal:SIGKILL", True),
        ("exception:ValueError: shutdown", True),
        ("shutdownish", True),
    ],
)
def test_restart_types_by_reason(reason: str, transient: bool) -> None:
    assert is_to_be_restarted("permanent", reason)
    assert is_to_be_restarted("transient", reason) == transient
    assert not is_to_be_restarted("temporary", reason)
    assert is_worth_a_report("permanent", reason)
    assert is_worth_a_report("transient", reason) == is_worth_a_report("temporary", reason) == transient
