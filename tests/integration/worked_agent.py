"""An agent on a real server whose worker is a thread of the test: it can be held before each commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from regrow_signals.agents import Loaded, Owner, commit
from regrow_signals.connection import Connection
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_workers.agent import Agent
from regrow_workers.batch import plan
from tests.integration.stage import Stage

__all__ = ["WorkedAgent", "worked"]


class WorkedAgent:
    """``may_commit`` is set at first: clear it, and what is planned waits; ``holding``: something does."""

    def __init__(
        self, url: str, agent: str, agent_type: type[Agent[Any]], owner: Owner, loaded: Loaded
    ) -> None:
        self.may_commit = threading.Event()
        self.may_commit.set()
        self.holding = threading.Event()
        self._stop = threading.Event()
        self._connection = Connection.open(url, name="worker")
        self._keys, self._limits = Keys("regrow"), Limits()
        self._agent, self._type = agent, agent_type
        self._owner, self._loaded = owner, loaded
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self.may_commit.set()
        self._thread.join()
        self._connection.close()

    def _work(self) -> None:
        mailbox = self._keys.mailbox(self._agent)
        while not self._stop.is_set():
            entries = self._connection.read_stream(mailbox, self._loaded.cursor, count=100, block_ms=50)
            if entries:
                found = plan(
                    self._type, self._loaded, entries, self._limits, time.monotonic, owner=self._owner
                )
                self.holding.set()
                self.may_commit.wait()
                self.holding.clear()
                self._connection.call(commit(self._keys, self._limits, found.commit))
                self._loaded = found.after


@contextmanager
def worked(stage: Stage, url: str, agent: str, agent_type: type[Agent[Any]]) -> Generator[WorkedAgent]:
    """Registered, claimed and at work until the block ends. A handler that crashes is survived here."""
    owner, loaded = stage.live(agent)
    lives = WorkedAgent(url, agent, agent_type, owner, loaded)
    try:
        yield lives
    finally:
        lives.end()
