"""Nodes as processes: lost, drained, full, labelled, late. What is not an agent's fault is not charged to it.

One watchdog for all; each test has nodes of its own, told apart by a label.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

from regrow import Supervisor
from regrow_signals.ids import new_id
from tests.conftest import wait_until
from tests.crash.supervision_app import Played, player
from tests.crash.supervision_harness import LONG, Service, SupervisedSystem, Watched

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def system() -> Generator[SupervisedSystem]:
    with SupervisedSystem.running(nodes=0, REGROW_NODE_TIMEOUT="3", REGROW_HEARTBEAT="0.5") as running:
        yield running


class Site:
    """The nodes of one test."""

    def __init__(self, system: SupervisedSystem) -> None:
        self.system = system
        self.name = f"s{new_id()[:8]}"
        self.nodes: list[Service] = []

    def node(self, *more: str, **settings: str) -> Service:
        """A node that carries this test's label, once it has joined."""
        labels = ",".join([f"site={self.name}", *more])
        node = self.system.node(
            REGROW_LABELS=labels, REGROW_NODE_TIMEOUT="3", REGROW_HEARTBEAT="0.5", **settings
        )
        self.nodes.append(node)
        pid = f"-{node.process.pid}-"
        wait_until(lambda: any(pid in each for each in self.system.node_ids()), "the node joins", LONG)
        return node

    def child(self, letter: str, **more: Any) -> Any:
        labels = {"site": self.name, **more.pop("labels", {})}
        return player(f"{self.name}-{letter}", labels=labels, **more)

    def branch(self, letters: str, **flags: Any) -> Supervisor:
        return Supervisor(self.name, [self.child(letter) for letter in letters], **flags)

    def homes(self, branch: Watched) -> Counter[str]:
        return Counter(self.system.record(agent)["node"] for agent in branch.agents())

    def on(self, node: str, branch: Watched) -> set[str]:
        """The agents that live on this node, of which there must be some."""
        found = {agent for agent in branch.agents() if self.system.record(agent)["node"] == node}
        assert found, f"{node} has none of {branch.agents()}"
        return found

    def all_run(self, branch: Watched) -> bool:
        running = all(map(self.system.is_running, branch.agents()))
        return running and self.system.at_rest(branch.path)


@pytest.fixture
def site(system: SupervisedSystem) -> Generator[Site]:
    made = Site(system)
    yield made
    for node in made.nodes:
        node.send(signal.SIGCONT)
        node.kill()


def test_agents_of_a_killed_node_go_on_elsewhere_uncharged(system: SupervisedSystem, site: Site) -> None:
    first, second = site.node(), site.node()
    with system.branch(site.branch("abcdef", max_restarts=0)) as branch:
        branch.watch()
        lost = system.node_of(first)
        moved = site.on(lost, branch)

        first.kill()
        wait_until(lambda: lost not in site.homes(branch) and site.all_run(branch), "all run elsewhere", LONG)

        assert site.homes(branch) == {system.node_of(second): 6}
        assert branch.untouched() == branch.lives.keys() - moved
        assert {agent for agent, _ in branch.reports("child_terminated")} == moved
        assert {reason for _, reason in branch.reports("child_terminated")} == {"node_lost"}
        assert system.supervisor(branch.path).stamps == ()


def test_a_frozen_node_is_lost_and_begins_anew_when_it_wakes(system: SupervisedSystem, site: Site) -> None:
    first, _ = site.node(), site.node()
    frozen = system.node_of(first)
    with system.branch(site.branch("abcd", max_restarts=0)) as branch:
        branch.watch()
        moved = site.on(frozen, branch)

        first.send(signal.SIGSTOP)
        wait_until(
            lambda: frozen not in site.homes(branch) and site.all_run(branch), "all run elsewhere", LONG
        )
        first.send(signal.SIGCONT)
        wait_until(
            lambda: any(f"-{first.process.pid}-" in node and node != frozen for node in system.node_ids()),
            "it joins under a new id",
            LONG,
        )

        assert branch.untouched() == branch.lives.keys() - moved
        wait_until(lambda: site.all_run(branch), "all run, and nothing is left to decide", LONG)


def test_drain_moves_the_agents_uncharged_and_the_node_ends(system: SupervisedSystem, site: Site) -> None:
    first, second = site.node(), site.node()
    with system.branch(site.branch("abcd", max_restarts=0)) as branch:
        branch.watch()
        leaving, staying = system.node_of(first), system.node_of(second)
        for agent in branch.agents():
            system.client.send(agent, Played(n=1)).wait(LONG)
        kept = site.on(staying, branch)

        said = system.command("drain", leaving)

        assert said.returncode == 0, said.stderr
        assert first.process.wait(LONG) == 0
        wait_until(lambda: site.homes(branch) == {staying: 4} and site.all_run(branch), "all moved", LONG)
        assert branch.untouched() == kept
        assert system.supervisor(branch.path).stamps == ()
        assert {system.record(agent)["state"] for agent in branch.agents()} == {'{"played":[1]}'}
        assert {reason for _, reason in branch.reports("child_terminated")} == {"drained"}
        again = system.command("drain", leaving)
        assert again.returncode != 0 and "no node" in again.stderr


def test_an_agent_with_a_label_waits_for_a_node_that_has_it(system: SupervisedSystem, site: Site) -> None:
    site.node()
    gpu = f"{site.name}-gpu"
    children = [site.child("plain"), site.child("gpu", labels={"gpu": "a100"})]
    with system.branch(Supervisor(site.name, children, max_restarts=0)) as branch:
        wait_until(lambda: system.is_running(f"{site.name}-plain"), "the one without runs", LONG)
        assert system.record(gpu)["status"] == "waiting"
        receipt = system.client.send(gpu, Played(n=1))  # accepted, though nothing runs it yet

        able = site.node("gpu=a100")
        assert receipt.wait(LONG).state == "applied"

        assert system.record(gpu)["node"] == system.node_of(able)
        assert system.supervisor(branch.path).stamps == ()
        wait_until(lambda: system.supervisor(branch.path).children[gpu].status == "running", "known", LONG)
        assert system.supervisor(branch.path).children[gpu].reason == ""


def test_starts_are_spread_and_a_node_that_joins_gets_its_share_of_new_ones(
    system: SupervisedSystem, site: Site
) -> None:
    first, second = site.node(), site.node()
    with system.branch(site.branch("abcd")) as branch:
        branch.watch()
        assert site.homes(branch) == {system.node_of(first): 2, system.node_of(second): 2}

        third = site.node()
        for letter in "ef":
            system.client.start_child(branch.path, site.child(letter))

        assert branch.untouched() == branch.lives.keys()  # nothing that runs is moved
        assert site.homes(branch)[system.node_of(third)] == 2


def test_a_full_node_refuses_uncharged_and_the_start_waits_for_room(
    system: SupervisedSystem, site: Site
) -> None:
    site.node(REGROW_MAX_WORKERS="2")
    a, _, c, d = (f"{site.name}-{letter}" for letter in "abcd")
    with system.branch(site.branch("abc", max_restarts=0)) as branch:
        wait_until(lambda: system.record(c).get("status") == "waiting", "the third waits", LONG)
        assert "slots are taken" in system.supervisor(branch.path).children[c].reason

        system.client.terminate_child(branch.path, a)
        wait_until(lambda: system.is_running(c), "room was made", LONG)

        started = system.client.start_child(branch.path, site.child("d"))
        assert started.incarnation is None and "slots are taken" in started.why
        other = site.node()
        wait_until(lambda: system.is_running(d), "another node takes it", LONG)
        assert system.record(d)["node"] == system.node_of(other)
        assert system.supervisor(branch.path).stamps == ()
