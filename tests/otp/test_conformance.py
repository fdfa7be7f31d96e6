"""regrow decides as OTP does: every scenario gives, to the letter, what the real supervisor gave."""

from __future__ import annotations

from typing import Any

import pytest

from tests.otp.check import expectation, problems, read_scenarios
from tests.otp.run import run

SCENARIOS = read_scenarios()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario["id"] for scenario in SCENARIOS])
def test_decides_as_otp_does(scenario: dict[str, Any]) -> None:
    assert problems(expectation(scenario), run(scenario)) == []


def test_all_scenarios_are_there() -> None:
    assert len(SCENARIOS) == 94
