"""Redis killed and started again with its data, and frozen: all go on by themselves, nobody was restarted for it."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import redis

from tests.conftest import PrivateServer, wait_until
from tests.crash.processes import alive
from tests.crash.whole_system import LONG, WholeSystem, numbers_up_to

pytestmark = [pytest.mark.crash, pytest.mark.timeout(150)]


@pytest.fixture
def system(own_server: PrivateServer) -> Iterator[WholeSystem]:
    """Each process writes to a log of its own: its lines are counted."""
    with WholeSystem.on(own_server, "pair") as system:
        system.watchdog()
        system.watchdog()
        system.node()
        regrow = (sys.executable, "-m", "regrow")
        system.start("effects", *regrow, "effects", system.tree)
        system.start("metrics", *regrow, "metrics", "--port", "0")
        system.wait_running("a", "b")
        system.send("a", *numbers_up_to(100))
        system.wait_numbers("a", list(range(1, 101)))
        wait_until(lambda: system.raw.zcard(system.keys.nodes) == 2, "both nodes are up", LONG)
        wait_until(system.services[-1].said, "the exporter is up", LONG)
        yield system


@contextmanager
def little_said(system: WholeSystem) -> Generator[None, None, None]:
    """Less than a line a second from each process, workers included, on the whole."""
    before = {service: len(service.said()) for service in system.services}
    begun = time.monotonic()
    yield
    seconds = time.monotonic() - begun
    for service in system.services:
        lines = service.said()[before[service] :]
        # A node speaks for its spawner and workers, too: they write to the same log.
        processes = len(system.family(service))
        print(f"{service.log.name}: {len(lines)} lines in {seconds:.1f} s from {processes} processes")
        assert len(lines) < seconds * processes, lines


def assert_nobody_was_restarted(system: WholeSystem, pids: dict[str, int]) -> None:
    assert system.incarnations() == {"a": "1", "b": "1"}
    assert system.pids() == pids
    assert system.events("exited") == []
    assert system.events("node_lost") == []
    assert not any(service.ended for service in system.services)


def frozen_for(seconds: float) -> None:
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, "the time goes by", seconds + 10)


def test_redis_killed_and_started_again_with_its_data(system: WholeSystem) -> None:
    pids = system.pids()

    with little_said(system):
        system.server.kill()
        frozen_for(4)
        system.server.start()
        system.make_durable()
        system.send("a", *numbers_up_to(200, first=101))
        system.wait_numbers("a", list(range(1, 201)))
        frozen_for(4)

    assert_nobody_was_restarted(system, pids)
    system.assert_clean({"a": 200, "b": 0})


def test_redis_frozen_for_ten_seconds(system: WholeSystem) -> None:
    pids = system.pids()
    assert system.server.process is not None

    with little_said(system):
        system.server.process.send_signal(signal.SIGSTOP)
        try:
            frozen_for(10)
        finally:
            system.server.process.send_signal(signal.SIGCONT)
        system.send("a", *numbers_up_to(200, first=101))
        system.wait_numbers("a", list(range(1, 201)))
        frozen_for(4)

    assert_nobody_was_restarted(system, pids)
    assert json.loads(system.agent("b")["state"])["numbers"] == []
    system.assert_clean({"a": 200, "b": 0})


def test_redis_busy_with_somebody_s_endless_script(system: WholeSystem) -> None:
    """It answers everybody with an error, PING too: that is not an answer about anybody's life."""
    pids = system.pids()

    with little_said(system):
        system.raw.config_set("busy-reply-threshold", 50)
        endless = redis.Redis.from_url(system.server.url, socket_timeout=0.2, retry=None)
        with pytest.raises(redis.TimeoutError):
            endless.eval("while true do end", 0)
        frozen_for(5)
        wait_until(partial(script_killed, system), "the script is killed", LONG)
        endless.close()
        system.send("a", *numbers_up_to(200, first=101))
        system.wait_numbers("a", list(range(1, 201)))
        frozen_for(4)

    assert_nobody_was_restarted(system, pids)
    system.assert_clean({"a": 200, "b": 0})


def test_connections_cut_again_and_again_leak_no_descriptor(system: WholeSystem) -> None:
    pids = system.pids()
    cut_connections(system)
    most = most_descriptors(system, seconds=3)

    for last in range(110, 201, 10):
        cut_connections(system)
        system.send("a", *numbers_up_to(last, first=last - 9))
        system.wait_numbers("a", list(range(1, last + 1)))

    assert_nobody_was_restarted(system, pids)
    wait_until(lambda: descriptors(system) <= most, f"no more than {most} descriptors are open", LONG)
    system.assert_clean({"a": 200, "b": 0})


def cut_connections(system: WholeSystem) -> None:
    system.raw.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def script_killed(system: WholeSystem) -> bool:
    try:
        system.raw.script_kill()
    except redis.ResponseError as error:
        return "NOTBUSY" in str(error)
    return False


def descriptors(system: WholeSystem) -> int:
    """Open in all processes of the system together."""
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in system.processes() if alive(pid))


def most_descriptors(system: WholeSystem, *, seconds: float) -> int:
    """Within this time, in which everybody has connected again, those who had not yet when the test began too."""
    seen: set[int] = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen.add(descriptors(system))
    print(f"descriptors: {sorted(seen)}")
    return max(seen)
