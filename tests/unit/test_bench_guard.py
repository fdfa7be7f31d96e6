"""``regrow bench guard``: every mode is measured, and what it leaves is as before."""

from __future__ import annotations

import sys

from regrow.bench.guard import DELIVERIES, measure_guard
from regrow_workers.purity import guard


def test_each_mode_is_measured_and_nothing_of_it_stays() -> None:
    before = guard.mode, guard.thread, sys.getprofile()

    found = measure_guard(rounds=2)

    assert found["transitions"] == 2 * DELIVERIES
    assert all(found[f"{mode}_us"] > 0 for mode in ("off", "warn", "enforce"))
    assert abs(found["enforce_more_us"] - (found["enforce_us"] - found["off_us"])) < 0.02  # both are rounded
    assert (guard.mode, guard.thread, sys.getprofile()) == before
