"""SIGKILL to an agent, the spawner, the node, the watchdog, all of them, the launcher: all comes back, with one owner.

How long it took is printed beside the bound, and not asserted: the machine of a test is shared. `benchmarks/` measures.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from tests.conftest import PrivateServer, wait_until
from tests.crash.marked_processes import workers_of_nodes
from tests.crash.whole_system import LONG, WholeSystem, numbers_up_to

pytestmark = [pytest.mark.crash, pytest.mark.timeout(150)]

AGENTS = ("a", "b", "c", "d", "e", "f")


@pytest.fixture
def system(own_server: PrivateServer) -> Iterator[WholeSystem]:
    with WholeSystem.on(own_server, "several") as system:
        yield system


@contextmanager
def measured(what: str, bound: float) -> Generator[None, None, None]:
    begun = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - begun:.3f} s (bound {bound:g} s)")


def start_and_feed(system: WholeSystem, *, watchdogs: int = 1) -> dict[str, int]:
    for _ in range(watchdogs):
        system.watchdog()
    system.node()
    pids = system.wait_running(*AGENTS)
    feed(system, 1, 50)
    return pids


def feed(system: WholeSystem, first: int, last: int) -> None:
    for agent in AGENTS:
        system.send(agent, *numbers_up_to(last, first=first))


def wait_all_seen(system: WholeSystem, last: int) -> None:
    for agent in AGENTS:
        system.wait_numbers(agent, list(range(1, last + 1)))


def all_new(system: WholeSystem, before: dict[str, int]) -> bool:
    return all(
        system.agent(agent)["status"] == "running"
        and int(system.agent(agent)["pid"] or 0) not in (0, before[agent])
        for agent in AGENTS
    )


def test_a_killed_agent_is_back_and_the_others_noticed_nothing(system: WholeSystem) -> None:
    before = start_and_feed(system)

    os.kill(before["a"], signal.SIGKILL)
    with measured("agent killed", 1):
        wait_until(lambda: system.agent("a")["incarnation"] == "2", "a restart is decided", LONG)
        system.wait_running("a")
    feed(system, 51, 100)

    wait_all_seen(system, 100)
    after = system.pids()
    assert {agent for agent in AGENTS if after[agent] != before[agent]} == {"a"}
    assert system.incarnations() == {"a": "2", **dict.fromkeys(AGENTS[1:], "1")}
    system.assert_clean(dict.fromkeys(AGENTS, 100))


def test_after_a_killed_spawner_all_its_agents_are_back_uncharged(system: WholeSystem) -> None:
    before = start_and_feed(system)

    os.kill(system.spawner_of(system.services[-1]), signal.SIGKILL)
    with measured("spawner killed", 1):
        wait_until(lambda: all_new(system, before), "all agents run anew", LONG)
    feed(system, 51, 100)

    wait_all_seen(system, 100)
    assert {each["reason"] for each in system.events("exited")} == {"spawner_lost"}
    assert system.incarnations() == dict.fromkeys(AGENTS, "2")
    system.assert_clean(dict.fromkeys(AGENTS, 100))


def test_after_a_killed_node_another_takes_its_agents_over(system: WholeSystem) -> None:
    before = start_and_feed(system)
    node = system.services[-1]
    family = system.family(node)
    other = system.node()
    wait_until(lambda: system.raw.zcard(system.keys.nodes) == 2, "the other node joins", LONG)

    node.kill()
    feed(system, 51, 100)
    with measured("node killed", 5):
        wait_until(lambda: all_new(system, before), "all agents run on the other node", LONG)

    assert not set(family) & set(system.processes())
    wait_all_seen(system, 100)
    assert {int(pid) for pid in system.pids().values()} <= set(system.family(other))
    assert {each["reason"] for each in system.events("exited")} == {"node_lost"}
    system.assert_clean(dict.fromkeys(AGENTS, 100))


def test_a_node_killed_while_its_workers_start_leaves_none_of_them(system: WholeSystem) -> None:
    """The instant in which a child is forked and has not yet asked the kernel to die with its parent."""
    system.watchdog()
    for _ in range(3):
        node = system.node()
        wait_until(lambda node=node: len(system.family(node)) > 2, "a worker is forked", LONG)  # type: ignore[misc]
        node.kill()
        wait_until(lambda: not workers_of_nodes(system.processes()), "its workers are gone", LONG)
        system.services.remove(node)

    system.node()
    feed(system, 1, 50)

    system.assert_clean(dict.fromkeys(AGENTS, 50))


def test_after_a_killed_watchdog_the_standby_mends_what_died_meanwhile(system: WholeSystem) -> None:
    before = start_and_feed(system, watchdogs=2)
    leader = next(each for each in system.services if "leading" in each.log.read_text())

    leader.kill()
    os.kill(before["a"], signal.SIGKILL)
    with measured("watchdog killed", 4):
        wait_until(lambda: system.agent("a")["incarnation"] == "2", "the standby restarts it", LONG)
        system.wait_running("a")
    feed(system, 51, 100)

    wait_all_seen(system, 100)
    assert system.incarnations() == {"a": "2", **dict.fromkeys(AGENTS[1:], "1")}
    system.assert_clean(dict.fromkeys(AGENTS, 100))


def test_after_all_of_them_were_killed_a_new_start_goes_on_from_the_last_commit(system: WholeSystem) -> None:
    before = start_and_feed(system, watchdogs=2)
    wait_all_seen(system, 50)
    os.kill(before["f"], signal.SIGSTOP)
    feed(system, 51, 75)

    for service in system.services:
        service.kill()
    wait_until(lambda: not system.processes(), "none of their processes is left", LONG)
    feed(system, 76, 100)
    with measured("all killed and started again", 8):
        for start in (system.watchdog, system.watchdog, system.node):
            start()
        wait_until(lambda: all_new(system, before), "all agents run anew", LONG)

    wait_all_seen(system, 100)
    assert system.incarnations() == dict.fromkeys(AGENTS, "2")
    system.assert_clean(dict.fromkeys(AGENTS, 100))


def test_after_a_killed_launcher_nothing_is_left_and_the_next_goes_on(system: WholeSystem) -> None:
    words = (sys.executable, "-m", "regrow", "up", system.tree)
    launcher = system.start("up", *words, REGROW_METRICS_PORT="0")
    before = system.wait_running(*AGENTS)
    feed(system, 1, 50)
    wait_all_seen(system, 50)

    launcher.kill()
    # At once, while the old ones are still ending.
    with measured("launcher killed and started again", 8):
        system.start("up", *words, REGROW_METRICS_PORT="0")
        feed(system, 51, 100)
        wait_until(lambda: all_new(system, before), "all agents run anew", LONG)

    wait_all_seen(system, 100)
    assert not {*before.values()} & set(system.processes())
    system.assert_clean(dict.fromkeys(AGENTS, 100))
