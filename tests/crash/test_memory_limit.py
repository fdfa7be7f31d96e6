"""``max_memory`` bites, however a worker grows: its reason is ``memory``, its signal is charged, the others live on."""

from __future__ import annotations

import pytest

from regrow_workers.memory_limit import private_bytes
from tests.crash.node_harness import Decisions, NodeUnderTest, StartNode
from tests.crash.recorder_app import Misbehave, Number

pytestmark = pytest.mark.crash

LIMIT = str(96 << 20)


@pytest.fixture
def node(start_node: StartNode) -> NodeUnderTest:
    return start_node(application="tests.crash.memory_app:tree")


def start(decisions: Decisions, *agents: str) -> str:
    node = decisions.node_id()
    for agent in agents:
        decisions.register(agent)
        decisions.start(agent, node, max_memory=LIMIT)
    return node


@pytest.mark.parametrize("how", ["grow", "jump"])
def test_memory_is_the_reason_and_the_signal_is_charged_until_it_is_dead(
    decisions: Decisions, node: NodeUnderTest, how: str
) -> None:
    where = start(decisions, "a", "good")
    decisions.send("a", Number(n=1), Misbehave(how=how), Number(n=2))
    for number in (1, 2):
        end = decisions.wait_end("a", number)
        assert (end["reason"], end["charged"]) == ("memory", "1"), node.said()
        decisions.send("good", Number(n=number))
        decisions.start("a", where, max_memory=LIMIT)

    decisions.wait_numbers("a", [1, 2])
    assert [letter["reason"] for letter in decisions.dead("a")] == ["max_attempts"]
    decisions.wait_numbers("good", [1, 2])
    assert decisions.ends("good") == []


def test_a_leak_over_many_signals_is_found_between_them(decisions: Decisions, node: NodeUnderTest) -> None:
    start(decisions, "a")
    decisions.send("a", *[Misbehave(how="leak")] * 15)

    assert decisions.wait_end("a")["reason"] == "memory", node.said()


def test_who_is_refused_memory_and_does_without_lives_on(decisions: Decisions, node: NodeUnderTest) -> None:
    start(decisions, "a")
    decisions.send("a", Misbehave(how="swallow"), Misbehave(how="share"), Number(n=1))

    decisions.wait_numbers("a", [1])
    assert decisions.ends("a") == []


def test_what_is_shared_with_the_spawner_does_not_count(decisions: Decisions, node: NodeUnderTest) -> None:
    start(decisions, "a")
    pid = decisions.wait_running("a", 1)

    assert 0 < private_bytes(pid) < 20 << 20
