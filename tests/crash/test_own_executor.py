"""The program of docs/effects.md, word for word, in a process of its own; killed in a call."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from regrow_signals.effect_store import abandon
from tests.conftest import PrivateServer, wait_until
from tests.crash.effects_harness import ROOT, SOURCE_ROOTS, EffectsNodeUnderTest, Orders

pytestmark = pytest.mark.crash

PAGE = (ROOT / "docs" / "effects.md").read_text()


@pytest.fixture
def orders(redis_url: str, tmp_path: Path) -> Iterator[Orders]:
    made = Orders(redis_url, tmp_path / "marks")
    yield made
    made.close()


class Program:
    """The page's program, in which the application is that of these tests."""

    def __init__(self, url: str, folder: Path) -> None:
        found = re.search(r"<!-- example: own_executor.py -->\n```python\n(.*?)```", PAGE, re.DOTALL)
        assert found is not None
        (folder / "own_executor.py").write_text(found[1])
        (folder / "shop.py").write_text("from tests.crash.effects_app import tree as tree\n")
        path = os.pathsep.join([str(folder), str(ROOT), SOURCE_ROOTS])
        self._environment = {**os.environ, "PYTHONPATH": path, "REDIS_URL": url}
        self._folder = folder
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        self.process = subprocess.Popen(
            [sys.executable, str(self._folder / "own_executor.py")], env=self._environment
        )
        return self.process

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def program(redis_url: str, tmp_path: Path) -> Iterator[Program]:
    made = Program(redis_url, tmp_path)
    yield made
    made.kill()


def test_program_of_the_page_runs_effects_and_a_killed_ones_run_again(
    program: Program, orders: Orders
) -> None:
    first = orders.order()
    assert orders.outcome(first, 20) == ("charge.done", {"effect": first, "result": "done"})
    again, doubtful = orders.order("sleep once"), orders.order("sleep", idempotent=False)
    orders.wait_called(again)
    orders.wait_called(doubtful)
    lost = orders.record(again)["node"]

    os.kill(program.process.pid, signal.SIGKILL)
    program.process.wait()
    # What the leader does with a lost node of whichever kind.
    orders.connection.call(abandon(orders.keys, lost, None))
    program.start()

    assert orders.outcome(again, 20)[0] == "charge.done"
    assert orders.outcome(doubtful)[0] == "charge.in_doubt"
    assert len(orders.marks(doubtful)) == 1
    assert not orders.raw.exists(orders.keys.effects, orders.keys.claims(lost))


def test_doorbells_live_on_a_server_of_their_own_and_may_be_lost_with_it(
    redis_url: str, own_server: PrivateServer, orders: Orders
) -> None:
    node = EffectsNodeUnderTest(redis_url, rq_url=own_server.url, executors=1)
    try:
        first = orders.order()
        assert orders.outcome(first, 20)[0] == "charge.done"
        assert not [
            key
            for key in cast("Iterator[str]", orders.raw.scan_iter())
            if not key.startswith(orders.keys.tag)
        ]
        own_server.kill()
        second = orders.order()
        wait_until(lambda: "RQ's Redis" in node.said(), "the log says who is away")
        assert orders.record(second)["status"] == "pending"

        own_server.start()

        assert orders.outcome(second, 20)[0] == "charge.done"
        assert len(orders.marks(second)) == 1
    finally:
        node.end()
