"""Durations in seconds or timedelta, sizes in bytes or with a unit."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from regrow_signals.durations import size_bytes, to_ms, to_seconds
from regrow_signals.errors import BadSetting


@pytest.mark.parametrize(
    ("given", "ms"),
    [(1, 1000), (0.25, 250), (timedelta(minutes=1), 60_000), (0.0001, 1), (0.07, 70), (3.3, 3300)],
)
def test_durations_become_whole_milliseconds_and_never_zero(given: Any, ms: int) -> None:
    assert to_ms(given) == ms


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "5", None, True, timedelta(0), 1e12])
def test_durations_that_cannot_work_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(BadSetting, match="heartbeat="):
        to_seconds(bad, "heartbeat")


def test_zero_is_allowed_where_asked_for() -> None:
    assert to_ms(0, zero=True) == 0


@pytest.mark.parametrize(
    ("given", "size"),
    [
        (5, 5),
        ("5", 5),
        ("256MiB", 256 << 20),
        ("64 kB", 64_000),
        ("1.5GiB", 3 << 29),
        (" 1mib ", 1 << 20),
        ("10B", 10),
    ],
)
def test_sizes_are_bytes_or_carry_a_unit(given: Any, size: int) -> None:
    assert size_bytes(given) == size


@pytest.mark.parametrize("bad", [0, -1, "", "MiB", "5 pots", "1e3", None, 1.5, True, "0B"])
def test_sizes_that_cannot_work_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(BadSetting, match="max_memory="):
        size_bytes(bad, "max_memory")
