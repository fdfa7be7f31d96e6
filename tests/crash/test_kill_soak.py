"""The kill soak of ``benchmarks/``, shorter: random workers are killed while a hundred agents count."""

from __future__ import annotations

import pytest

from benchmarks.kill_soak import soak

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]


def test_counts_are_exact_and_orders_kept_while_random_workers_are_killed() -> None:
    report = soak(increments=1_000, rate=200.0)

    assert report["wrong"] == []
    assert report["kills"] >= 10
