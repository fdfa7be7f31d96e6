"""Fixtures of the node's crash tests: a node without a watchdog, on a server of the test's own or on the session's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import PrivateServer
from tests.crash.node_harness import Decisions, NodeUnderTest, StartNode


@pytest.fixture
def node_server(request: pytest.FixtureRequest) -> str:
    """The URL that ``decisions`` and ``start_node`` use: ``own_server``'s, if the test asks for that one."""
    if "own_server" in request.fixturenames:
        server: PrivateServer = request.getfixturevalue("own_server")
        return server.url
    url: str = request.getfixturevalue("redis_url")
    return url


@pytest.fixture
def decisions(node_server: str) -> Iterator[Decisions]:
    made = Decisions(node_server)
    yield made
    made.close()


@pytest.fixture
def start_node(node_server: str) -> Iterator[StartNode]:
    nodes: list[NodeUnderTest] = []

    def start(url: str = node_server, **settings: Any) -> NodeUnderTest:
        nodes.append(NodeUnderTest(url, **settings))
        return nodes[-1]

    yield start
    for node in nodes:
        node.end()
