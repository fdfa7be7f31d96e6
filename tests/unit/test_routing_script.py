"""The matcher inside the scripts and the one in Python are the same: whom a publish reaches, and in which order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regrow.client import Client
from regrow.testing.memory_connection import MemoryConnection
from regrow.testing.memory_server import MemoryServer
from regrow_signals.calls import Command
from regrow_signals.routing import matches
from regrow_signals.subscriptions import reached_by
from tests.routing_pairs import PAIRS

AGENTS = ["a", "b", "c", "d"]

patterns = st.lists(st.sampled_from(["x", "y", "*", "**"]), min_size=1, max_size=4).map(".".join)
types = st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, max_size=5).map(".".join)
subscriptions = st.lists(st.tuples(st.sampled_from(AGENTS), patterns, st.integers(-1, 1)), max_size=8)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    client = Client("unix:///in-memory")
    client.connection = MemoryConnection(MemoryServer(lambda: 1_600_000_000))
    yield client


def empty(client: Client) -> None:
    client.connection.command(Command(("FLUSHALL",), str))
    for agent in AGENTS:
        words = ("HSET", client.keys.agent(agent), "birth", f"b-{agent}", "type", "desk", "cursor", "0-0")
        client.connection.command(Command(words, int))


@given(made=subscriptions, type_name=types)
@settings(max_examples=300, deadline=None)
def test_a_publish_reaches_whom_the_rule_says_in_its_order(
    client: Client, made: list[tuple[str, str, int]], type_name: str
) -> None:
    empty(client)
    for agent, pattern, priority in made:
        client.subscribe(agent, pattern, priority=priority)

    told = client.publish(type_name, 1)

    expected = [one.agent for one in reached_by(client.subscriptions(), type_name)]
    assert [one.agent for one in told.receipts] == expected
    assert set(expected) == {agent for agent, pattern, _ in made if matches(pattern, type_name)}


@pytest.mark.parametrize(("pattern", "type_name", "fits", "why"), PAIRS)
def test_pair(client: Client, pattern: str, type_name: str, fits: bool, why: str) -> None:
    del why
    empty(client)
    client.subscribe("a", pattern)

    assert [one.agent for one in client.publish(type_name, 1).receipts] == (["a"] if fits else [])
