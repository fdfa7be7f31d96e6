"""Pooled agents over real processes: slots killed at every step, or kept busy; each signal is applied once.

One watchdog and one set of agents for all tests here; each starts the nodes that it needs, and ends them.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regrow.control import ask_watchdog
from regrow_workers.settings import NodeSettings
from tests.conftest import private_server, wait_until
from tests.crash.acceptance_app import POOLED, Hold
from tests.crash.whole_system import LONG, Service, WholeSystem, numbers_up_to

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

FIRST, *OTHERS = POOLED


class Pool:
    """The system, and how many signals each agent has been sent: they are numbered."""

    def __init__(self, system: WholeSystem) -> None:
        self.system = system
        self.watchdog = self.lead()
        self.sent: Counter[str] = Counter(dict.fromkeys(POOLED, 0))
        self._nodes: list[Service] = []
        self._gates: list[Path] = []
        wait_until(lambda: system.agents() == sorted(POOLED), "all agents are registered", LONG)
        system.wait_idle(*POOLED)

    def lead(self) -> Service:
        """A watchdog that leads."""
        watchdog = self.system.watchdog(REGROW_LEASE="2")
        wait_until(lambda: any(" leading" in line for line in watchdog.said()), "it leads", LONG)
        return watchdog

    def node(self, **settings: Any) -> Service:
        """With one slot, unless told otherwise."""
        self._nodes.append(self.system.told_node({"pool_slots": 1, **settings}))
        return self._nodes[-1]

    def send(self, count: int, *agents: str) -> None:
        for agent in agents:
            last = self.sent[agent] + count
            self.system.send(agent, *numbers_up_to(last, first=self.sent[agent] + 1))
            self.sent[agent] = last

    def hold(self, agent: str, gate: Path) -> None:
        """A signal that is in hand until the gate is there."""
        self._gates.append(gate)
        self.sent[agent] += 1
        self.system.send(agent, Hold(n=self.sent[agent], gate=str(gate)))

    def seen(self, agent: str) -> int:
        return len(self.system.numbers(agent))

    def wait_seen(self, *agents: str) -> None:
        for agent in agents:
            self.system.wait_numbers(agent, list(range(1, self.sent[agent] + 1)))

    def ends(self) -> list[tuple[str, str]]:
        """Whose lives ended so far, and how."""
        return [(each["agent"], each["reason"]) for each in self.system.events("exited")]

    def settle(self) -> None:
        """After each test: all is applied, once and in order, and the nodes are gone."""
        for gate in self._gates:
            gate.touch()
        self.system.assert_settled(self.sent)
        while self._nodes:
            drain(self._nodes.pop())


def drain(node: Service) -> None:
    if not node.ended:
        node.send(signal.SIGTERM)
        wait_until(lambda: node.ended, "the node has drained", LONG)
        assert node.process.returncode == 0


@pytest.fixture(scope="module")
def one_pool() -> Iterator[Pool]:
    with private_server() as server, WholeSystem.on(server, "pooled") as system:
        pool = Pool(system)
        yield pool
        system.assert_clean(pool.sent)


@pytest.fixture
def pool(one_pool: Pool) -> Iterator[Pool]:
    before = len(one_pool.ends())
    yield one_pool
    one_pool.settle()
    print(f"{len(one_pool.ends()) - before} lives ended")


def wait_inside(gate: Path) -> int:
    """The process that waits in a handler for this gate."""

    def found() -> list[int]:
        return [int(link.name.rpartition(".")[2]) for link in gate.parent.glob(f"{gate.name}.*")]

    wait_until(found, f"a slot waits at {gate.name}", LONG)
    return found()[-1]


def test_a_slot_killed_at_any_step_costs_the_agent_in_hand_one_restart_and_nobody_a_signal(
    pool: Pool,
) -> None:
    """Five slots, one after the other; the third dies in the first handler of all that it holds."""
    steps = {
        "after_read": 1,
        "before_commit#2": 1,
        "in_handler#3": 1,
        "after_commit#4": 2,
        "before_read#5": 1,
    }
    assert NodeSettings().pool_claims >= len(POOLED)
    before = len(pool.ends())
    pool.send(3, *POOLED)

    node = pool.node(fail_points=steps, pool_extra_slots=0)

    def killed() -> int:
        return sum("slot_exited" in line and "signal:SIGKILL" in line for line in node.said())

    pool.wait_seen(*POOLED)
    wait_until(lambda: killed() == len(steps), "each of five slots has died at its step", LONG)
    pool.send(1, *POOLED)
    pool.wait_seen(*POOLED)
    assert [reason for _, reason in pool.ends()[before:]] == ["signal:SIGKILL"]


def test_a_fast_agent_answers_while_as_many_slow_ones_as_there_are_slots_run(
    pool: Pool, tmp_path: Path
) -> None:
    slow, fast = POOLED[:4], POOLED[4:]
    gates = [tmp_path / f"gate{number}" for number in range(4)]
    before = pool.ends()
    for agent, gate in zip(slow, gates, strict=True):
        pool.hold(agent, gate)
    pool.send(2, *fast)

    pool.node(pool_slots=2)
    # What the slots had taken with the slow ones, and not begun, is done by others.
    pool.wait_seen(*fast)
    assert len({wait_inside(gate) for gate in gates}) == 4
    pool.send(3, fast[0])
    pool.wait_seen(fast[0])

    assert all(pool.seen(agent) < pool.sent[agent] for agent in slow)
    for gate in gates:
        gate.touch()
    pool.wait_seen(*slow)
    assert pool.ends() == before


def test_a_node_killed_hands_its_pooled_agents_to_another_uncharged(pool: Pool, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    before = pool.ends()
    first = pool.node()
    pool.hold(FIRST, gate)
    wait_inside(gate)
    pool.node()

    first.kill()
    gate.touch()
    pool.send(2, *OTHERS)

    pool.wait_seen(*POOLED)
    assert pool.ends() == before


def test_a_node_that_joins_while_nobody_leads_serves_pooled_agents_at_once(pool: Pool) -> None:
    pool.watchdog.kill()
    pool.send(3, FIRST)

    pool.node()
    pool.wait_seen(FIRST)

    pool.watchdog = pool.lead()


def test_a_drained_node_gives_its_agents_back(pool: Pool) -> None:
    before = pool.ends()
    first = pool.node(pool_slots=2)
    begun = pool.seen(FIRST)
    pool.send(60, *POOLED)

    wait_until(lambda: pool.seen(FIRST) > begun, "the slots are at work", LONG)
    drain(first)
    pool.node(pool_slots=2)

    pool.wait_seen(*POOLED)
    assert pool.ends() == before


def test_the_steps_of_a_stopped_agent_are_refused_and_it_goes_on_when_started(
    pool: Pool, tmp_path: Path
) -> None:
    system, gate = pool.system, tmp_path / "gate"
    pool.node()
    seen, life = pool.seen(FIRST), int(system.agent(FIRST)["incarnation"])
    pool.hold(FIRST, gate)
    wait_inside(gate)

    ask_watchdog(system.client.connection, system.keys, "hold", {"target": FIRST})
    gate.touch()
    pool.send(1, OTHERS[0])
    pool.wait_seen(OTHERS[0])
    assert (pool.seen(FIRST), system.agent(FIRST)["status"]) == (seen, "held")

    ask_watchdog(system.client.connection, system.keys, "unhold", {"target": FIRST})
    pool.wait_seen(FIRST)
    record = system.agent(FIRST)
    assert (int(record["incarnation"]), json.loads(record["state"])["numbers"][-1]) == (life + 1, seen + 1)
