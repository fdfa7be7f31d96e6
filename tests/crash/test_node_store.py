"""A node while Redis is frozen, gone, or answers into the void: nobody is ended for it, and limits still bite."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from regrow_signals.scripts import load
from tests.conftest import PrivateServer, wait_until
from tests.crash.node_harness import Decisions, StartNode, numbers
from tests.crash.processes import alive, cpu_ticks
from tests.crash.recorder_app import Forward, Misbehave, Number
from tests.crash.reply_dropper import ReplyDropper

pytestmark = pytest.mark.crash


def test_a_deadline_bites_while_redis_is_frozen_and_is_told_afterwards(
    own_server: PrivateServer, decisions: Decisions, start_node: StartNode
) -> None:
    start_node()
    decisions.register("a")
    decisions.send("a", Misbehave(how="spin"))
    pid = decisions.wait_running("a", decisions.start("a", decisions.node_id(), deadline_ms="1500"))
    wait_until(lambda: cpu_ticks(pid) > 10, "the handler spins")
    assert own_server.process is not None

    own_server.process.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: not alive(pid), "the node ends the worker without Redis", timeout=10)
    finally:
        own_server.process.send_signal(signal.SIGCONT)

    assert decisions.wait_end("a")["reason"] == "deadline"


def test_redis_killed_and_started_again_ends_nobody(
    own_server: PrivateServer, decisions: Decisions, start_node: StartNode
) -> None:
    parent = start_node(log_level="INFO")
    decisions.register("a")
    pid = decisions.wait_running("a", decisions.start("a", decisions.node_id()))
    decisions.send("a", *numbers(1, 50))
    decisions.wait_numbers("a", list(range(1, 51)))
    wait_until(lambda: decisions.raw.info("persistence")["aof_pending_bio_fsync"] == 0, "data is on disk")

    own_server.kill()
    with pytest.raises(AssertionError):
        wait_until(lambda: not alive(pid), "a worker ends for it", timeout=2.5)
    own_server.start()
    decisions.send("a", *numbers(51, 60))

    decisions.wait_numbers("a", list(range(1, 61)))
    assert alive(pid)
    assert decisions.agent("a")["incarnation"] == "1"
    assert decisions.ends("a") == []
    away = [line for line in parent.said().splitlines() if "store_away" in line]
    assert 1 <= len(away) <= 4, "one line for each connection, not one for each try"


def test_a_damaged_key_of_an_agent_waits_to_be_mended_and_blames_no_signal(
    decisions: Decisions, start_node: StartNode
) -> None:
    start_node(log_level="INFO")
    decisions.register("a")
    pid = decisions.wait_running("a", decisions.start("a", decisions.node_id()))
    journal = decisions.keys.journal("a")
    decisions.raw.set(journal, "no stream")

    decisions.send("a", *numbers(1, 20))
    with pytest.raises(AssertionError):
        wait_until(lambda: not alive(pid), "the worker ends for it", timeout=1.5)
    decisions.raw.delete(journal)

    decisions.wait_numbers("a", list(range(1, 21)))
    assert decisions.agent("a")["incarnation"] == "1"
    assert (decisions.ends("a"), decisions.dead("a")) == ([], [])


@pytest.mark.parametrize(
    "order",
    [
        {"order": "start", "agent": "a", "incarnation": "99"},
        {"order": "stop"},
        {"order": "stop", "agent": "a", "incarnation": "x"},
        {"order": "stop", "agent": "a", "incarnation": "1", "shutdown_ms": "abc"},
        {"order": "dance"},
    ],
)
def test_an_order_that_makes_no_sense_costs_a_log_line_and_no_agent(
    decisions: Decisions, start_node: StartNode, order: Any
) -> None:
    parent = start_node(log_level="INFO")
    decisions.register("a")
    pid = decisions.wait_running("a", decisions.start("a", decisions.node_id()))

    decisions.raw.xadd(decisions.keys.control(decisions.node_id()), order)

    wait_until(lambda: "_order" in parent.said(), "the node has said something of it")
    decisions.send("a", *numbers(1, 3))
    decisions.wait_numbers("a", [1, 2, 3])
    assert alive(pid)


def test_a_server_that_throws_keys_away_is_refused_at_the_door(
    own_server: PrivateServer, decisions: Decisions, start_node: StartNode
) -> None:
    decisions.raw.config_set("maxmemory", "100mb")
    decisions.raw.config_set("maxmemory-policy", "allkeys-lru")

    parent = start_node()

    assert parent.process.wait(20) == 69
    (line,) = [line for line in parent.said().splitlines() if "ERROR" in line]
    assert "maxmemory-policy" in line


def test_an_end_while_redis_is_away_is_told_once_it_is_back(
    own_server: PrivateServer, decisions: Decisions, start_node: StartNode
) -> None:
    start_node()
    node = decisions.node_id()
    decisions.register("a")
    pid = decisions.wait_running("a", decisions.start("a", node))
    wait_until(lambda: decisions.raw.info("persistence")["aof_pending_bio_fsync"] == 0, "data is on disk")
    own_server.kill()

    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid), "the worker is dead")
    own_server.start()

    assert decisions.wait_end("a")["reason"] == "signal:SIGKILL"


def test_a_drain_without_redis_ends_in_its_time_and_says_so(
    own_server: PrivateServer, decisions: Decisions, start_node: StartNode
) -> None:
    parent = start_node(drain=1.0)
    decisions.register("a")
    pid = decisions.wait_running("a", decisions.start("a", decisions.node_id()))
    own_server.kill()

    parent.ask_to_end()

    assert parent.process.wait(4) == 75
    assert not alive(pid)


@pytest.mark.parametrize("script", ["commit", "claim", "release"])
def test_a_lost_reply_doubles_nothing(
    redis_url: str, decisions: Decisions, start_node: StartNode, script: str
) -> None:
    with ReplyDropper(redis_url, load(script).sha.encode()) as between:
        start_node(between.url)
        node = decisions.node_id()
        decisions.register("a")
        decisions.start("a", node)
        decisions.send("a", *numbers(1, 200))
        decisions.wait_numbers("a", list(range(1, 201)))
        decisions.send("a", Misbehave(how="stop"))

        assert decisions.wait_end("a")["reason"] == "normal"
        assert between.dropped == 1
    assert decisions.agent("a")["incarnation"] == "1"
    assert decisions.agent("a")["clean"] == "1"
    assert decisions.numbers("a") == list(range(1, 201))


def test_held_emits_are_delivered_by_the_node_once_there_is_room(
    decisions: Decisions, start_node: StartNode
) -> None:
    start_node()
    node = decisions.node_id()
    decisions.register("a")
    decisions.register("b", max_mailbox=2)
    decisions.send("a", *[Forward(to="b", n=n) for n in range(1, 8)])

    decisions.start("a", node)
    wait_until(lambda: decisions.raw.zcard(decisions.keys.held) == 1, "emits of a are held")
    decisions.start("b", node)

    decisions.wait_numbers("b", [1, 2, 3, 4, 5, 6, 7])
    wait_until(lambda: decisions.raw.zcard(decisions.keys.held) == 0, "nothing is held any more")
    decisions.send("b", Number(n=8))
    decisions.wait_numbers("b", [1, 2, 3, 4, 5, 6, 7, 8])
