"""The programs of ``examples/`` as they are run by hand, only shorter: real processes, real kills, own verdicts."""

from __future__ import annotations

import pytest

from examples.orders.__main__ import run as run_orders
from examples.running import Finding

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


def assert_all_hold(findings: list[Finding]) -> None:
    assert [finding.text for finding in findings if not finding.holds] == []
    assert findings


def test_books_of_the_order_saga_balance_after_kills() -> None:
    assert_all_hold(run_orders(kills=5, seed=3))
