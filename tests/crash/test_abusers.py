"""Every abuser of ``examples/abusers`` in one tree beside twenty good agents, with real processes, all at once."""

from __future__ import annotations

import pytest

from examples.abusers.abuses import ABUSES
from examples.abusers.run import run
from examples.abusers.verdict import faults, table

pytestmark = [pytest.mark.crash, pytest.mark.timeout(200)]


def test_each_abuser_meets_its_reason_nothing_is_left_and_the_good_ones_lose_nothing() -> None:
    report = run(quiet=80, say=print)
    print(table(ABUSES, report))

    assert faults(ABUSES, report) == []
