"""Leading watchdogs and the agent's process are killed while timers fire: each due time gives exactly one signal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import PrivateServer, wait_until
from tests.crash.supervision_harness import LONG, SupervisedSystem, kill_agent
from tests.crash.timers_app import Ticker
from tests.crash.watchdog_storm import storm_settings

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

KILLS = 6
TICKS = 100


def test_each_due_time_fires_once_though_leaders_and_agent_are_killed(tmp_path: Path) -> None:
    server = PrivateServer(tmp_path)
    server.start()
    system = SupervisedSystem(server, "tests.crash.timers_app:tree")

    def due() -> list[int]:
        return [int(text) for text in system.client.state("ticker", Ticker).due]

    def ticked(count: int) -> None:
        wait_until(lambda: len(due()) >= count, f"{count} ticks are handled", LONG)

    try:
        watchdogs = [system.watchdog(**storm_settings()) for _ in range(2)]
        system.node(**storm_settings())
        wait_until(lambda: system.is_running("ticker"), "the agent runs", LONG)
        for kill in range(KILLS):
            ticked(len(due()) + 5)
            # One of the two leads: both die in turn, so every other kill at least is the leader's.
            watchdogs.pop(0).kill()
            watchdogs.append(system.watchdog(**storm_settings()))
            if kill % 2:
                kill_agent(system.life("ticker").pid)
        ticked(TICKS)

        found = due()
        assert found == list(range(found[0], found[0] + 100 * len(found), 100))
        assert system.counter("timers_missed_total|type=ticker") == 0
    finally:
        system.end()
        server.kill()
