"""The fleet of ``examples/``: what is due is what a device makes of what is sent; its verdict finds what is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from examples.fleet.app import Device, Overheated, Twin
from examples.fleet.load import Due, Load
from examples.fleet.verdict import Report, faults
from examples.fleet.view import Look
from regrow import Emit

LOAD = Load(devices=25, rounds=8)


def applied(rounds: int) -> tuple[dict[str, Twin], int]:
    """By the handlers themselves; and how many alarms they emit."""
    twins: dict[str, Twin] = {}
    alarms = 0
    for number in range(1, rounds + 1):
        for device, what in LOAD.round(number):
            twins[device], directives = Device.cmd(twins.get(device, Twin()), what)
            twin = twins[device]
            assert directives in ([], [Emit(Overheated(n=twin.last, celsius=twin.celsius), to="operations")])
            alarms += len(directives)
    return twins, alarms


def report(rounds: int) -> Report:
    twins, alarms = applied(rounds)
    return Report(
        due=LOAD.due(rounds), twins=twins, letters={}, statuses={"idle": 25}, alarms_heard=alarms,
        signals=LOAD.signals, seconds=1.0, kills=2, restarts=1,
    )  # fmt: skip


@pytest.mark.parametrize("rounds", [1, 3, 4, 8])
def test_what_is_due_is_what_the_handlers_make_of_it(rounds: int) -> None:
    assert faults(report(rounds)) == []
    assert report(rounds).alarms_heard > 0


def test_a_load_is_as_long_as_it_says() -> None:
    sent = [each for number in range(1, LOAD.rounds + 1) for each in LOAD.round(number)]

    assert len(sent) == LOAD.signals == 25 * 8 + 3


GOOD = report(8)
FIRST = "device-00000"


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(replace(GOOD, twins={**GOOD.twins, FIRST: Twin(readings=7, last=7)}), id="lost"),
        pytest.param(
            replace(GOOD, twins={**GOOD.twins, FIRST: GOOD.twins[FIRST].evolve(misplaced=1)}), id="order"
        ),
        pytest.param(replace(GOOD, due={**GOOD.due, "device-99": Due()}), id="not there"),
        pytest.param(replace(GOOD, letters={FIRST: 1}), id="dead letter"),
        pytest.param(replace(GOOD, statuses={"idle": 24, "parked": 1}), id="parked"),
        pytest.param(replace(GOOD, alarms_heard=GOOD.alarms_heard + 1), id="an alarm too many"),
        pytest.param(replace(GOOD, restarts=3), id="an innocent restarted"),
    ],
)
def test_the_verdict_finds(wrong: Report) -> None:
    assert len(faults(wrong)) == 1


def test_the_view_shows_the_rate_since_the_look_before() -> None:
    before = Look(at=1.0, devices=10, sent=500, applied=400, alarms=3, kills=0, restarts=0)
    now = Look(at=3.0, devices=10, sent=2_500, applied=2_400, alarms=9, kills=2, restarts=1)

    assert "1,000/s" in now.text(before)
    assert "400/s" in before.text(None)
