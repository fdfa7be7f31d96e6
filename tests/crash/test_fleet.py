"""The fleet of ``examples/``, small: devices made by their first message, while slots are killed."""

from __future__ import annotations

import pytest

from examples.fleet.run import run
from examples.fleet.verdict import faults, summary

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


def test_a_fleet_whose_slots_are_killed_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    report = run(devices=100, readings=30, kill_every=0.2)
    print(*summary(report), sep="\n")

    assert faults(report) == []
    assert report.kills >= 1
    assert "100 devices" in capsys.readouterr().out
