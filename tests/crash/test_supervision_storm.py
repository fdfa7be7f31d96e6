"""Watchdogs killed and stopped at random instants in a storm of deaths, with real agents: one restart per death.

``python -m benchmarks.watchdog_soak`` goes on for longer.
"""

from __future__ import annotations

import pytest

from tests.crash.supervision_harness import SupervisedSystem
from tests.crash.watchdog_storm import Storm, storm_settings

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(240)]


def test_each_death_leads_to_one_restart_whatever_happens_to_the_watchdogs() -> None:
    with SupervisedSystem.running(nodes=1, **storm_settings()) as system:
        storm = Storm(system, seed=20)
        storm.run(instants=20)

        assert sum(storm.deaths.values()) >= 20
        assert storm.check() == []
