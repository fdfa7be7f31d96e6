"""``regrow chaos`` as a program: a short storm over a system of its own, and what it leaves alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
import redis

from regrow.chaos.processes import Held, Process, find
from regrow.chaos.run import Wanted, run_against, run_own
from regrow.errors import ApplicationError, BadInput
from regrow.settings import load_settings
from tests.conftest import PrivateServer, wait_until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]


def test_a_short_storm_ends_with_nothing_lost_and_everybody_back() -> None:
    words = [
        "chaos",
        "--minutes",
        "0.07",
        "--every",
        "0.5",
        "--kill",
        "worker,slot,spawner,executor",
        "--seed",
        "4",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "regrow", *words, "--json"], capture_output=True, text=True, check=False
    )

    report: dict[str, Any] = json.loads(done.stdout or "{}")
    assert (done.returncode, report.get("faults")) == (0, []), done.stderr
    assert report["strikes"] >= 3
    assert report["signals"]["accepted"] == report["signals"]["applied"] > 0
    assert "mended after" in done.stderr


def test_a_system_with_a_node_elsewhere_is_left_alone(own_server: PrivateServer) -> None:
    settings = load_settings(redis_url=own_server.url, namespace="elsewhere")
    with redis.Redis.from_url(own_server.url) as raw:
        elsewhere: dict[Any, Any] = {"kind": "worker", "host": "another.example", "pid": os.getpid()}
        raw.hset("{elsewhere}:node:n1", mapping=elsewhere)
        raw.zadd("{elsewhere}:nodes", {"n1": 1})

    with pytest.raises(BadInput, match=r"n1 on another\.example; nothing was done"):
        run_against(own_server.url, settings, Wanted(kinds=("worker",)), print)
    with pytest.raises(BadInput, match="leave redis out"):
        run_against(own_server.url, settings, Wanted(), print)


def test_a_signal_reaches_the_process_that_was_looked_at_or_nobody() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        found = find(child.pid)
        assert found is not None
        with pytest.raises(ProcessLookupError):
            Held(Process(child.pid, found.started - 1))

        held = Held(found)
        held.send(signal.SIGKILL)
        wait_until(lambda: held.has_ended, "it has ended")
        assert find(child.pid) is None
        held.close()


def test_a_tree_that_cannot_be_loaded_is_said_before_anything_is_started() -> None:
    with pytest.raises(ApplicationError, match="has no attribute 'nope'"):
        run_own("examples.helpdesk.app:nope", Wanted(), load_settings(), print)
