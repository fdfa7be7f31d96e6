"""``Context``: what a handler may know besides state and signal. All of it is the same when the signal is replayed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Final, Self
from uuid import UUID

from regrow_signals.signal import Signal

__all__ = ["Context"]

# The time in `cmd` without a context: fixed, so that a test gives the same answer every day.
_TEST_TIME: Final = datetime(2020, 1, 1, tzinfo=UTC)


class Context:
    """Who is asked, by which signal, and at what time. Time and chance come from here, so a replay meets the same.

    Nothing is made before it is looked at: most handlers look at little of it.
    """

    __slots__ = ("_at_ms", "_made", "_random", "_seed", "_signal", "_uuids", "agent_id", "parent", "reply_to")

    def __init__(
        self,
        agent_id: str,
        signal: Callable[[], Signal],
        *,
        at_ms: int,
        seed: str,
        parent: str | None = None,
        reply_to: str | None = None,
    ) -> None:
        self.agent_id = agent_id
        self.parent = parent
        """The agent that spawned this one, if one did."""
        self.reply_to = reply_to
        """Where an ``ask`` waits for its answer, if the signal is one."""
        self._signal = signal
        self._made: Signal | None = None
        self._at_ms = at_ms
        self._seed = seed
        self._random: Random | None = None
        self._uuids: Random | None = None

    @classmethod
    def example(
        cls,
        signal: Signal,
        *,
        agent_id: str = "test",
        now: datetime = _TEST_TIME,
        seed: str = "test",
        parent: str | None = None,
        reply_to: str | None = None,
    ) -> Self:
        """A context for tests: ``Support.cmd(state, signal, ctx=Context.example(signal, now=...))``."""
        at_ms = round(now.timestamp() * 1000)
        return cls(agent_id, lambda: signal, at_ms=at_ms, seed=seed, parent=parent, reply_to=reply_to)

    def of_signal(self, signal: Signal) -> Context:
        """The context of the same moment for another signal; chance goes on where it was."""
        chance, uuids = self.random, self._uuids or Random(f"{self._seed}:uuid")
        self._uuids = uuids
        made = Context(
            self.agent_id,
            lambda: signal,
            at_ms=self._at_ms,
            seed=self._seed,
            parent=self.parent,
            reply_to=self.reply_to,
        )
        made._random, made._uuids = chance, uuids
        return made

    @property
    def signal(self) -> Signal:
        """The whole signal: id, source, subject and the rest."""
        if self._made is None:
            self._made = self._signal()
        return self._made

    @property
    def now(self) -> datetime:
        """When the signal was accepted, by the clock of Redis; UTC."""
        return datetime.fromtimestamp(self._at_ms / 1000, UTC)

    @property
    def random(self) -> Random:
        """Chance that is the same in a replay: seeded by the agent's birth and the signal's acceptance."""
        if self._random is None:
            self._random = Random(self._seed)
        return self._random

    def uuid(self) -> UUID:
        """A UUID (version 4) that is the same in a replay; each call gives the next one."""
        if self._uuids is None:
            # A row of its own: how often `random` was used does not change the ids.
            self._uuids = Random(f"{self._seed}:uuid")
        return UUID(int=self._uuids.getrandbits(128), version=4)
