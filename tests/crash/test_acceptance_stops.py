"""Stopping leaves nothing: ``regrow up`` with its own Redis, and the repository's Procfile under honcho."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from regrow import Client
from regrow.embedded_redis import EmbeddedRedis, running
from regrow_signals.errors import NoSuchAgent
from regrow_signals.keys import Keys
from tests.conftest import PrivateServer, wait_until
from tests.crash.acceptance_app import Keeper, Number
from tests.crash.marked_processes import Marked, end_all, marked
from tests.crash.whole_system import LONG, Service, clean_environment, numbers_up_to

pytestmark = [pytest.mark.crash, pytest.mark.timeout(150)]

KEYS = Keys("regrow")
TREE = "tests.crash.acceptance_app:pair"


class Launched:
    """What a launcher started, found by its mark."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="regrow-stop-"))
        self.mark = secrets.token_hex(8)
        self.environment = clean_environment(
            self.mark,
            REGROW_STATE_DIR=str(self.folder / "state"),
            REGROW_METRICS_PORT="0",
            PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        )
        self.services: list[Service] = []

    def start(self, *words: str, **more: str) -> Service:
        log = self.folder / f"launcher-{len(self.services)}.log"
        self.services.append(Service(words, {**self.environment, **more}, log))
        return self.services[-1]

    @property
    def state_folder(self) -> Path:
        return self.folder / "state" / "regrow"

    def left(self) -> list[Marked]:
        return list(marked(self.mark).values())

    def end(self) -> None:
        end_all(self.mark)
        for service in self.services:
            service.process.wait(LONG)
            print(f"--- {service.log.name}", *service.said(), sep="\n")
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def launched() -> Iterator[Launched]:
    made = Launched()
    yield made
    made.end()


def accepts(client: Client, numbers: list[Number]) -> bool:
    try:
        return all(client.send("a", number, id=f"n-{number.n}") for number in numbers)
    except NoSuchAgent:
        return False


def all_run(raw: Any, *agents: str) -> bool:
    return all(raw.hget(KEYS.agent(agent), "status") == "running" for agent in agents)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_regrow_up_leaves_no_process_and_keeps_its_data(launched: Launched, how: signal.Signals) -> None:
    up = launched.start(sys.executable, "-m", "regrow", "up", TREE)
    wait_until(lambda: running(launched.state_folder), "the embedded Redis answers", LONG)
    url = found.url if (found := running(launched.state_folder)) else ""
    with Client(url, timeout=30) as client:
        wait_until(partial(accepts, client, numbers_up_to(1)), "the agent is registered", LONG)
        receipts = [client.send("a", number) for number in numbers_up_to(3, first=2)]
        assert receipts[-1].wait(LONG).state == "applied"
    assert len(launched.left()) >= 6

    up.send(how)

    wait_until(lambda: up.ended, "the launcher ends", LONG)
    assert up.process.returncode == (-how if how is signal.SIGKILL else 0)
    wait_until(lambda: not launched.left(), "nothing is left", LONG)
    with EmbeddedRedis(launched.state_folder) as server, Client(server.info.url) as client:
        assert client.state("a", Keeper).numbers == (1, 2, 3)


def test_honcho_runs_the_procfile_as_it_is_and_leaves_nothing(
    launched: Launched, own_server: PrivateServer
) -> None:
    raw: Any = redis.Redis.from_url(own_server.url, decode_responses=True)
    honcho = launched.start(sys.executable, "-m", "honcho", "start", REDIS_URL=own_server.url)
    wait_until(lambda: all_run(raw, "support", "billing"), "the helpdesk's agents run", LONG)
    wait_until(lambda: raw.zcard(KEYS.nodes) == 2, "worker and effects have joined", LONG)
    wait_until(lambda: any("metrics at" in line for line in honcho.said()), "the exporter serves", LONG)

    # Ctrl-C goes to every process of the terminal's group.
    os.killpg(honcho.pid, signal.SIGINT)

    wait_until(lambda: honcho.ended, "honcho ends", LONG)
    wait_until(lambda: not launched.left(), "nothing is left", LONG)
    assert not raw.exists(KEYS.leader)
    assert raw.zcard(KEYS.nodes) == 0
    assert [raw.hget(KEYS.agent(agent), "clean") for agent in ("support", "billing")] == ["1", "1"]
    ends = [fields for _, fields in raw.xrange(KEYS.events) if fields["event"] == "exited"]
    assert {end["reason"] for end in ends} == {"drained"}
    assert "Traceback" not in honcho.log.read_text()
    raw.close()
