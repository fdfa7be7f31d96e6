"""Fixtures of the tests against a real server."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

import pytest
import redis

from regrow_signals.connection import Connection
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits

Unchanged = Callable[[], AbstractContextManager[None]]


def dataset(url: str) -> dict[bytes, tuple[bytes, bool]]:
    """Every key with its serialised value and whether it expires, of all databases' first one."""
    client = redis.Redis.from_url(url)
    try:
        keys = sorted(cast("Iterator[bytes]", client.scan_iter(count=1000)))
        pairs = [(key, client.dump(key), client.pttl(key)) for key in keys]
        return {key: (value or b"", ttl != -1) for key, value, ttl in pairs}
    finally:
        client.close()


@pytest.fixture
def unchanged(redis_url: str) -> Unchanged:
    """``with unchanged(): ...`` fails unless the dataset is byte for byte what it was before."""

    @contextmanager
    def check() -> Generator[None, None, None]:
        before = dataset(redis_url)
        yield
        after = dataset(redis_url)
        changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        assert changed == [], f"a refusal changed {changed}"

    return check


@pytest.fixture
def keys() -> Keys:
    return Keys("regrow")


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
def connection(redis_url: str) -> Iterator[Connection]:
    opened = Connection.open(redis_url, name="test")
    yield opened
    opened.close()


@pytest.fixture
def raw(redis_url: str) -> Iterator[Any]:
    """A plain client: what a person with redis-cli sees and does. Any: redis-py types its replies as if awaited too."""
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    yield client
    client.close()
