"""The million soak of ``benchmarks/``, very short: slots, nodes and watchdogs are killed while pooled agents count."""

from __future__ import annotations

import pytest

from benchmarks.million_soak import soak

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]


def test_counts_of_pooled_agents_are_exact_while_slots_nodes_and_watchdogs_are_killed() -> None:
    impatient = {"REGROW_LEASE": "1", "REGROW_NODE_TIMEOUT": "1", "REGROW_HEARTBEAT": "0.4"}

    report = soak(signals=600, agents=30, every=0.4, rate=200.0, most_kills=6, environment=impatient)

    assert report["wrong"] == []
    assert sum(report["kills"].values()) >= 3
