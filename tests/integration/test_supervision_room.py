"""A node that is full is passed over, uncharged, until there is room again, seen or guessed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from regrow_signals import nodes
from regrow_signals.nodes import ExitReport
from regrow_supervisor.spec import Supervisor
from tests.integration.test_watchdog import KEYS, SimulatedNode, Support, World


class SmallNode(SimulatedNode):
    """Takes so many, and refuses the rest as a node does whose slots are taken."""

    room = 1

    def read(self) -> list[dict[str, str]]:
        taken: list[dict[str, str]] = []
        for order in super().read():
            if order["order"] == "start" and len(self.running) + len(taken) >= self.room:
                report = ExitReport(
                    self.name, order["agent"], int(order["incarnation"]), "no_room", "none", False
                )
                self.connection.call(nodes.report_exit(KEYS, report))
            else:
                taken.append(order)
        return taken


@pytest.fixture
def world(redis_url: str) -> Iterator[World]:
    made = World(redis_url)
    yield made
    assert made.reloads == 0, "a conflict without a cause"
    for connection in (made.look, *made.opened):
        connection.close()


def small(world: World, name: str) -> SmallNode:
    node = SmallNode(world.url, name)
    world.opened.append(node.connection)
    return node


def desk() -> Supervisor:
    return Supervisor("desk", [Support.child("a"), Support.child("b")], max_restarts=0)


def test_a_refused_start_waits_uncharged_and_begins_when_a_slot_is_free(world: World) -> None:
    node, watchdog = small(world, "n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    assert (world.agent("a")["status"], world.agent("b")["status"]) == ("running", "waiting")

    world.ask("hold", target="a")
    world.settle(watchdog, node)

    assert (world.agent("a")["status"], world.agent("b")["status"]) == ("held", "running")
    assert world.record("desk")["status"] == "running"


def test_the_next_node_is_asked_in_the_same_moment(world: World) -> None:
    first, watchdog = small(world, "n1"), world.watchdog(desk())
    first.room = 0
    second = world.node("n2")
    world.settle(watchdog, first, second)

    assert sorted(second.running) == ["a", "b"]
    assert world.events("waiting") == []


def test_room_that_nobody_told_of_is_found_after_a_while(world: World) -> None:
    node, watchdog = small(world, "n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    node.room = 2

    world.pass_time(watchdog, 4.0, node)
    world.settle(watchdog, node)

    assert sorted(node.running) == ["a", "b"]
    assert world.agent("a")["incarnation"] == "1"
