"""Waiting between tries: twice as long each time, bounded, spread, and always the same for the same try."""

from __future__ import annotations

import pytest

from regrow_workers.effects.effect_backoff import LONGEST_MS, retry_delay_ms


@pytest.mark.parametrize(
    ("attempt", "whole"), [(1, 1_000), (2, 2_000), (3, 4_000), (6, 32_000), (7, 60_000), (1_000_000, 60_000)]
)
def test_delay_is_half_to_all_of_a_doubling_up_to_a_minute(attempt: int, whole: int) -> None:
    delays = [retry_delay_ms(f"effect-{n}", attempt, 1_000) for n in range(200)]

    assert all(whole / 2 <= delay <= whole for delay in delays)
    assert len(set(delays)) > 150


def test_same_try_always_waits_the_same_and_tries_differ() -> None:
    assert retry_delay_ms("a", 3, 500) == retry_delay_ms("a", 3, 500)
    assert retry_delay_ms("a", 8, 60_000) != retry_delay_ms("a", 9, 60_000)


def test_no_backoff_is_no_wait() -> None:
    assert retry_delay_ms("a", 5, 0) == 0


def test_backoff_longer_than_the_longest_is_kept_as_the_author_wrote_it() -> None:
    assert LONGEST_MS < retry_delay_ms("a", 4, 300_000) <= 300_000
