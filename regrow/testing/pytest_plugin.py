"""Fixtures that pytest finds by itself where ``regrow[testing]`` is installed: ``harness`` and ``regrow_server``.

Nothing of regrow is imported before one of them is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from regrow.embedded_redis import ServerInfo
    from regrow.testing.harness import Harness

__all__ = ["harness", "regrow_server"]


@pytest.fixture
def harness() -> type[Harness]:
    """Makes a tree under test: ``def test_it(harness): helpdesk = harness(tree)``."""
    from regrow.testing.harness import Harness  # only for tests that ask

    return Harness


@pytest.fixture(scope="session")
def regrow_server() -> Iterator[ServerInfo]:
    """A real Redis, one for each test run: ``Client(regrow_server.url, namespace="a-test")``."""
    from regrow.testing.embedded_server import server  # only for tests that ask

    with server() as info:
        yield info
