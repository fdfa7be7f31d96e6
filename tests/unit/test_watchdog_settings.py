"""A lease or a timeout that cannot work is refused at the start, by name."""

from __future__ import annotations

import math

import pytest

from regrow_signals.errors import BadSetting
from regrow_supervisor.watchdog_settings import WatchdogSettings


@pytest.mark.parametrize("name", ["lease", "node_timeout", "start_timeout"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_durations_that_cannot_work_are_refused(name: str, value: float) -> None:
    with pytest.raises(BadSetting, match=f"{name}="):
        WatchdogSettings(**{name: value})  # type: ignore[arg-type]


def test_a_lease_shorter_than_the_watchdogs_loop_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"lease=0\.001"):
        WatchdogSettings(lease=0.001)


def test_the_defaults_are_those_of_the_design() -> None:
    settings = WatchdogSettings()

    assert (settings.lease_ms, settings.node_timeout_ms, settings.start_timeout_ms) == (3000, 3000, 10_000)
    assert settings.poll_ms == 250
