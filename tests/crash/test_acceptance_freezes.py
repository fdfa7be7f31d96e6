"""SIGSTOP of an owner until another took over, then SIGCONT: its commit is refused, it ends, nothing is doubled."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.conftest import PrivateServer, wait_until
from tests.crash.acceptance_app import Hold
from tests.crash.processes import alive, state
from tests.crash.whole_system import LONG, Service, WholeSystem, numbers_up_to

pytestmark = [pytest.mark.crash, pytest.mark.timeout(150)]


@pytest.fixture
def system(own_server: PrivateServer) -> Iterator[WholeSystem]:
    with WholeSystem.on(own_server, "pair") as system:
        system.watchdog()
        yield system


def freeze(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(state(pid) == "T" for pid in pids), "all are stopped", LONG)


def thaw_worker_first(system: WholeSystem, family: list[int], old: int) -> None:
    """The old owner alone, so that it is refused by Redis before its node can learn anything; then all the others."""
    os.kill(old, signal.SIGCONT)
    wait_until(lambda: not alive(old), "the old owner ends by itself", LONG)
    for pid in family:
        if pid != old:
            os.kill(pid, signal.SIGCONT)


def wait_taken_over(system: WholeSystem, agent: str, old: int) -> None:
    wait_until(
        lambda: system.agent(agent)["incarnation"] == "2" and system.agent(agent)["status"] == "running",
        f"{agent} runs elsewhere",
        LONG,
    )
    assert system.pids()[agent] != old


def second_node(system: WholeSystem) -> Service:
    node = system.node()
    wait_until(lambda: system.raw.zcard(system.keys.nodes) == 2, "the second node joins", LONG)
    return node


def test_an_owner_frozen_while_idle_is_refused_and_ends_when_it_wakes(system: WholeSystem) -> None:
    first = system.node()
    old = system.wait_running("a", "b")
    system.send("a", *numbers_up_to(100))
    system.wait_numbers("a", list(range(1, 101)))
    family = system.family(first)
    second_node(system)

    freeze(family)
    # Redis hands these to the frozen worker, too, for it waits for them: it will apply them when it wakes.
    system.send("a", *numbers_up_to(200, first=101))
    wait_taken_over(system, "a", old["a"])
    system.wait_numbers("a", list(range(1, 201)))
    before = system.raw.hgetall(system.keys.agent("a"))
    thaw_worker_first(system, [pid for pid in family if pid != old["b"]], old["a"])

    assert system.raw.hgetall(system.keys.agent("a")) == before
    os.kill(old["b"], signal.SIGCONT)
    wait_until(lambda: not alive(old["b"]), "the other old owner ends, too", LONG)
    assert [each["reason"] for each in system.events("exited", "a")] == ["node_lost"]
    system.assert_clean({"a": 200, "b": 0})


def test_an_owner_frozen_inside_a_handler_is_refused_and_ends_when_it_wakes(system: WholeSystem) -> None:
    gate = system.server.folder / "gate"
    first = system.node()
    old = system.wait_running("a", "b")
    system.send("a", *numbers_up_to(10), Hold(n=11, gate=str(gate)))
    inside = gate.with_name(f"gate.{old['a']}")
    wait_until(inside.is_symlink, "the first owner is inside the handler", LONG)
    family = system.family(first)
    second_node(system)

    freeze(family)
    wait_taken_over(system, "a", old["a"])
    # The new owner tries the same signal; both leave the handler now, the old one once it is woken.
    gate.touch()
    system.wait_numbers("a", list(range(1, 12)))
    system.send("a", *numbers_up_to(20, first=12))
    system.wait_numbers("a", list(range(1, 21)))
    before = system.raw.hgetall(system.keys.agent("a"))
    thaw_worker_first(system, family, old["a"])

    assert system.raw.hgetall(system.keys.agent("a")) == before
    wait_until(lambda: not alive(old["b"]), "the other old owner ends, too", LONG)
    system.assert_clean({"a": 20, "b": 0})


def test_a_node_frozen_for_two_seconds_loses_nothing_and_moves_nothing(system: WholeSystem) -> None:
    first = system.node()
    pids = system.wait_running("a", "b")
    second_node(system)
    node = system.agent("a")["node"]
    beat = system.raw.zscore(system.keys.nodes, node)

    # Just after a beat: with a heartbeat of 1 s before it, the node would be silent for its whole timeout of 3 s.
    wait_until(lambda: system.raw.zscore(system.keys.nodes, node) != beat, "the node beats", LONG)
    freeze(system.family(first))
    thaw_at = time.monotonic() + 2
    system.send("a", *numbers_up_to(50))
    wait_until(lambda: time.monotonic() >= thaw_at, "two seconds go by")
    for pid in system.family(first):
        os.kill(pid, signal.SIGCONT)

    system.send("a", *numbers_up_to(100, first=51))
    system.wait_numbers("a", list(range(1, 101)))
    # A verdict on those two seconds would fall within the next node timeout.
    judged_at = time.monotonic() + 3.5
    wait_until(lambda: time.monotonic() >= judged_at, "a late verdict would have fallen")
    assert system.incarnations() == {"a": "1", "b": "1"}
    assert system.pids() == pids
    system.assert_clean({"a": 100, "b": 0})
